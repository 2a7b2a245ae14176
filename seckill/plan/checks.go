package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/platform/watch/proof"
	"stampede/seckill/internal/seckilldb"
)

// Checks are the invariants that this module can prove: the units on sale are
// the units that an operator put on sale, and a user takes part in one exclusive
// activity at a time. Inventory proves where the units are.
func Checks(db *pgxpool.Pool, stock *inventory.Service) []proof.Check {
	exclusive := proof.Check{ID: "I3", Name: "one exclusive activity per user at a time", Run: func(ctx context.Context) ([]proof.Violation, error) {
		return severalActivities(ctx, db)
	}}
	return append(Samples(db, stock), exclusive)
}

// Samples are the checks that a running server can afford each minute: those
// that read no orders.
func Samples(db *pgxpool.Pool, stock *inventory.Service) []proof.Check {
	return []proof.Check{{ID: "I2", Name: "stock follows the plan", Run: func(ctx context.Context) ([]proof.Violation, error) {
		// The plan and the stock are two reads, and a change may commit between them. A violation counts only if it
		// is still there, in the same words, after a pause.
		inWords := func(v proof.Violation) string { return v.Subject + " " + v.Detail }
		return proof.Lasting(ctx, proof.Recheck, 1, inWords, func(ctx context.Context) ([]proof.Violation, error) {
			return offPlan(ctx, db, stock)
		})
	}}}
}

// mostUsers bounds how many users severalActivities lists: enough to see the
// pattern.
const mostUsers = 100

// severalActivities finds users with live orders of two exclusive activities at
// the same time. The claim at the door prevents them; no key in Postgres does.
func severalActivities(ctx context.Context, db *pgxpool.Pool) ([]proof.Violation, error) {
	users, err := seckilldb.New(db).UsersInSeveralExclusiveActivities(ctx, mostUsers)
	if err != nil {
		return nil, fmt.Errorf("plan: find users in several exclusive activities: %w", err)
	}
	var found []proof.Violation
	for _, u := range users {
		found = append(found, proof.Violation{
			Subject: fmt.Sprintf("user %d", u.UserID),
			Detail:  fmt.Sprintf("The user has live orders of the exclusive activities %d and %d.", u.One, u.Other),
		})
	}
	return found, nil
}

// offPlan compares the published items with the stock rows, both ways.
func offPlan(ctx context.Context, db *pgxpool.Pool, stock *inventory.Service) ([]proof.Violation, error) {
	planned, err := seckilldb.New(db).PlannedStock(ctx)
	if err != nil {
		return nil, fmt.Errorf("plan: read planned stock: %w", err)
	}
	counted, err := stock.Totals(ctx)
	if err != nil {
		return nil, fmt.Errorf("plan: read stock: %w", err)
	}
	var found []proof.Violation
	differs := func(item int64, detail string, figures ...any) {
		found = append(found, proof.Violation{Subject: inventory.ItemSubject(item), Detail: fmt.Sprintf(detail, figures...)})
	}
	for _, p := range planned {
		have, ok := counted[p.ID]
		delete(counted, p.ID)
		switch {
		case !ok:
			differs(p.ID, "The item is published but has no stock row.")
		case !p.Unlimited && have.OnSale != p.OnSale:
			differs(p.ID, "An operator put %d units on sale; the stock row has %d.", p.OnSale, have.OnSale)
		case have.Backup != int64(p.Backup):
			differs(p.ID, "An operator held %d units back; the stock row has %d in the backup and taken from it.", p.Backup, have.Backup)
		case p.Alive && have.Paused != p.Paused:
			differs(p.ID, "An operator left it paused %v; the stock row says %v.", p.Paused, have.Paused)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(counted)) {
		differs(id, "There is a stock row for an item that is not published.")
	}
	return found, nil
}
