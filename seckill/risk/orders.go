package risk

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/bus"
	"stampede/platform/ids"
)

// eventAttempts is how often an event is tried before it becomes a dead letter:
// at up to 30 s each, through an hour without Postgres.
const eventAttempts = 120

// Subscriptions are what the package listens to on EVENTS.
func (s *Service) Subscriptions() []bus.Subscription {
	return []bus.Subscription{{Name: "risk-orders", Filter: orderevent.SubjectAll, MaxAttempts: eventAttempts, Handle: s.learn}}
}

// learn takes in what became of orders. It needs no inbox: an unpaid closing is
// noted once by its number, and of an exclusive order only a newer version
// counts. Most events of a sale say nothing here and are not even decoded.
func (s *Service) learn(ctx context.Context, m bus.Msg) error {
	exclusive := s.exclusiveItems()
	if m.Subject != orderevent.SubjectClosed && m.Subject != orderevent.SubjectPaid && len(exclusive) == 0 {
		return nil
	}
	var changed orderevent.Changed
	if err := json.Unmarshal(m.Data, &changed); err != nil {
		return fmt.Errorf("risk: decode %s: %w", m.Subject, err)
	}
	var claimed, unpaid []orderevent.Order
	var late []ids.ID
	for _, o := range changed.Orders {
		if exclusive[o.ItemID] {
			claimed = append(claimed, o)
		}
		if o.Status == orderevent.StatusClosed {
			unpaid = append(unpaid, o)
		}
		if o.Status == orderevent.StatusPaid && o.Version > paidInTime {
			late = append(late, o.No)
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
		// Paid after all, from the backup: nobody was harmed. Marks follow at the next
		// count.
		if _, err := s.deps.DB.Exec(ctx, `DELETE FROM risk.holds WHERE order_no = ANY ($1::uuid[])`, late); err != nil {
			return fmt.Errorf("risk: forget holds that were paid late: %w", err)
		}
	}
	return nil
}

// paidInTime is the version of an order that was paid without having been closed
// before: 1 is its creation.
const paidInTime = 2

// exclusiveItems are those whose orders a claim depends on. The catalogue keeps
// an item for a while after its end, by when its claims end by themselves.
func (s *Service) exclusiveItems() map[int64]bool {
	var exclusive map[int64]bool
	for _, item := range s.deps.Items.Items() {
		if item.OnePerUser {
			if exclusive == nil {
				exclusive = map[int64]bool{}
			}
			exclusive[item.ID] = true
		}
	}
	return exclusive
}

// learnClaims notes which exclusive orders are live, and gives back the claims
// whose only number has ended without one.
func (s *Service) learnClaims(ctx context.Context, orders []orderevent.Order) error {
	n := len(orders)
	nos, users, activities := make([]ids.ID, n), make([]int64, n), make([]int64, n)
	live, versions := make([]bool, n), make([]int32, n)
	for i, o := range orders {
		nos[i], users[i], activities[i], live[i], versions[i] = o.No, o.UserID, o.ActivityID, orderevent.Live(o.Status), o.Version
	}
	batch := &pgx.Batch{}
	batch.Queue(`
		INSERT INTO risk.claim_orders AS o (order_no, user_id, activity_id, live, version, ends_at)
		SELECT e.no, e.usr, e.activity, e.live, e.version, a.ends_at + $6::interval
		FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::boolean[], $5::int[]) AS e (no, usr, activity, live, version)
		JOIN seckill.activities a ON a.id = e.activity
		ORDER BY e.no
		ON CONFLICT (order_no) DO UPDATE SET live = excluded.live, version = excluded.version WHERE o.version < excluded.version`,
		nos, users, activities, live, versions, s.cfg.ClaimKeep)
	// A claim under which a second path was issued stays until that one has ended.
	batch.Queue(`
		DELETE FROM risk.claims c USING risk.claim_orders e
		WHERE e.order_no = ANY ($1::uuid[]) AND NOT e.live
		  AND c.user_id = e.user_id AND c.activity_id = e.activity_id AND c.order_no = e.order_no AND c.paths = 1`, nos)
	if err := s.deps.DB.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("note exclusive orders: %w", err)
	}
	return nil
}

// learnUnpaid notes unpaid closings, and whom of their users a rule hits now.
func (s *Service) learnUnpaid(ctx context.Context, orders []orderevent.Order) error {
	n := len(orders)
	nos, users, items := make([]ids.ID, n), make([]int64, n), make([]int64, n)
	reasons, at := make([]string, n), make([]time.Time, n)
	for i, o := range orders {
		nos[i], users[i], items[i], reasons[i], at[i] = o.No, o.UserID, o.ItemID, o.Reason, o.UpdatedAt
	}
	if _, err := s.deps.DB.Exec(ctx, `
		INSERT INTO risk.holds (order_no, user_id, item_id, reason, closed_at)
		SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::timestamptz[]) AS e (no, usr, item, reason, at)
		ORDER BY e.no ON CONFLICT DO NOTHING`, nos, users, items, reasons, at); err != nil {
		return fmt.Errorf("note unpaid closings: %w", err)
	}
	rules, err := activeRules(ctx, s.deps.DB)
	if err != nil {
		return err
	}
	for i := range rules {
		if rules[i].Kind != UnpaidHolds {
			continue
		}
		hits, err := s.hits(ctx, s.deps.DB, &rules[i], users)
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
