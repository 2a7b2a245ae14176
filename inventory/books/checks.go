package books

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/inventory/stock"
	"stampede/platform/base/clock"
	"stampede/platform/watch/proof"
)

// Checks prove that nothing was oversold (I1), that Redis and Postgres agree on every unit and no item is stuck (I2),
// and that no mark in Redis lacks a live number (I8).
func (s *Service) Checks() []proof.Check {
	return []proof.Check{
		{ID: "I1", Name: "never oversold", Run: func(ctx context.Context) ([]proof.Violation, error) {
			orphans, err := s.withoutStock(ctx)
			if err != nil {
				return nil, err
			}
			found, err := s.prove(ctx, (*Cut).Oversold)
			return append(orphans, found...), err
		}},
		{ID: "I2", Name: "nothing stuck", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return s.prove(ctx, (*Cut).disagreements)
		}},
		{ID: "I2", Name: "every item on sale decides", Run: s.checkDeciding},
		{ID: "I2", Name: "settled items have left Redis", Run: s.checkSettled},
		{ID: "I8", Name: "no orphan in Redis", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return s.prove(ctx, (*Cut).orphans)
		}},
	}
}

// prove examines every item and returns what lasts.
func (s *Service) prove(ctx context.Context, examine func(*Cut) []Finding) (violations []proof.Violation, err error) {
	stocks, err := s.AllStock(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.Lasting(ctx, stocks, examine)
	for _, f := range found {
		violations = append(violations, f.Violation)
	}
	return violations, err
}

// withoutStock finds live orders for items that have no stock row.
func (s *Service) withoutStock(ctx context.Context) ([]proof.Violation, error) {
	// The orders are read first: a stock row exists before its first order.
	units, err := s.Deps.Books.LiveUnits(ctx)
	if err != nil {
		return nil, fmt.Errorf("inventory: read live units: %w", err)
	}
	stocks, err := s.AllStock(ctx)
	if err != nil {
		return nil, err
	}
	for _, st := range stocks {
		delete(units, st.ItemID)
	}
	var found []proof.Violation
	for itemID, u := range units {
		if n := u.Held + u.Sold; n != 0 {
			found = append(found, violation(itemID, "%d units are in live orders, but the item has no stock row.", n))
		}
	}
	return found, nil
}

const (
	// decidesWithin is how many times proof.Recheck an item on sale may need to decide again before it counts as
	// stuck: 16 s, longer than a Load that waits for publishers and for the writer.
	decidesWithin = 8
	// leftAfter is how long after the end of a sale every grant has its order row, even after an outage in its last
	// minute: far longer than a rush path lives.
	leftAfter = 15 * time.Minute
)

// checkDeciding is the part of I2 about whole items: one on sale decides, and one whose sale is over has no open
// hold, which would keep its keys for ever.
func (s *Service) checkDeciding(ctx context.Context) ([]proof.Violation, error) {
	return proof.Lasting(ctx, s.Recheck, decidesWithin, proof.BySubject, func(ctx context.Context) ([]proof.Violation, error) {
		refusing, err := s.refusing(ctx)
		if err != nil {
			return nil, err
		}
		left, err := s.leftBehind(ctx)
		return append(refusing, left...), err
	})
}

// refusing finds items on sale that Redis does not decide on. Paused ones sell nothing, and are not loaded if their
// activity was terminated before.
func (s *Service) refusing(ctx context.Context) (found []proof.Violation, err error) {
	onSale, err := s.StockOnSale(ctx, math.MaxInt32)
	onSale = slices.DeleteFunc(onSale, func(r stock.Row) bool { return r.Paused })
	if err != nil || len(onSale) == 0 {
		return nil, err
	}
	items := stock.Items(slices.CompactFunc(onSale, func(a, b stock.Row) bool { return a.ItemID == b.ItemID }))
	statuses, err := s.Health(ctx, items)
	for i, st := range statuses {
		if st.Unready() {
			found = append(found, violation(items[i].ID, "It is on sale and does not sell. %s", st.Why()))
		}
	}
	return found, err
}

// leftBehind finds items whose sale is over and that have open holds. Settled items have no keys, so they cost nothing.
func (s *Service) leftBehind(ctx context.Context) (found []proof.Violation, err error) {
	rows, err := s.LoadedStock(ctx)
	if err != nil {
		return nil, err
	}
	now, err := clock.RedisTime(ctx, s.Redis)
	if err != nil {
		return nil, fmt.Errorf("inventory: read Redis's time: %w", err)
	}
	for _, st := range rows {
		if !now.After(st.ClosesAt.Add(leftAfter)) {
			continue
		}
		state, ok, err := s.State(ctx, st.Item())
		if err != nil {
			return nil, err
		}
		open := 0
		if ok {
			err = s.OpenHolds(ctx, st.Item(), state.Epoch, func(stock.StaleHold) (bool, error) { open++; return true, nil })
		}
		if err != nil {
			return nil, err
		}
		if open > 0 {
			found = append(found, violation(st.ItemID, "Its sale is over, and Redis still waits for the orders of %d grants, so that its keys stay.", open))
		}
	}
	return found, nil
}

// checkSettled is the part of I2 about settled items: nothing writes their keys again. Keys that came back, from a
// backup of Redis or a replica that was behind, would let a late request find an old stock.
func (s *Service) checkSettled(ctx context.Context) ([]proof.Violation, error) {
	return proof.Lasting(ctx, s.Recheck, 1, proof.BySubject, s.unsettledKeys)
}

// unsettledKeys finds keys of settled items in Redis.
func (s *Service) unsettledKeys(ctx context.Context) (found []proof.Violation, err error) {
	// The settled items first: one that is settled now has lost its keys before.
	settled, err := s.SettledEpochs(ctx)
	if err != nil {
		return nil, err
	}
	stocks, err := s.AllStock(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[stock.Key]*redis.IntCmd{}
	if _, err = s.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, st := range stocks {
			if epoch, ok := settled[st.ItemID]; ok && epoch == st.Epoch {
				item := st.Item()
				counts[st.Key()] = p.Exists(ctx, append(item.EpochKeys(epoch), item.StateKey())...)
			}
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("inventory: look for keys of settled items: %w", err)
	}
	for key, count := range counts {
		if n := count.Val(); n > 0 {
			found = append(found, violation(key.ItemID, "It is settled, and Redis has %d of its keys again.", n))
		}
	}
	return found, nil
}

// Samples are checks that a running server can afford each minute: those of Checks that an item's sums can prove.
// Items at rest cost one small call each, an item on sale a read of its holders. Orphans and single orders are left
// to Checks.
func (s *Service) Samples() []proof.Check {
	return []proof.Check{
		{ID: "I1", Name: "never oversold", Run: s.sampled(oversoldRow)},
		{ID: "I2", Name: "nothing stuck", Run: s.sampled(stuckRow)},
	}
}

// sampled examines every item's sums, and suspicious ones again after proof.Recheck.
func (s *Service) sampled(wrong func(Row) string) func(context.Context) ([]proof.Violation, error) {
	return func(ctx context.Context) ([]proof.Violation, error) {
		return proof.Lasting(ctx, s.Recheck, 1, proof.BySubject, func(ctx context.Context) (found []proof.Violation, err error) {
			rows, err := s.Books(ctx)
			for _, r := range rows {
				if why := wrong(r); why != "" {
					found = append(found, violation(r.ItemID, "%s", why))
				}
			}
			return found, err
		})
	}
}

// oversoldRow describes a violation of I1 in the sums, "" if there is none. One sentence is enough to make the
// operator run verify, which reports everything.
func oversoldRow(r Row) string {
	if found := r.oversold(); len(found) > 0 {
		return found[0].Detail
	}
	if r.Loaded && !r.Unlimited && r.RedisRemaining < 0 {
		return fmt.Sprintf("Redis counts %d remaining.", r.RedisRemaining)
	}
	return ""
}

// stuckRow describes a violation of I2 in the sums, "" if there is none.
func stuckRow(r Row) string {
	if !r.Loaded || r.Difference == 0 {
		return ""
	}
	return r.difference()
}
