package demo

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"stampede/platform/workshop/loadgen"
)

// takeOver goes on with the sales that an earlier process planned in the same
// rhythm, and withdraws the others that are not over: what a second start would
// only plan again must not stand in the list twice. It does so once.
func (s *Service) takeOver(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if known { // the worker was started again
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

// isDemo reports whether a name is one of the demo's own. That of `rush --demo` is
// none: it has no time.
func isDemo(name string) bool {
	at, ok := strings.CutPrefix(name, namePrefix)
	_, err := time.Parse(nameLayout, at)
	return ok && err == nil
}

// sort finds the sales to go on with, one for each opening of the rhythm, oldest
// first; the rest of those that are not over is to be withdrawn.
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
