package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/store/pg"
)

// completedByRule is the reason in the history of an order that was completed by time.
const completedByRule = "time"

const (
	// unnotedAfter is how long after CompleteAfter an order is completed that its shop never noted
	// as sent: longer than goods of a presale take. Shops that note no shipments rely on it, and
	// so do shoppers, whose addresses are erased some time after their orders' end.
	unnotedAfter = 90 * 24 * time.Hour
	// keepHouseEvery is how often orders are completed by rule, which counts days,
	// and personal data is erased.
	keepHouseEvery = time.Minute
	// houseLimit is how many orders, or texts about them, one transaction changes.
	houseLimit = 500
)

// housekeeping completes what was paid long ago and erases what is kept no longer.
func (s *Service) housekeeping(ctx context.Context) error {
	return app.Loop{Every: keepHouseEvery, Do: s.keepHouse, Log: s.deps.Log, Failed: "completing or erasing of old orders failed"}.Run(ctx)
}

// keepHouse erases what people wrote about orders that ended longer ago than KeepDetails,
// or ended at all and whose shopper has deleted the account, and completes orders.
func (s *Service) keepHouse(ctx context.Context) error {
	q, keep := orderdb.New(s.deps.DB), s.cfg.KeepDetails
	err := errors.Join(
		s.forgetLately(ctx, q),
		eachHouseful(ctx, "erase details", q.EraseDetails, orderdb.EraseDetailsParams{Keep: keep, AtMost: houseLimit}),
		eachHouseful(ctx, "erase external references", q.EraseExternalReferences, orderdb.EraseExternalReferencesParams{Keep: keep, AtMost: houseLimit}),
		eachHouseful(ctx, "erase disputes", q.EraseDisputes, orderdb.EraseDisputesParams{Keep: keep, AtMost: houseLimit}),
		eachHouseful(ctx, "erase actions", q.EraseActs, orderdb.EraseActsParams{Keep: keep, AtMost: houseLimit}),
	)
	if err == nil && s.cfg.CompleteAfter > 0 {
		due := orderdb.CompleteDueParams{After: s.cfg.CompleteAfter, UnsentAfter: s.cfg.CompleteAfter + unnotedAfter, Most: houseLimit, Reason: completedByRule}
		err = eachHouseful(ctx, "complete due orders", s.completeDue, due)
	}
	return err
}

// forgetLately marks once more what was written about the orders of users who have deleted their accounts within a day: a
// transaction that overlapped the deletion saw no such user, and the deletion did not see its row.
func (s *Service) forgetLately(ctx context.Context, q *orderdb.Queries) error {
	users, err := q.LatelyForgotten(ctx)
	if err == nil && len(users) > 0 {
		err = q.ForgetUsers(ctx, users)
	}
	if err != nil {
		return fmt.Errorf("order: mark what is about users who have deleted their accounts: %w", err)
	}
	return nil
}

// eachHouseful calls do until it changes less than houseLimit.
func eachHouseful[P any](ctx context.Context, what string, do func(context.Context, P) (int64, error), p P) error {
	for {
		if n, err := do(ctx, p); err != nil {
			return fmt.Errorf("order: %s: %w", what, err)
		} else if n < houseLimit {
			return nil
		}
	}
}

// completeDue completes the orders that are due by time (see CompleteDue), in one transaction,
// and returns how many. Instances share the work: each gets orders that no other has locked.
func (s *Service) completeDue(ctx context.Context, due orderdb.CompleteDueParams) (int64, error) {
	var done []orderevent.Order
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		rows, err := orderdb.New(tx).CompleteDue(ctx, due)
		if err != nil {
			return err
		}
		done = table.Orders(rows...)
		_, err = table.Publish(ctx, tx, orderevent.SubjectCompleted, done...)
		return err
	})
	if err == nil && len(done) > 0 {
		s.Committed(ctx, done...)
	}
	return int64(len(done)), err
}

// Forget marks what was written about the orders of a user who deletes the account, in the
// transaction that does: keepHouse erases it as soon as the orders have ended.
func (s *Service) Forget(ctx context.Context, tx pgx.Tx, user int64) error {
	if err := orderdb.New(tx).ForgetUsers(ctx, []int64{user}); err != nil {
		return fmt.Errorf("order: forget user %d: %w", user, err)
	}
	return nil
}
