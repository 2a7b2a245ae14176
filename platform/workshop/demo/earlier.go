package demo

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"stampede/platform/workshop/loadgen"
)

// takeOver adopts the sales that an earlier process planned on the same
// schedule, and withdraws its other sales that are not over: a restart must not
// list the same sale twice. It runs once.
func (s *Service) takeOver(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if known { // the worker was restarted
		return nil
	}
	token, err := s.operator()
	if err != nil {
		return err
	}
	left, err := loadgen.OpenSales(ctx, s.deps.BaseURL, token, goods, isDemo)
	if err != nil {
		return err
	}
	keep, withdraw := s.sort(left, now)
	for _, sale := range withdraw {
		if err := loadgen.WithdrawSale(ctx, s.deps.BaseURL, token, sale); err != nil {
			return err
		}
	}
	for _, sale := range keep {
		s.remember(sale)
	}
	s.mu.Lock()
	s.known = true
	s.mu.Unlock()
	return nil
}

// isDemo reports whether a name is that of one of the demo's sales. That of
// `rush --demo` is not: it has no time.
func isDemo(name string) bool {
	at, ok := strings.CutPrefix(name, namePrefix)
	_, err := time.Parse(nameLayout, at)
	return ok && err == nil
}

// sort selects the sales to keep, one for each opening of the schedule, oldest
// first; the others that are not over are to be withdrawn.
func (s *Service) sort(left []loadgen.OpenSale, now time.Time) (keep, withdraw []loadgen.OpenSale) {
	slices.SortFunc(left, func(a, b loadgen.OpenSale) int {
		return cmp.Or(a.OpensAt.Compare(b.OpensAt), strings.Compare(a.ItemID, b.ItemID))
	})
	for _, sale := range left {
		again := len(keep) > 0 && keep[len(keep)-1].OpensAt.Equal(sale.OpensAt)
		inTime := sale.OpensAt.Equal(sale.OpensAt.Truncate(s.deps.Every)) && sale.ClosesAt.Sub(sale.OpensAt) == s.open() && sale.Stock == s.deps.Stock
		switch {
		case !sale.ClosesAt.After(now): // it is over
		case inTime && !again:
			keep = append(keep, sale)
		default:
			withdraw = append(withdraw, sale)
		}
	}
	return keep, withdraw
}
