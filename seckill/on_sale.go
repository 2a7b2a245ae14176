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

// SaleOf returns what was on sale as an item; known is false if there is no such
// item. It does not change once the item has orders, except for the end of a
// terminated activity.
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
