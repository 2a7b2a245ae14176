package seckill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/seckillevent"
)

// Plan tells other modules what was on sale, when, and by which rules. It reads
// Postgres and no more, so that what reads it is built before the module. Safe for
// concurrent use.
type Plan struct {
	db *pgxpool.Pool

	mu    sync.Mutex
	known map[int64]readSale // by item
}

// NewPlan returns the plan in db.
func NewPlan(db *pgxpool.Pool) *Plan { return &Plan{db: db, known: make(map[int64]readSale)} }

// readSale is what was on sale as an item, as read at a time.
type readSale struct {
	seckillevent.Sale
	at time.Time
}

const (
	// saleFor is how long an item's sale is remembered, because thousands of its orders
	// are paid in the same minute: once an item has orders, operators only correct its
	// texts and extend its end.
	saleFor = time.Minute
	// maxSales bounds the memory, at some 500 bytes each; what is forgotten is read again.
	maxSales = 4096
)

// WhenOnSale returns the first opening and the last closing of the sessions that
// match the item, the session and the activity, where each may be nil for any;
// known is false when none matches. The order search uses it to bound the order
// numbers.
func (p *Plan) WhenOnSale(ctx context.Context, item, session, activity *int64) (opens, closes time.Time, known bool, err error) {
	span, err := seckilldb.New(p.db).WhenOnSale(ctx, seckilldb.WhenOnSaleParams{ItemID: item, SessionID: session, ActivityID: activity})
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
func (p *Plan) ItemsOfSKU(ctx context.Context, sku string, most int) (items []int64, opens, closes time.Time, err error) {
	rows, err := seckilldb.New(p.db).ItemsOfSKU(ctx, seckilldb.ItemsOfSKUParams{Sku: sku, Most: int32(most)}) //nolint:gosec // a bound
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

// SaleOf returns what was on sale as an item, the zero value if there is no such item.
func (p *Plan) SaleOf(ctx context.Context, item int64) (seckillevent.Sale, error) {
	p.mu.Lock()
	known, ok := p.known[item]
	p.mu.Unlock()
	if ok && time.Since(known.at) < saleFor {
		return known.Sale, nil
	}
	row, err := seckilldb.New(p.db).SaleOf(ctx, item)
	if errors.Is(err, pgx.ErrNoRows) {
		return seckillevent.Sale{}, nil
	}
	if err != nil {
		return seckillevent.Sale{}, fmt.Errorf("seckill: read the sale of item %d: %w", item, err)
	}
	sale := seckillevent.Sale{
		SKU: row.Sku, Spec: row.Spec, ImageURL: row.ImageUrl, Activity: row.Activity, Session: row.Session,
		StartsAt: row.StartsAt, EndsAt: row.EndsAt, OpensAt: row.OpensAt, ClosesAt: row.ClosesAt, Checkout: row.Checkout, PointsRate: row.PointsRate,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxSales {
		clear(p.known)
	}
	p.known[item] = readSale{Sale: sale, at: time.Now()}
	return sale, nil
}

// settleAfter is how long after its closing a reservation may still be granted by a
// statement that began before: longer than a batch is allowed to take, and than
// Postgres needs to notice that its client gave up.
const settleAfter = 30 * time.Second

// ReservationsClosed returns when the reservation of items closed, of those listed and
// of the items of the activities; items that can still be reserved are left out.
func (p *Plan) ReservationsClosed(ctx context.Context, items, activities []int64) (map[int64]time.Time, error) {
	rows, err := seckilldb.New(p.db).ReservationsClosed(ctx, seckilldb.ReservationsClosedParams{ItemIds: items, ActivityIds: activities, Settle: settleAfter})
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
func (p *Plan) ReservedBy(ctx context.Context, item, after int64, limit int32) ([]int64, error) {
	rows, err := seckilldb.New(p.db).ReservationsOf(ctx, seckilldb.ReservationsOfParams{ItemID: item, After: after, RowLimit: limit})
	if err != nil {
		return nil, fmt.Errorf("seckill: read who reserved item %d: %w", item, err)
	}
	users := make([]int64, len(rows))
	for i := range rows {
		users[i] = rows[i].UserID
	}
	return users, nil
}

// RefundRule returns for how long after paying a shopper of the activity may refund
// an order, 0 for never, and whether the units of a refunded order are written off.
// Unknown activities have the default rule: never, and not.
func (p *Plan) RefundRule(ctx context.Context, activity int64) (within time.Duration, writeOff bool, err error) {
	r, err := seckilldb.New(p.db).RefundRule(ctx, activity)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, false, fmt.Errorf("seckill: read the refund rule of activity %d: %w", activity, err)
	}
	return time.Duration(r.RefundWithinHours) * time.Hour, r.RefundUnits == "write_off", nil
}
