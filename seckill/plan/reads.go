package plan

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/seckill/internal/seckilldb"
)

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
