package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/acts"
	"stampede/order/details"
	"stampede/order/dispute"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/store/pg"
)

// completedByRule is the reason in the history of an order that was completed by time.
const completedByRule = "time"

const (
	// keepHouseEvery is how often orders are completed by rule, which counts days,
	// and personal data is erased.
	keepHouseEvery = time.Minute
	// completeLimit is how many orders one transaction completes.
	completeLimit = 500
)

// housekeeping completes what was paid long ago and erases what is kept no longer.
func (s *Service) housekeeping(ctx context.Context) error {
	return app.Loop{Every: keepHouseEvery, Do: s.keepHouse, Log: s.deps.Log, Failed: "completing, erasing or archiving of old orders failed"}.Run(ctx)
}

func (s *Service) keepHouse(ctx context.Context) error {
	err := errors.Join(details.Erase(ctx, s.deps.DB, s.cfg.KeepDetails), dispute.Erase(ctx, s.deps.DB, s.cfg.KeepDetails), acts.Erase(ctx, s.deps.DB, s.cfg.KeepDetails))
	for n := completeLimit; n == completeLimit && err == nil && s.cfg.CompleteAfter > 0; {
		n, err = s.completeDue(ctx)
	}
	return err
}

// completeDue completes the orders that were paid CompleteAfter ago and are not to be
// picked up, in one transaction, and returns how many. Instances share the work: each
// gets orders that no other has locked.
func (s *Service) completeDue(ctx context.Context) (int, error) {
	var done []orderevent.Order
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		rows, err := orderdb.New(tx).CompleteDue(ctx, orderdb.CompleteDueParams{After: s.cfg.CompleteAfter, Most: completeLimit, Reason: completedByRule})
		if err != nil {
			return fmt.Errorf("order: complete due orders: %w", err)
		}
		done = done[:0] // InTx may run this again
		for _, r := range rows {
			done = append(done, orderdb.OrdersOrder(r).Order())
		}
		_, err = table.Publish(ctx, tx, orderevent.SubjectCompleted, done...)
		return err
	})
	if err == nil && len(done) > 0 {
		s.Committed(ctx, done...)
	}
	return len(done), err
}

// Forget is called in the transaction in which a user deletes the account.
func (s *Service) Forget(ctx context.Context, tx pgx.Tx, user int64) error {
	return errors.Join(details.Forget(ctx, tx, user), dispute.Forget(ctx, tx, user), acts.Forget(ctx, tx, user))
}
