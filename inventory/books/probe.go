package books

import (
	"context"
	"fmt"
	"time"

	"stampede/inventory/stock"
	"stampede/platform/watch/alarm"
)

const (
	// glanceEvery is how often the sums of items on sale are compared. It costs one query and one pipeline of scripts
	// that read a state, and reads no holders.
	glanceEvery = time.Second
	// glanceAtMost bounds the items of one comparison. In a shop with more items on sale at once those that close last
	// are left to the samples of each minute.
	glanceAtMost = 2000
)

// BooksProbe compares the sums of the items on sale every second, on one instance, and raises books-broken when a
// difference lasts and a read of the item's books confirms it.
func (s *Service) BooksProbe() alarm.Probe {
	since := map[int64]time.Time{}
	return alarm.Probe{Alarm: alarm.BooksBroken, Every: glanceEvery, Shared: true, Lease: "books-sums", Look: func(ctx context.Context) ([]alarm.Finding, error) {
		return s.glance(ctx, since)
	}}
}

// glance compares once; since holds the items that have differed in every comparison since then.
func (s *Service) glance(ctx context.Context, since map[int64]time.Time) (found []alarm.Finding, err error) {
	compared, err := s.glanceSums(ctx, len(since) > 0)
	if err != nil {
		return nil, err
	}
	now, items, units := time.Now(), 0, int64(0)
	for itemID := range since {
		if c, onSale := compared[itemID]; !onSale || !c.moving && c.units == 0 {
			delete(since, itemID)
		}
	}
	for itemID, c := range compared {
		if c.moving || c.units == 0 {
			continue
		}
		items, units = items+1, units+max(c.units, -c.units)
		if since[itemID].IsZero() {
			since[itemID] = now
		}
		if now.Sub(since[itemID]) < s.DiffersFor {
			continue
		}
		// Units that a move to the backup left behind are returned. The sums leave work under way aside; the books
		// classify it.
		for _, item := range c.items {
			if _, err := s.ledger.Mend(ctx, item); err != nil {
				return found, err
			}
		}
		row, ok, err := s.Book(ctx, itemID)
		if err != nil {
			return found, err
		}
		if !ok || row.Difference == 0 {
			delete(since, itemID)
			continue
		}
		found = append(found, alarm.Finding{
			Subject: fmt.Sprintf("sums of item %d", itemID), Detail: fmt.Sprintf("nothing stuck: %s", stuckRow(row)),
		})
	}
	s.differ.Set(float64(items))
	s.difference.Set(float64(units))
	return found, nil
}

// sums is an item's difference: the units that are available in Postgres and neither remaining in Redis nor possibly
// on their way there. Below zero Redis has too many. A moving item could not be compared.
type sums struct {
	units  int64
	moving bool
	items  []stock.Item // one per counter
}

// glanceSums compares the stock rows of items on sale with their states in Redis. Releases on their way make an item
// differ for a moment. Items that agree, and did not differ before, need no second read.
func (s *Service) glanceSums(ctx context.Context, differed bool) (map[int64]sums, error) {
	before, err := s.StockOnSale(ctx, glanceAtMost)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	items := stock.Items(before)
	stateOf := s.States(ctx, items)
	versions := make(map[stock.Key]int64, len(before))
	for i, st := range before {
		versions[st.Key()] = st.Version
		state, ok, err := stateOf(i)
		differed = differed || err != nil || !ok || int64(st.Available) != state.Remaining
	}
	if differed { // Postgres is read again, after Redis: a movement in between shows as a changed version
		after, err := s.StockOnSale(ctx, glanceAtMost)
		if err != nil {
			return nil, err
		}
		clear(versions)
		for _, st := range after {
			versions[st.Key()] = st.Version
		}
	}
	compared := make(map[int64]sums, len(before))
	for i, st := range before {
		state, ok, err := stateOf(i)
		if err != nil {
			return nil, fmt.Errorf("inventory: read the state of item %d: %w", st.ItemID, err)
		}
		c := compared[st.ItemID]
		// An item that is fenced, or lacks an operator's change, is not compared either.
		if !ok || !state.Ready() || state.Rev < st.Rev || versions[st.Key()] != st.Version {
			c.moving = true
		}
		d := int64(st.Available) - state.Remaining
		if d > 0 {
			d = max(0, d-(state.Seq-state.Persisted)*int64(st.UserLimit))
		}
		c.units, c.items = c.units+d, append(c.items, items[i])
		compared[st.ItemID] = c
	}
	return compared, nil
}
