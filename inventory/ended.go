package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/inventoryevent"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/store/bus"
)

// ErrFenced means that the item cannot answer now because it is not loaded or
// is being loaded. A retry after a Load succeeds.
var ErrFenced = fault.New(fault.Unavailable, "fenced", fault.T("The item is being prepared", "商品准备中，请稍后再试"),
	fault.T("The item is being loaded. Ask again in a moment.", "商品正在准备，请稍后再查。"),
	fault.T("Try again in a moment; the item is loaded within seconds.", "请稍后重试，商品将在数秒内就绪。"))

// epochTurns bounds how often a call follows an item to a newer epoch. Loads of
// one item take seconds, so two within one call are already rare.
const epochTurns = 3

// Subscriptions are the events that end holds: refused, closed and refunded orders
// return their units, paid ones keep them. An event is a hint: it is acknowledged when
// its numbers are on the work lists of their items, so that an item that fails
// delays no event of another.
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
	byItem := make(map[Item][]hint)
	for _, o := range changed.Orders {
		item := Item{ID: o.ItemID, ActivityID: o.ActivityID, Shard: o.Shard, PerActivity: o.PerActivity}
		byItem[item] = append(byItem[item], hintOf(&o))
	}
	for item, hints := range byItem {
		now, err := s.postpone(item, hints)
		if err == nil && len(now) > 0 {
			err = s.note(item, now) //nolint:contextcheck // a keeper outlives its event
		}
		if err != nil {
			return bus.Expected(err)
		}
	}
	return nil
}

// release returns the units of orders that ended, all of them in the same way, and notifies every instance that units are available again.
func (s *Service) release(ctx context.Context, item Item, orders []hint) error {
	r, err := s.inEpoch(ctx, item, orders[0].epoch, func(epoch int64) (reply, error) {
		keys := []string{item.stateKey(), item.usersKey(epoch), item.holdsKey(epoch), item.tombstonesKey(epoch)}
		if item.PerActivity {
			keys = append(keys, item.buyersKey())
		}
		args := append([]any{epoch, tombstoneTTL.Milliseconds(), len(orders)}, usersAndNumbers(orders)...)
		args = append(args, weight, orders[0].status)
		return releaseScript.run(ctx, s.deps.Redis, 4, keys, args...)
	})
	if err != nil || r == nil {
		return err
	}
	if given := r.int(3); given > 0 {
		s.metrics.returns.WithLabelValues("released").Add(float64(given))
		s.announce(ctx, inventoryevent.SubjectReturned, inventoryevent.Returned{ItemID: item.ID, Epoch: r.int(1), Rel: r.int(2)})
	}
	return nil
}

// commit counts the units of paid orders as sold.
func (s *Service) commit(ctx context.Context, item Item, orders []hint) error {
	r, err := s.inEpoch(ctx, item, orders[0].epoch, func(epoch int64) (reply, error) {
		keys := []string{item.stateKey(), item.usersKey(epoch)}
		args := append([]any{epoch, len(orders)}, usersAndNumbers(orders)...)
		return commitScript.run(ctx, s.deps.Redis, 3, keys, args...)
	})
	if err != nil || r == nil {
		return err
	}
	s.metrics.returns.WithLabelValues("committed").Add(float64(r.int(2)))
	return nil
}

// inEpoch makes a call under the item's current epoch, beginning with a guess.
// It returns a nil reply if there is nothing left in Redis to call: an item
// whose sale is over, and whose keys were removed or left fenced by a Load,
// exists in Postgres alone: nothing loads it again.
func (s *Service) inEpoch(ctx context.Context, item Item, epoch int64, call func(epoch int64) (reply, error)) (reply, error) {
	if known, ok := s.epochs.Load(item); ok {
		epoch = known.(int64) //nolint:errcheck // the map holds nothing else
	}
	over := false
	for range epochTurns {
		r, err := call(epoch)
		if err != nil {
			return nil, err
		}
		switch r.int(0) {
		case codeDone:
			s.epochs.Store(item, epoch)
			return r, nil
		case codeNoState, codeFenced:
			if over {
				return nil, nil
			}
			if over, err = s.over(ctx, item); err != nil {
				return nil, err
			}
			if !over {
				return nil, fmt.Errorf("inventory: item %d is not loaded: %w", item.ID, ErrFenced)
			}
			// The last Load may have ended between the two reads, and have written what
			// this call is about: try once more.
		case codeOtherEpoch:
			epoch = r.int(1)
		default:
			return nil, fmt.Errorf("inventory: code %d: %w", r.int(0), errReply)
		}
	}
	return nil, fmt.Errorf("inventory: item %d is loaded again and again: %w", item.ID, ErrFenced)
}

// over reports whether nothing will write the item into Redis any more: its sale
// has ended by Postgres's clock and no Load is under way, or its stock row is
// gone. A Load that read an order as live writes its mark; the return of that
// order must not be dropped before.
func (s *Service) over(ctx context.Context, item Item) (bool, error) {
	ended, err := inventorydb.New(s.deps.DB).SaleIsOver(ctx, inventorydb.SaleIsOverParams{
		ItemID: item.ID, Shard: item.Shard, LoadLease: loadLease(item.ID),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("inventory: check whether the sale of item %d is over: %w", item.ID, err)
	}
	return ended, nil
}

// announce broadcasts without waiting. A lost broadcast costs a sold-out flag's
// lifetime of 2 s, so a failure is only logged.
func (s *Service) announce(ctx context.Context, subject string, payload any) {
	if s.deps.Bus == nil { // a command that serves no requests
		return
	}
	data, err := json.Marshal(payload)
	if err == nil {
		err = s.deps.Bus.Broadcast(subject, data)
	}
	if err != nil {
		s.deps.Log.WarnContext(ctx, "broadcast failed", "subject", subject, "error", err)
	}
}

func usersAndNumbers(orders []hint) []any {
	args := make([]any, 2*len(orders))
	for i, o := range orders {
		args[i], args[len(orders)+i] = o.user, o.no.String()
	}
	return args
}
