package inventory

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/inventory/internal/inventorydb"
	"stampede/platform/base/clock"
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

// checkDeciding is the part of I2 about whole items: one on sale decides, and one whose sale is over has no open hold,
// which would keep its keys for ever.
func (s *Service) checkDeciding(ctx context.Context) ([]proof.Violation, error) {
	return proof.Lasting(ctx, s.recheck, decidesWithin, proof.BySubject, func(ctx context.Context) ([]proof.Violation, error) {
		refusing, err := s.refusing(ctx)
		if err != nil {
			return nil, err
		}
		left, err := s.leftBehind(ctx)
		return append(refusing, left...), err
	})
}

// refusing finds items on sale that Redis does not decide on.
func (s *Service) refusing(ctx context.Context) (found []proof.Violation, err error) {
	onSale, err := s.stockOnSale(ctx, math.MaxInt32)
	if err != nil || len(onSale) == 0 {
		return nil, err
	}
	items := make([]Item, len(onSale))
	for i, st := range onSale {
		items[i] = st.item()
	}
	statuses, err := s.Health(ctx, items)
	for i, st := range statuses {
		if st.Unready() {
			found = append(found, proof.Violation{
				Subject: ItemSubject(items[i].ID), Detail: "It is on sale and does not sell. " + st.Why(),
			})
		}
	}
	return found, err
}

// leftBehind finds items whose sale is over and that have open holds. Settled items have no keys, so they cost nothing.
func (s *Service) leftBehind(ctx context.Context) (found []proof.Violation, err error) {
	rows, err := inventorydb.New(s.deps.DB).LoadedStock(ctx)
	if err != nil {
		return nil, fmt.Errorf("inventory: find loaded items: %w", err)
	}
	now, err := clock.RedisTime(ctx, s.deps.Redis)
	if err != nil {
		return nil, fmt.Errorf("inventory: read Redis's time: %w", err)
	}
	for _, st := range stocksOf(rows) {
		if !now.After(st.ClosesAt.Add(leftAfter)) {
			continue
		}
		why, err := s.leftOpen(ctx, st.item())
		if err != nil {
			return nil, err
		}
		if why != "" {
			found = append(found, proof.Violation{Subject: ItemSubject(st.ItemID), Detail: why})
		}
	}
	return found, nil
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

// checkSettled is the part of I2 about settled items: nothing writes their keys again. Keys that came back, from a
// backup of Redis or a replica that was behind, would let a late request find an old stock.
func (s *Service) checkSettled(ctx context.Context) ([]proof.Violation, error) {
	return proof.Lasting(ctx, s.recheck, 1, proof.BySubject, func(ctx context.Context) (found []proof.Violation, err error) {
		keys, err := s.unsettledKeys(ctx)
		for itemID, n := range keys {
			found = append(found, proof.Violation{
				Subject: ItemSubject(itemID), Detail: fmt.Sprintf("It is settled, and Redis has %d of its keys again.", n),
			})
		}
		return found, err
	})
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
