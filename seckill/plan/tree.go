package plan

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/seckill/internal/seckilldb"
)

// Activity is one activity with everything below it.
type Activity struct {
	seckilldb.SeckillActivity
	Sessions []Session
}

// Session is one session with its items.
type Session struct {
	seckilldb.SeckillSession
	Items []seckilldb.SeckillItem
}

// readTree reads the sessions and items of activities with two queries,
// however many there are.
func readTree(ctx context.Context, q *seckilldb.Queries, activities []seckilldb.SeckillActivity) ([]Activity, error) {
	ids := make([]int64, len(activities))
	tree := make([]Activity, len(activities))
	at := make(map[int64]int, len(activities))
	for i := range activities {
		ids[i], tree[i].SeckillActivity, at[activities[i].ID] = activities[i].ID, activities[i], i
	}
	sessions, err := q.SessionsOf(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("plan: read sessions: %w", err)
	}
	items, err := q.ItemsOf(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("plan: read items: %w", err)
	}
	under := make(map[int64][]seckilldb.SeckillItem, len(sessions))
	for i := range items {
		under[items[i].SessionID] = append(under[items[i].SessionID], items[i])
	}
	for i := range sessions {
		b := &tree[at[sessions[i].ActivityID]]
		b.Sessions = append(b.Sessions, Session{SeckillSession: sessions[i], Items: under[sessions[i].ID]})
	}
	return tree, nil
}

// Items are the activity's items, each with its session.
func (b *Activity) Items() iter.Seq2[*seckilldb.SeckillSession, *seckilldb.SeckillItem] {
	return func(yield func(*seckilldb.SeckillSession, *seckilldb.SeckillItem) bool) {
		for i := range b.Sessions {
			t := &b.Sessions[i]
			for j := range t.Items {
				if !yield(&t.SeckillSession, &t.Items[j]) {
					return
				}
			}
		}
	}
}

// Stock is the stock that inventory should have for every item of the activity.
func (b *Activity) Stock() (all []inventory.NewStock) {
	for session, item := range b.Items() {
		all = append(all, NewStock(&b.SeckillActivity, session, item))
	}
	return all
}

// FirstOpening is when the activity starts to run; the zero time if it has no
// session.
func (b *Activity) FirstOpening() time.Time {
	var first time.Time
	for i := range b.Sessions {
		if at := b.Sessions[i].OpensAt; i == 0 || at.Before(first) {
			first = at
		}
	}
	return first
}

// Session finds a session of the activity by its id.
func (b *Activity) Session(id int64) (*Session, bool) {
	for i := range b.Sessions {
		if b.Sessions[i].ID == id {
			return &b.Sessions[i], true
		}
	}
	return nil, false
}

// userLimit is how many units of the item one user may hold: the smaller of the
// activity's and the item's limits.
func userLimit(a *seckilldb.SeckillActivity, i *seckilldb.SeckillItem) int32 {
	if i.LimitPerUser != nil && *i.LimitPerUser < a.LimitPerUser {
		return *i.LimitPerUser
	}
	return a.LimitPerUser
}

// PayWindow is how long an order of the session may stay unpaid.
func PayWindow(a *seckilldb.SeckillActivity, s *seckilldb.SeckillSession) time.Duration {
	if a.PaymentWindowShare == nil {
		return time.Duration(a.PaymentWindowSeconds) * time.Second
	}
	share := time.Duration(*a.PaymentWindowShare * float64(s.ClosesAt.Sub(s.OpensAt)))
	// Publication refuses shares below the minimum; the maximum makes a session of several weeks free its
	// units in time.
	return min(max(share.Truncate(time.Second), MinPayWindow), maxPayWindow)
}

// Paused is whether no attempt at the item is taken.
func Paused(a *seckilldb.SeckillActivity, i *seckilldb.SeckillItem) bool { return a.Paused || i.Paused }

// NewStock is the stock row that inventory should have for an item.
func NewStock(a *seckilldb.SeckillActivity, s *seckilldb.SeckillSession, i *seckilldb.SeckillItem) inventory.NewStock {
	return inventory.NewStock{
		Item:  inventory.Item{ID: i.ID, ActivityID: a.ID, PerActivity: a.OneItemPerUser},
		Total: UnitsOnSale(i), Backup: i.Backup, Unlimited: i.Unlimited, UserLimit: userLimit(a, i),
		Rebuy:   a.RebuyAfterClose || i.Unlimited, // where units are unlimited, holding them keeps none from others
		OpensAt: s.OpensAt, ClosesAt: s.ClosesAt, Paused: Paused(a, i),
	}
}

// snapshot runs reads that must agree with each other in one read-only
// transaction.
func snapshot(ctx context.Context, db *pgxpool.Pool, fn func(q *seckilldb.Queries) error) error {
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("plan: begin snapshot: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // read-only
	return fn(seckilldb.New(tx))
}

// Tree adds its sessions and items to an activity.
func Tree(ctx context.Context, q *seckilldb.Queries, row seckilldb.SeckillActivity) (*Activity, error) {
	tree, err := readTree(ctx, q, []seckilldb.SeckillActivity{row})
	if err != nil {
		return nil, err
	}
	return &tree[0], nil
}

// treeOf reads the activity with an id.
func treeOf(ctx context.Context, q *seckilldb.Queries, id int64) (*Activity, error) {
	row, err := q.Activity(ctx, id)
	if err != nil {
		return nil, OrNotFound(err, ErrNoActivity, "read activity")
	}
	return Tree(ctx, q, row)
}

// Read returns an activity with its sessions and items.
func Read(ctx context.Context, db *pgxpool.Pool, id int64) (a *Activity, err error) {
	err = snapshot(ctx, db, func(q *seckilldb.Queries) error {
		a, err = treeOf(ctx, q, id)
		return err
	})
	return a, err
}

// ReadActivity returns the same as operators see it.
func ReadActivity(ctx context.Context, db *pgxpool.Pool, id int64) (ActivityView, error) {
	a, err := Read(ctx, db, id)
	if err != nil {
		return ActivityView{}, err
	}
	return a.View(), nil
}

// ReadSession returns a session with its items as operators see it.
func ReadSession(ctx context.Context, db *pgxpool.Pool, id int64) (out SessionView, err error) {
	err = snapshot(ctx, db, func(q *seckilldb.Queries) error {
		row, err := q.Session(ctx, id)
		if err != nil {
			return OrNotFound(err, ErrNoSession, "read session")
		}
		a, err := Tree(ctx, q, seckilldb.SeckillActivity{ID: row.ActivityID})
		if err != nil {
			return err
		}
		t, ok := a.Session(id)
		if !ok {
			return ErrNoSession
		}
		out = t.View()
		return nil
	})
	return out, err
}

// Reservations returns the number of reservations of those items that have any. It
// counts rows, because an exact counter would be a row that every shopper's request
// waits for; counting a million takes Postgres about 0.1 s.
func Reservations(ctx context.Context, db *pgxpool.Pool, items []int64) (map[int64]int64, error) {
	rows, err := seckilldb.New(db).CountReservations(ctx, items)
	if err != nil {
		return nil, fmt.Errorf("plan: count reservations: %w", err)
	}
	counts := make(map[int64]int64, len(rows))
	for _, r := range rows {
		counts[r.ItemID] = r.Reservations
	}
	return counts, nil
}
