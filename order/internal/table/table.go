// Package table reads and locks the rows of orders, and appends the events of their
// changes, for order and the packages in it.
package table

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
)

// Lock returns an order's row, locked until tx ends. Its error is none if there is no
// such order.
func Lock(ctx context.Context, tx pgx.Tx, no ids.ID, none error) (orderdb.OrdersOrder, error) {
	row, err := orderdb.New(tx).LockOrder(ctx, orderdb.LockOrderParams{OrderNo: no, Bucket: no.Bucket()})
	return row, orNone(err, none, "lock", no)
}

// Read returns an order's row. Its error is none if there is no such order.
func Read(ctx context.Context, db orderdb.DBTX, no ids.ID, none error) (orderdb.OrdersOrder, error) {
	row, err := orderdb.New(db).ReadOrder(ctx, orderdb.ReadOrderParams{OrderNo: no, Bucket: no.Bucket()})
	return row, orNone(err, none, "read", no)
}

func orNone(err, none error, what string, no ids.ID) error {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return none
	case err != nil:
		return fmt.Errorf("order: %s %s: %w", what, no, err)
	default:
		return nil
	}
}

// Many returns the orders of many numbers; numbers without one are left out.
func Many(ctx context.Context, db orderdb.DBTX, nos []ids.ID) (map[ids.ID]orderevent.Order, error) {
	rows, err := orderdb.New(db).ReadOrders(ctx, orderdb.ReadOrdersParams{OrderNos: nos, Buckets: ids.BucketsOf(nos)})
	if err != nil {
		return nil, fmt.Errorf("order: read %d orders: %w", len(nos), err)
	}
	orders := make(map[ids.ID]orderevent.Order, len(rows))
	for _, r := range rows {
		orders[r.OrderNo] = r.Order()
	}
	return orders, nil
}

// changed is a row as a statement returns it that changed the order.
type changed interface {
	orderdb.AmendRow | orderdb.CloseClaimedRow | orderdb.CompleteDueRow | orderdb.CompleteOrderRow | orderdb.MarkPaidRow |
		orderdb.MarkShippedRow | orderdb.MoveRefundingRow | orderdb.NoteRefundRow | orderdb.RetakeRow
}

// Orders are the orders of changed rows.
func Orders[Row changed](rows ...Row) []orderevent.Order {
	orders := make([]orderevent.Order, len(rows))
	for i, r := range rows {
		orders[i] = orderdb.OrdersOrder(r).Order()
	}
	return orders
}

// Announce returns the order of a row that a statement has changed, and appends the event
// of the change; or the statement's error.
func Announce[Row changed](ctx context.Context, tx pgx.Tx, subject string, row Row, err error) (orderevent.Order, error) {
	if err != nil {
		return orderevent.Order{}, err
	}
	orders := Orders(row)
	_, err = Publish(ctx, tx, subject, orders...)
	return orders[0], err
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
