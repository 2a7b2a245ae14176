package risk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/seckill/risk/internal/riskdb"
)

// eventAttempts is how often an event is delivered before it becomes a dead
// letter: at up to 30 s between attempts, enough for an hour without Postgres.
const eventAttempts = 120

// errNotReady means that it is not known yet which activities are exclusive.
var errNotReady = errors.New("risk: catalogue not read yet")

// Subscriptions are the package's subscriptions to EVENTS.
func (s *Service) Subscriptions() []bus.Subscription {
	return []bus.Subscription{{Name: "risk-orders", Filter: orderevent.SubjectAll, MaxAttempts: eventAttempts, Layout: orderevent.Layout, Handle: s.learn}}
}

// learn processes order events. It needs no inbox: an unpaid closing is
// recorded once by its number, and of an exclusive order only a newer version
// counts. Most events of a sale are irrelevant here and are not even decoded.
func (s *Service) learn(ctx context.Context, m bus.Msg) error {
	if !s.deps.Items.Ready() {
		// Consumers start before the catalogue is read, and are first given what a
		// crash left unacknowledged.
		return bus.Expected(errNotReady)
	}
	exclusive := s.exclusiveItems()
	if m.Subject != orderevent.SubjectClosed && m.Subject != orderevent.SubjectPaid && len(exclusive) == 0 {
		return nil
	}
	changed, err := orderevent.Decode(m.Data)
	if err != nil {
		return fmt.Errorf("risk: decode %s: %w", m.Subject, err)
	}
	var claimed, unpaid, late []orderevent.Order
	for _, o := range changed.Orders {
		if exclusive[o.ItemID] {
			claimed = append(claimed, o)
		}
		if o.Status == orderevent.StatusClosed && o.Reason != orderevent.ReasonWithdrawn {
			unpaid = append(unpaid, o)
		}
		if paidLate(&o) {
			late = append(late, o)
		}
	}
	if len(claimed) > 0 {
		if err := s.learnClaims(ctx, claimed); err != nil {
			return fmt.Errorf("risk: %w", err)
		}
	}
	if len(unpaid) > 0 {
		if err := s.learnUnpaid(ctx, unpaid); err != nil {
			return fmt.Errorf("risk: %w", err)
		}
	}
	if len(late) > 0 {
		// Paid after all, from the backup: no harm was done. Marks follow at the next
		// count.
		if err := riskdb.New(s.deps.DB).PutHolds(ctx, holdsOf(late)); err != nil {
			return fmt.Errorf("risk: forget holds that were paid late: %w", err)
		}
	}
	return nil
}

// paidLate reports whether an order was paid after it had been closed.
func paidLate(o *orderevent.Order) bool {
	return o.Status == orderevent.StatusPaid && o.Reason == orderevent.ReasonBackup
}

// exclusiveItems are the items whose orders a claim depends on. The catalogue
// keeps an item for a while after its end, by which time its claims have ended.
func (s *Service) exclusiveItems() map[int64]bool {
	exclusive := map[int64]bool{}
	for _, item := range s.deps.Items.Items() {
		if item.OnePerUser {
			exclusive[item.ID] = true
		}
	}
	return exclusive
}

// learnClaims records which exclusive orders are live, and releases the claims
// whose only number has ended without a live order; that of an order which was paid
// late is restored.
func (s *Service) learnClaims(ctx context.Context, orders []orderevent.Order) error {
	var rows riskdb.PutClaimOrdersParams
	rows.Keep = s.set.ClaimKeep
	var late []ids.ID
	for _, o := range orders {
		if paidLate(&o) {
			late = append(late, o.No)
		}
		rows.OrderNos, rows.Users, rows.Activities = append(rows.OrderNos, o.No), append(rows.Users, o.UserID), append(rows.Activities, o.ActivityID)
		rows.Live, rows.Versions = append(rows.Live, orderevent.Live(o.Status)), append(rows.Versions, o.Version)
	}
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		q := riskdb.New(tx)
		if err := q.PutClaimOrders(ctx, rows); err != nil {
			return err
		}
		if len(late) > 0 {
			if err := q.RestoreClaims(ctx, late); err != nil {
				return err
			}
		}
		return q.GiveClaimsBack(ctx, rows.OrderNos)
	})
	return wrapped("record exclusive orders", err)
}

// learnUnpaid records unpaid closings and marks the users that a rule now
// applies to.
func (s *Service) learnUnpaid(ctx context.Context, orders []orderevent.Order) error {
	rows := holdsOf(orders)
	if err := riskdb.New(s.deps.DB).PutHolds(ctx, rows); err != nil {
		return fmt.Errorf("record unpaid closings: %w", err)
	}
	if err := s.deps.Bus.Broadcast(subjectUnpaid, nil); err != nil {
		s.deps.Log.WarnContext(ctx, "broadcast of unpaid closings failed, instances read them within a second", "error", err)
	}
	rules, err := riskdb.New(s.deps.DB).ActiveRules(ctx, maxRules)
	if err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	for i := range rules {
		if rules[i].Kind != UnpaidHolds {
			continue
		}
		hits, err := s.hits(ctx, &rules[i], rows.Users)
		if err != nil {
			return err
		}
		if len(hits) == 0 {
			continue
		}
		if err := s.current.Change(ctx, func(tx pgx.Tx) (bool, error) { return putMarks(ctx, tx, rules[i].ID, hits) }); err != nil {
			return err
		}
	}
	return nil
}

// holdsOf are the rows of orders, with the time of their closing; of one that was paid after all, a time that never
// counts.
func holdsOf(orders []orderevent.Order) (rows riskdb.PutHoldsParams) {
	for _, o := range orders {
		var at time.Time
		if !paidLate(&o) {
			at = o.UpdatedAt
		}
		rows.OrderNos, rows.Users, rows.Items = append(rows.OrderNos, o.No), append(rows.Users, o.UserID), append(rows.Items, o.ItemID)
		rows.Activities, rows.Reasons, rows.At = append(rows.Activities, o.ActivityID), append(rows.Reasons, o.Reason), append(rows.At, at)
	}
	return rows
}
