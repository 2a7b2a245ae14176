package keep

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/store/bus"
)

// releaseRefunded releases the numbers of refunded orders, some of which may have been written off; see ledger.WriteOff.
func (s *Service) releaseRefunded(ctx context.Context, item stock.Item, orders []Hint) error {
	if err := s.ledger.Apply(ctx, item.ID); err != nil {
		return err
	}
	return s.release(ctx, item, orders)
}

// Subscriptions are the events that end holds: refused, closed and refunded orders return their units, paid ones keep
// them. An event is a hint: it is acknowledged when its numbers are on the work lists of their items, so that an item
// that fails delays no event of another.
func (s *Service) Subscriptions() []bus.Subscription {
	return []bus.Subscription{
		{Name: "inventory-release-refused", Filter: orderevent.SubjectRefused, Layout: orderevent.Layout, Handle: s.onEnded},
		{Name: "inventory-release-closed", Filter: orderevent.SubjectClosed, Layout: orderevent.Layout, Handle: s.onEnded},
		{Name: "inventory-release-refunded", Filter: orderevent.SubjectRefunded, Layout: orderevent.Layout, Handle: s.onEnded},
		{Name: "inventory-commit", Filter: orderevent.SubjectPaid, Layout: orderevent.Layout, Handle: s.onEnded},
	}
}

// onEnded puts an event's numbers on the work lists of their items.
func (s *Service) onEnded(_ context.Context, m bus.Msg) error {
	changed, err := orderevent.Decode(m.Data)
	if err != nil {
		return fmt.Errorf("inventory: decode %s: %w", m.Subject, err)
	}
	byItem := make(map[stock.Item][]Hint)
	for _, o := range changed.Orders {
		item := stock.Item{ID: o.ItemID, ActivityID: o.ActivityID, Shard: o.Shard, PerActivity: o.PerActivity}
		byItem[item] = append(byItem[item], HintOf(&o))
	}
	for item, hints := range byItem {
		if err := s.accept(item, hints); err != nil { //nolint:contextcheck // a keeper outlives its event
			return bus.Expected(err)
		}
	}
	return nil
}

// release returns the units of orders that ended, all of them in the same way, and tells every instance.
func (s *Service) release(ctx context.Context, item stock.Item, orders []Hint) error {
	r, err := s.inEpoch(ctx, item, orders[0].Epoch, func(epoch int64) (lua.Reply, error) {
		args := append([]any{epoch, stock.TombstoneTTL.Milliseconds(), len(orders)}, usersAndNumbers(orders)...)
		args = append(args, stock.Weight, orders[0].Status)
		return lua.Release.Call(ctx, s.Redis, 4, item.AppendKeys(nil, epoch), args...)
	})
	if err != nil || r == nil {
		return err
	}
	if given := r.Int(3); given > 0 {
		s.ended.WithLabelValues("released").Add(float64(given))
		s.AnnounceReturned(ctx, item.Key(), r.Int(1), r.Int(2))
	}
	return nil
}

// commit counts the units of paid orders as sold.
func (s *Service) commit(ctx context.Context, item stock.Item, orders []Hint) error {
	r, err := s.inEpoch(ctx, item, orders[0].Epoch, func(epoch int64) (lua.Reply, error) {
		keys := []string{item.StateKey(), item.UsersKey(epoch)}
		args := append([]any{epoch, len(orders)}, usersAndNumbers(orders)...)
		return lua.Commit.Call(ctx, s.Redis, 3, keys, args...)
	})
	if err != nil || r == nil {
		return err
	}
	s.ended.WithLabelValues("committed").Add(float64(r.Int(2)))
	return nil
}

// StatusRetaken is the status in the hint about a closed order that was paid late with units of the backup.
const StatusRetaken = "retaken"

// HintOf is what an order's event says about its number.
func HintOf(o *orderevent.Order) Hint {
	h := Hint{No: o.No, User: o.UserID, Epoch: o.Epoch, Status: o.Status}
	if o.Status == orderevent.StatusPaid && o.Reason == orderevent.ReasonBackup {
		h.Status, h.Quantity = StatusRetaken, o.Quantity
	}
	return h
}

// takeUp brings numbers that were paid late with units of the backup to Redis. Those that have to wait for another
// number of their user are repeated after RetakeAgain.
func (s *Service) takeUp(ctx context.Context, item stock.Item, orders []Hint) error {
	r, err := s.inEpoch(ctx, item, orders[0].Epoch, func(epoch int64) (lua.Reply, error) {
		args := append([]any{epoch, item.ID, stock.Weight, len(orders)}, usersAndNumbers(orders)...)
		for _, o := range orders {
			args = append(args, o.Quantity)
		}
		return lua.Retake.Call(ctx, s.Redis, retakeFigures, item.AppendKeys(nil, epoch), args...)
	})
	if err != nil || r == nil {
		return err
	}
	s.ended.WithLabelValues("retaken").Add(float64(r.Int(3)))
	if r.Int(4) > 0 {
		s.AnnounceReturned(ctx, item.Key(), r.Int(1), r.Int(2))
	}
	if err := lua.Retake.Check(r, len(r)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := retakeFigures; i < len(r); i++ {
		// What a stopping process or a full list drops is found by a comparison.
		if s.ctx != nil && len(s.later) < mostReturning {
			s.wait(s.RetakeAgain, item, orders[r.Int(i)-1]) //nolint:contextcheck // as a keeper, it outlives its event
		}
	}
	return nil
}

// retakeFigures is how many integers retake.lua returns before the indexes.
const retakeFigures = 5

// inEpoch makes a call under the item's current epoch, beginning with a guess. It returns a nil reply if there is
// nothing left in Redis to call: an item whose sale is over, and whose keys were removed or left fenced by a Load,
// exists in Postgres alone: nothing loads it again.
func (s *Service) inEpoch(ctx context.Context, item stock.Item, epoch int64, call func(epoch int64) (lua.Reply, error)) (lua.Reply, error) {
	if known, ok := s.Epochs.Load(item); ok {
		epoch = known.(int64) //nolint:errcheck // the map holds nothing else
	}
	over := false
	for range stock.EpochTurns {
		r, err := call(epoch)
		if err != nil {
			return nil, err
		}
		switch r.Int(0) {
		case lua.Done:
			s.Epochs.Store(item, epoch)
			return r, nil
		case lua.NoState, lua.Fenced:
			if over {
				return nil, nil
			}
			if over, err = s.over(ctx, item); err != nil {
				return nil, err
			}
			if !over {
				return nil, fmt.Errorf("inventory: item %d is not loaded: %w", item.ID, stock.ErrFenced)
			}
			// The last Load may have ended between the two reads, and have written what this call is about: try once
			// more.
		case lua.OtherEpoch:
			epoch = r.Int(1)
		default:
			return nil, fmt.Errorf("inventory: code %d: %w", r.Int(0), lua.ErrReply)
		}
	}
	return nil, fmt.Errorf("inventory: item %d is loaded again and again: %w", item.ID, stock.ErrFenced)
}

// over reports whether nothing will write the item into Redis any more: its sale has ended by Postgres's clock and no
// Load is under way, or its stock row is gone. A Load that read an order as live writes its mark; the return of that
// order must not be dropped before.
func (s *Service) over(ctx context.Context, item stock.Item) (bool, error) {
	ended, err := inventorydb.New(s.DB).SaleIsOver(ctx, inventorydb.SaleIsOverParams{
		ItemID: item.ID, Shard: item.Shard, LoadLease: stock.LoadLease(item.ID),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("inventory: check whether the sale of item %d is over: %w", item.ID, err)
	}
	return ended, nil
}

func usersAndNumbers(orders []Hint) []any {
	args := make([]any, 2*len(orders))
	for i, o := range orders {
		args[i], args[len(orders)+i] = o.User, o.No.String()
	}
	return args
}
