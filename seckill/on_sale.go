package seckill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/seckillevent"
)

// WhenOnSale returns the first opening and the last closing of the sessions that
// match the item, the session and the activity, where each may be nil for any;
// known is false when none matches. The order search uses it to bound the order
// numbers.
func (s *Service) WhenOnSale(ctx context.Context, item, session, activity *int64) (opens, closes time.Time, known bool, err error) {
	span, err := seckilldb.New(s.deps.DB).WhenOnSale(ctx, seckilldb.WhenOnSaleParams{ItemID: item, SessionID: session, ActivityID: activity})
	if errors.Is(err, pgx.ErrNoRows) {
		return opens, closes, false, nil
	}
	if err != nil {
		return opens, closes, false, fmt.Errorf("seckill: read when something was on sale: %w", err)
	}
	return span.OpensAt, span.ClosesAt, true, nil
}

// ItemsOfSKU returns the latest items of a SKU, most at most, and the first opening and
// the last closing of their sessions.
func (s *Service) ItemsOfSKU(ctx context.Context, sku string, most int) (items []int64, opens, closes time.Time, err error) {
	rows, err := seckilldb.New(s.deps.DB).ItemsOfSKU(ctx, seckilldb.ItemsOfSKUParams{Sku: sku, Most: int32(most)}) //nolint:gosec // a bound
	if err != nil {
		return nil, opens, closes, fmt.Errorf("seckill: read the items of a SKU: %w", err)
	}
	for i, r := range rows {
		if i == 0 || r.OpensAt.Before(opens) {
			opens = r.OpensAt
		}
		if r.ClosesAt.After(closes) {
			closes = r.ClosesAt
		}
		items = append(items, r.ID)
	}
	return items, opens, closes, nil
}

// SaleOf returns what was on sale as an item; known is false if there is no such
// item. Once the item has orders, only its texts and its end still change.
func (s *Service) SaleOf(ctx context.Context, item int64) (sale seckillevent.Sale, known bool, err error) {
	row, err := seckilldb.New(s.deps.DB).SaleOf(ctx, item)
	if errors.Is(err, pgx.ErrNoRows) {
		return sale, false, nil
	}
	if err != nil {
		return sale, false, fmt.Errorf("seckill: read what was on sale: %w", err)
	}
	return seckillevent.Sale{
		SKU: row.Sku, Spec: row.Spec, ImageURL: row.ImageUrl, Activity: row.Activity, Session: row.Session,
		StartsAt: row.StartsAt, EndsAt: row.EndsAt, OpensAt: row.OpensAt, ClosesAt: row.ClosesAt, Checkout: row.Checkout,
	}, true, nil
}

// settleAfter is how long after its closing a reservation may still be granted by a
// statement that began before: longer than a batch is allowed to take, and than
// Postgres needs to notice that its client gave up.
const settleAfter = 30 * time.Second

// ReservationsClosed returns when the reservation of items closed, of those listed and
// of the items of the activities; items that can still be reserved are left out.
func (s *Service) ReservationsClosed(ctx context.Context, items, activities []int64) (map[int64]time.Time, error) {
	rows, err := seckilldb.New(s.deps.DB).ReservationsClosed(ctx, seckilldb.ReservationsClosedParams{ItemIds: items, ActivityIds: activities, Settle: settleAfter})
	if err != nil {
		return nil, fmt.Errorf("seckill: read which reservations closed: %w", err)
	}
	closed := make(map[int64]time.Time, len(rows))
	for _, r := range rows {
		closed[r.ID] = r.ClosedAt
	}
	return closed, nil
}

// ReservedBy returns up to limit users above after who reserved an item, in order.
func (s *Service) ReservedBy(ctx context.Context, item, after int64, limit int32) ([]int64, error) {
	rows, err := seckilldb.New(s.deps.DB).ReservationsOf(ctx, seckilldb.ReservationsOfParams{ItemID: item, After: after, RowLimit: limit})
	if err != nil {
		return nil, fmt.Errorf("seckill: read who reserved item %d: %w", item, err)
	}
	users := make([]int64, len(rows))
	for i := range rows {
		users[i] = rows[i].UserID
	}
	return users, nil
}
