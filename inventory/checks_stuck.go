package inventory

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
	"stampede/platform/watch/proof"
)

const (
	// decidesWithin is how many times proof.Recheck an item on sale may need to decide again before it counts as
	// stuck: 16 s, longer than a Load that waits for publishers and for the writer.
	decidesWithin = 8
	// leftAfter is how long after the end of a sale every grant has its order row, even after an outage in its last
	// minute: far longer than a rush path lives.
	leftAfter = 15 * time.Minute
)

// stuckItem is an item on which Redis cannot go on, and why.
type stuckItem struct {
	item Item
	why  string
}

// checkDeciding is the part of I2 about whole items: one on sale decides, and one whose sale is over has no open hold,
// which would keep its keys for ever.
func (s *Service) checkDeciding(ctx context.Context) ([]proof.Violation, error) {
	stuck, err := s.stuckItems(ctx)
	for range decidesWithin {
		if err != nil || len(stuck) == 0 {
			return nil, err
		}
		if end := app.Sleep(ctx, s.recheck); end != nil {
			return nil, end
		}
		var again []stuckItem
		if again, err = s.stuckItems(ctx); err == nil {
			stuck = both(stuck, again)
		}
	}
	var found []proof.Violation
	for _, st := range stuck {
		found = append(found, proof.Violation{Subject: fmt.Sprintf("item %d", st.item.ID), Detail: st.why})
	}
	return found, err
}

// both returns the items of the second list that are also in the first.
func both(first, second []stuckItem) (kept []stuckItem) {
	seen := make(map[Item]bool, len(first))
	for _, st := range first {
		seen[st.item] = true
	}
	for _, st := range second {
		if seen[st.item] {
			kept = append(kept, st)
		}
	}
	return kept
}

func (s *Service) stuckItems(ctx context.Context) (stuck []stuckItem, err error) {
	stocks, err := s.allStock(ctx)
	if err != nil {
		return nil, err
	}
	now, err := s.deps.Redis.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("inventory: read Redis's time: %w", err)
	}
	var onSale []Item
	for _, st := range stocks {
		switch item := st.item(); {
		case now.Before(st.OpensAt):
		case now.Before(st.ClosesAt):
			onSale = append(onSale, item)
		case now.After(st.ClosesAt.Add(leftAfter)):
			why, err := s.leftOpen(ctx, item)
			if err != nil {
				return nil, err
			}
			if why != "" {
				stuck = append(stuck, stuckItem{item, why})
			}
		}
	}
	if len(onSale) == 0 {
		return stuck, nil
	}
	statuses, err := s.Health(ctx, onSale)
	if err != nil {
		return nil, err
	}
	for i, item := range onSale {
		if statuses[i].Unready() {
			stuck = append(stuck, stuckItem{item, fmt.Sprintf("It is on sale and refuses every rush: its state in Redis is %s.", statuses[i])})
		}
	}
	return stuck, nil
}

// leftOpen describes the open holds of an item whose sale is over, "" if there are none.
func (s *Service) leftOpen(ctx context.Context, item Item) (string, error) {
	st, ok, err := s.State(ctx, item)
	if err != nil || !ok {
		return "", err
	}
	open := 0
	err = s.openHolds(ctx, item, st.Epoch, func(StaleHold, time.Time) (bool, error) { open++; return true, nil })
	if err != nil || open == 0 {
		return "", err
	}
	return fmt.Sprintf("Its sale is over, and Redis still waits for the orders of %d grants, so that its keys stay.", open), nil
}

// String names a status for operators.
func (st Status) String() string {
	switch st {
	case Unseen:
		return "unknown"
	case Good, Behind:
		return "loaded"
	case NotThere:
		return "missing"
	case Restarted:
		return "from before a restart of Redis"
	case Loading:
		return "fenced by a Load"
	case Outdated:
		return "older than its last Load"
	default:
		return fmt.Sprintf("Status(%d)", uint8(st))
	}
}

// checkSettled is the part of I2 about settled items: nothing writes their keys again. Keys that came back, from a
// backup of Redis or a replica that was behind, would let a late request find an old stock.
func (s *Service) checkSettled(ctx context.Context) ([]proof.Violation, error) {
	first, err := s.unsettledKeys(ctx)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	if err := app.Sleep(ctx, s.recheck); err != nil {
		return nil, err
	}
	second, err := s.unsettledKeys(ctx)
	var found []proof.Violation
	for itemID, n := range second {
		if first[itemID] > 0 {
			found = append(found, proof.Violation{
				Subject: fmt.Sprintf("item %d", itemID), Detail: fmt.Sprintf("It is settled, and Redis has %d of its keys again.", n),
			})
		}
	}
	return found, err
}

// unsettledKeys counts the keys of settled items in Redis, by item.
func (s *Service) unsettledKeys(ctx context.Context) (map[int64]int64, error) {
	// The settled items first: one that is settled now has lost its keys before.
	settled, err := s.settledEpochs(ctx)
	if err != nil {
		return nil, err
	}
	stocks, err := s.allStock(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[int64]*redis.IntCmd{}
	if _, err = s.deps.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, st := range stocks {
			if epoch, ok := settled[st.ItemID]; ok && epoch == st.Epoch {
				item := st.item()
				counts[st.ItemID] = p.Exists(ctx, append(item.epochKeys(epoch), item.stateKey())...)
			}
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("inventory: look for keys of settled items: %w", err)
	}
	back := map[int64]int64{}
	for itemID, count := range counts {
		if count.Val() > 0 {
			back[itemID] = count.Val()
		}
	}
	return back, nil
}
