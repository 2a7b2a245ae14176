package coupon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/coupon/internal/coupondb"
	"stampede/order/couponevent"
	"stampede/platform/base/app"
	"stampede/platform/identity/account/accountevent"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
)

// Reservations are who reserved what; seckill implements it.
type Reservations interface {
	// ReservationsClosed returns when the reservation of items closed, of those listed
	// and those of the activities; items that can still be reserved are left out.
	ReservationsClosed(ctx context.Context, items, activities []int64) (map[int64]time.Time, error)
	// ReservedBy returns up to limit users above after who reserved an item, in order.
	ReservedBy(ctx context.Context, item, after int64, limit int32) ([]int64, error)
}

const (
	// reservedEvery is how often closed reservations are looked for: shoppers have their
	// coupons within a minute after the closing, before they pay.
	reservedEvery = 15 * time.Second
	// rulePage is how many coupons a rule issues in one transaction, during which claims
	// of the kind wait: some hundredths of a second.
	rulePage = 1000
)

// RegisteredSubscription issues coupons to new accounts. It needs no inbox: a user's
// first coupon of a kind is issued once.
func (s *Service) RegisteredSubscription() bus.Subscription {
	return bus.Subscription{Name: "coupon-registrations", Filter: accountevent.SubjectRegistered, MaxAttempts: registeredAttempts, Handle: s.registered}
}

// registeredAttempts is how often an account's coupons are tried before they become a
// dead letter: through half an hour without Postgres, after which the row locks of an
// outage are gone.
const registeredAttempts = 70

func (s *Service) registered(ctx context.Context, m bus.Msg) error {
	var e accountevent.Registered
	if err := json.Unmarshal(m.Data, &e); err != nil || e.UserID <= 0 {
		return fmt.Errorf("coupon: decode %s: user %d: %w", m.Subject, e.UserID, err)
	}
	kinds, err := coupondb.New(s.db).KindsOnRule(ctx, onRegistration)
	if err != nil {
		return fmt.Errorf("coupon: list kinds for registrations: %w", err)
	}
	for i := range kinds {
		err := s.issueOnRule(ctx, kinds[i].ID, []int64{e.UserID}, func(*coupondb.Queries) error { return nil })
		if err != nil && !errors.Is(err, errGone) && !errors.Is(err, errNotActive) {
			return err
		}
	}
	return nil
}

// ReservedWorker issues coupons to users who reserved, once the reservation has closed.
// Instances may run it side by side: they repeat each other's work at worst.
func (s *Service) ReservedWorker(from Reservations, log *slog.Logger) app.Worker {
	loop := app.Loop{
		Every: reservedEvery, Log: log, Failed: "coupons for reservations not issued, trying again",
		Do: func(ctx context.Context) error { return s.issueReserved(ctx, from) },
	}
	return app.Worker{Name: "coupons-for-reservations", Run: loop.Run}
}

// issueReserved issues what is due. A kind that fails does not stop the others.
func (s *Service) issueReserved(ctx context.Context, from Reservations) error {
	kinds, err := coupondb.New(s.db).KindsOnRule(ctx, onReservation)
	if err != nil {
		return fmt.Errorf("coupon: list kinds for reservations: %w", err)
	}
	for i := range kinds {
		if e := s.issueReservedOf(ctx, from, &kinds[i]); e != nil && !errors.Is(e, errGone) && !errors.Is(e, errNotActive) {
			err = errors.Join(err, fmt.Errorf("coupon: issue kind %d for reservations: %w", kinds[i].ID, e))
		}
	}
	return err
}

// issueReservedOf walks the closed reservations of a kind's items. Each page and the
// place after it are one transaction, so that a restart goes on where it was.
func (s *Service) issueReservedOf(ctx context.Context, from Reservations, k *coupondb.OrdersCouponKind) error {
	closed, err := from.ReservationsClosed(ctx, k.ReservedItemIds, k.ReservedActivityIds)
	if err != nil || len(closed) == 0 {
		return err
	}
	rows, err := coupondb.New(s.db).ProgressOf(ctx, k.ID)
	if err != nil {
		return fmt.Errorf("read progress: %w", err)
	}
	progress := make(map[int64]coupondb.OrdersCouponProgress, len(rows))
	for _, p := range rows {
		progress[p.ItemID] = p
	}
	for item, at := range closed {
		p := progress[item]
		if !p.ClosedAt.Equal(at) {
			p = coupondb.OrdersCouponProgress{KindID: k.ID, ItemID: item, ClosedAt: at}
		}
		for !p.Done {
			if p, err = s.issueReservedPage(ctx, from, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// issueReservedPage issues to the next users of an item and returns the place after
// them.
func (s *Service) issueReservedPage(ctx context.Context, from Reservations, p coupondb.OrdersCouponProgress) (coupondb.OrdersCouponProgress, error) {
	k, err := kind(ctx, coupondb.New(s.db), p.KindID)
	if err != nil {
		return p, err
	}
	// No more than are left, so that the last page is issued in part rather than not.
	limit := min(rulePage, k.Total-k.Issued)
	if limit <= 0 {
		return p, errGone
	}
	users, err := from.ReservedBy(ctx, p.ItemID, p.AfterUser, int32(limit)) //nolint:gosec // a page
	if err != nil {
		return p, err
	}
	if p.Done = int64(len(users)) < limit; len(users) > 0 {
		p.AfterUser = users[len(users)-1]
	}
	return p, s.issueOnRule(ctx, p.KindID, users, func(q *coupondb.Queries) error {
		return q.SaveProgress(ctx, coupondb.SaveProgressParams(p))
	})
}

// issueOnRule issues the first coupon of a kind to those users who were issued none,
// and saves the place in the same transaction. It fails with errNotActive and errGone.
func (s *Service) issueOnRule(ctx context.Context, kind int64, users []int64, save func(*coupondb.Queries) error) error {
	return pg.InTx(ctx, s.db, func(tx pgx.Tx) error {
		q := coupondb.New(tx)
		k, now, err := lockKind(ctx, q, kind)
		if err != nil {
			return err
		}
		if k.Status != active || k.ValidUntil != nil && !now.Before(*k.ValidUntil) {
			return errNotActive
		}
		p := coupondb.IssueParams{KindID: kind}
		p.ValidFrom, p.ValidUntil = validity(&k, now)
		for _, user := range users {
			add(&p, user, 1)
		}
		if _, err := s.put(ctx, tx, p, couponevent.ByRule); err != nil {
			return err
		}
		if err := save(q); err != nil {
			return fmt.Errorf("coupon: save progress: %w", err)
		}
		return nil
	})
}
