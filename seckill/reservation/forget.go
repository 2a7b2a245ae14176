package reservation

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/base/app"
	"stampede/seckill/internal/seckilldb"
)

const (
	// forgetEvery is a few times a day: the deleted rows are months old.
	forgetEvery = 6 * time.Hour
	// forgetAtMost bounds what one statement deletes, so that it holds its row locks
	// for some tens of milliseconds and a million rows are split over many
	// transactions.
	forgetAtMost = 10_000
)

// Worker deletes reservations of sessions that ended longer than keep ago. Every
// instance runs it; they share the work, because each skips rows that another is
// deleting.
func (s *Service) Worker(keep time.Duration) app.Worker {
	loop := app.Loop{
		Every: forgetEvery, Log: s.deps.Log, Failed: "deleting old reservations failed",
		Do: func(ctx context.Context) error { return s.forget(ctx, keep, forgetAtMost) },
	}
	return app.Worker{Name: "reservation-housekeeping", Run: loop.Run}
}

// forget makes one round, atMost rows at a time. What it deleted before an
// error or the end of ctx stays deleted.
func (s *Service) forget(ctx context.Context, keep time.Duration, atMost int32) error {
	q := seckilldb.New(s.deps.DB)
	items, err := q.LongReservedItems(ctx, keep.Seconds())
	if err != nil {
		return fmt.Errorf("reservation: find old reservations: %w", err)
	}
	for _, id := range items {
		total := int64(0)
		for {
			gone, err := q.ForgetReservations(ctx, seckilldb.ForgetReservationsParams{ItemID: id, RowLimit: atMost})
			if err != nil {
				return fmt.Errorf("reservation: delete reservations of item %d: %w", id, err)
			}
			if total += gone; gone < int64(atMost) {
				break
			}
		}
		if err := q.ForgetReservationCount(ctx, id); err != nil {
			return fmt.Errorf("reservation: delete reservation count of item %d: %w", id, err)
		}
		s.deps.Log.InfoContext(ctx, "old reservations deleted", "item_id", id, "rows", total)
	}
	return nil
}
