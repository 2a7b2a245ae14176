// Package table reads and locks the rows of orders, and appends the events of their
// changes, for order and the packages in it.
package table

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
)

// Lock returns an order's row, locked until tx ends, or pgx.ErrNoRows.
func Lock(ctx context.Context, tx pgx.Tx, no ids.ID) (orderdb.OrdersOrder, error) {
	return orderdb.New(tx).LockOrder(ctx, orderdb.LockOrderParams{OrderNo: no, Bucket: no.Bucket()})
}

// Read returns an order's row, or pgx.ErrNoRows.
func Read(ctx context.Context, db orderdb.DBTX, no ids.ID) (orderdb.OrdersOrder, error) {
	return orderdb.New(db).ReadOrder(ctx, orderdb.ReadOrderParams{OrderNo: no, Bucket: no.Bucket()})
}

// Many returns the orders of many numbers; numbers without one are left out.
func Many(ctx context.Context, db orderdb.DBTX, nos []ids.ID) (map[ids.ID]orderevent.Order, error) {
	rows, err := orderdb.New(db).ReadOrders(ctx, orderdb.ReadOrdersParams{OrderNos: nos, Buckets: Buckets(nos)})
	if err != nil {
		return nil, fmt.Errorf("order: read %d orders: %w", len(nos), err)
	}
	orders := make(map[ids.ID]orderevent.Order, len(rows))
	for _, r := range rows {
		orders[r.OrderNo] = r.Order()
	}
	return orders, nil
}

// Buckets returns the bucket of each number: every statement filters by both,
// so that Postgres goes to one partition per number.
func Buckets(nos []ids.ID) []int16 {
	buckets := make([]int16, len(nos))
	for i, no := range nos {
		buckets[i] = no.Bucket()
	}
	return buckets
}

// Publish appends the orders' events to the outbox and returns their ids.
func Publish(ctx context.Context, tx pgx.Tx, subject string, orders ...orderevent.Order) ([]ids.ID, error) {
	payloads, err := orderevent.Pack(orders)
	if err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	events := make([]ids.ID, 0, len(payloads))
	for _, payload := range payloads {
		id, err := outbox.Append(ctx, tx, subject, payload)
		if err != nil {
			return nil, fmt.Errorf("append %s: %w", subject, err)
		}
		events = append(events, id)
	}
	return events, nil
}
