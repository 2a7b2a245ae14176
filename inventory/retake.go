package inventory

import (
	"container/heap"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/inventoryevent"
	"stampede/order/orderevent"
)

// statusRetaken is the status in the hint about a closed order that was paid late
// with units of the backup.
const statusRetaken = "retaken"

// retakeAgain is how long a number waits whose user holds another one, which is
// about to be refused or released.
const retakeAgain = time.Second

// Retake takes an order's units from the backup of its stock row, inside the
// transaction that turns the order from closed into paid. It returns false if the
// backup has too few. The caller holds the row's lock.
func (s *Service) Retake(ctx context.Context, tx pgx.Tx, o *orderevent.Order) (bool, error) {
	rows, err := inventorydb.New(tx).Retake(ctx, inventorydb.RetakeParams{
		OrderNo: o.No, ItemID: o.ItemID, Shard: o.Shard, UserID: o.UserID, Quantity: o.Quantity,
	})
	if err != nil {
		return false, fmt.Errorf("inventory: take order %s up again: %w", o.No, err)
	}
	return rows == 1, nil
}

// hintOf is what an order's event says about its number.
func hintOf(o *orderevent.Order) hint {
	h := hint{no: o.No, user: o.UserID, epoch: o.Epoch, status: o.Status}
	if o.Status == orderevent.StatusPaid && o.Reason == orderevent.ReasonBackup {
		h.status, h.quantity = statusRetaken, o.Quantity
	}
	return h
}

// takeUp brings numbers that were paid late with units of the backup to Redis. Those
// that have to wait for another number of their user are repeated after
// retakeAgain.
func (s *Service) takeUp(ctx context.Context, item Item, orders []hint) error {
	r, err := s.inEpoch(ctx, item, orders[0].epoch, func(epoch int64) (reply, error) {
		keys := append([]string{item.stateKey()}, item.epochKeys(epoch)...)
		if item.PerActivity {
			keys = append(keys, item.buyersKey())
		}
		args := append([]any{epoch, item.ID, weight, len(orders)}, usersAndNumbers(orders)...)
		for _, o := range orders {
			args = append(args, o.quantity)
		}
		return retakeScript.run(ctx, s.deps.Redis, retakeFigures, keys, args...)
	})
	if err != nil || r == nil {
		return err
	}
	s.metrics.returns.WithLabelValues("retaken").Add(float64(r.int(3)))
	if r.int(4) > 0 {
		s.announce(ctx, inventoryevent.SubjectReturned, inventoryevent.Returned{ItemID: item.ID, Epoch: r.int(1), Rel: r.int(2)})
	}
	if err := retakeScript.check(r, len(r)); err != nil {
		return err
	}
	waiting := make([]hint, 0, len(r)-retakeFigures)
	for i := range cap(waiting) {
		waiting = append(waiting, orders[r.int(retakeFigures+i)-1])
	}
	s.later(item, waiting, s.retakeAgain)
	return nil
}

// retakeFigures is how many integers retake.lua returns before the indexes.
const retakeFigures = 5

// later puts hints back on the item's work list after a while. What a stopping
// process or a full list drops is found by a comparison.
func (s *Service) later(item Item, hints []hint, after time.Duration) {
	if len(hints) == 0 {
		return
	}
	k := &s.keepers
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range hints {
		if k.ctx != nil && len(k.later) < mostReturning {
			heap.Push(&k.later, returning{at: time.Now().Add(after), item: item, hint: h})
		}
	}
	select {
	case k.sooner <- struct{}{}:
	default:
	}
}

// retakes reads which orders of the item were ever taken up again.
func (s *Service) retakes(ctx context.Context, db inventorydb.DBTX, itemID int64) ([]inventorydb.RetakenOfItemRow, error) {
	rows, err := inventorydb.New(db).RetakenOfItem(ctx, itemID)
	if err != nil {
		return nil, fmt.Errorf("inventory: read orders of item %d taken up again: %w", itemID, err)
	}
	return rows, nil
}

// retakes brings to Redis what was taken up again. Numbers that are there already
// change nothing.
func (c *comparison) retakes(ctx context.Context) error {
	rows, err := c.s.retakes(ctx, c.s.deps.DB, c.item.ID)
	if err != nil {
		return err
	}
	var hints []hint
	for _, r := range rows {
		if r.Shard == c.item.Shard {
			hints = append(hints, hint{no: r.OrderNo, user: r.UserID, epoch: c.epoch, status: statusRetaken, quantity: r.Quantity})
		}
	}
	c.atRest = false
	return c.apply(ctx, hints)
}
