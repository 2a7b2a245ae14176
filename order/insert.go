package order

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/seckill/seckillevent"
)

// columns are what the writer stores of an order: what follows from its number, and its
// fields.
var columns = []string{
	"bucket", "order_no",
	"user_id", "item_id", "activity_id", "session_id", "shard", "one_per_activity", "epoch", "quantity", "unit_price",
	"pay_deadline", "created_at", "updated_at", "currency", "title", "status", "reason",
}

// fields points to what every order has from the beginning, in the order of columns, and
// of a cache entry (see appendCached), whose order must stay.
func fields(o *orderevent.Order) [16]any {
	return [...]any{
		&o.UserID, &o.ItemID, &o.ActivityID, &o.SessionID, &o.Shard, &o.PerActivity, &o.Epoch, &o.Quantity, &o.UnitPrice,
		&o.PayDeadline, &o.CreatedAt, &o.UpdatedAt, &o.Currency, &o.Title, &o.Status, &o.Reason,
	}
}

// copyPending makes orders of grants by COPY, which writes a page at a time
// where INSERT writes a row, and is half as fast again as INSERT … ON CONFLICT.
// COPY has no ON CONFLICT: a grant that is known or whose user has another live
// order aborts the transaction, which is then run again with insertOrders.
// Both are rare, because Redis lets no user have two and the inbox filters
// redelivered messages.
var copyPending = "COPY orders.orders (" + strings.Join(columns, ", ") + ") FROM STDIN (FORMAT binary)"

// insertOrders makes rows of orders, an array of objects, where copyPending cannot, and
// records refused numbers. It keeps the orders in stream order, so that of two grants of
// one user the earlier wins. A row that conflicts with any unique key is left out and
// classified by the caller; refused rows are in no partial unique index, and are left out
// only if their number is known already.
var insertOrders = "INSERT INTO orders.orders (" + strings.Join(columns, ", ") + ") SELECT " + strings.Join(columns, ", ") +
	" FROM jsonb_populate_recordset(NULL::orders.orders, $1) ON CONFLICT DO NOTHING RETURNING order_no"

const (
	// copyHead opens the binary format: signature, no flags, no extension.
	copyHead = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"
	// copyTail closes it: a row of −1 columns.
	copyTail = "\xff\xff"
	// copyRowBytes is the size of a row whose texts have the usual length.
	copyRowBytes = 256
)

// entry is one grant on its way to a row.
type entry struct {
	grant  *seckillevent.Grant
	from   int    // which message of the transaction, from 0
	reason string // of the refusal
}

// copyIn makes a row of every order, or fails. The rows are encoded here: pgx takes half
// as much time again for them.
func copyIn(ctx context.Context, tx pgx.Tx, orders []orderevent.Order) error {
	if len(orders) == 0 {
		return nil
	}
	data := append(make([]byte, 0, len(copyHead)+len(orders)*copyRowBytes+len(copyTail)), copyHead...)
	for i := range orders {
		data = appendRow(data, &orders[i])
	}
	tag, err := tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(append(data, copyTail...)), copyPending)
	if err == nil && tag.RowsAffected() != int64(len(orders)) {
		err = fmt.Errorf("postgres stored %d of %d", tag.RowsAffected(), len(orders))
	}
	if err != nil {
		return fmt.Errorf("copy orders: %w", err)
	}
	return nil
}

// appendRow appends an order as one row of the binary format.
func appendRow(b []byte, o *orderevent.Order) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(columns)))
	bucket := o.No.Bucket()
	b = appendColumn(b, &bucket)
	b = append(appendLength(b, len(o.No)), o.No[:]...)
	for _, f := range fields(o) {
		b = appendColumn(b, f)
	}
	return b
}

// postgresEpochMicros is 2000-01-01 UTC, Postgres's epoch, in Unix
// microseconds.
const postgresEpochMicros = 946_684_800 * 1_000_000

// appendColumn appends a column behind its length.
func appendColumn(b []byte, field any) []byte {
	switch v := field.(type) {
	case *int64:
		return binary.BigEndian.AppendUint64(appendLength(b, 8), uint64(*v)) //nolint:gosec // the bits, not the value
	case *int32:
		return binary.BigEndian.AppendUint32(appendLength(b, 4), uint32(*v)) //nolint:gosec // as above
	case *int16:
		return binary.BigEndian.AppendUint16(appendLength(b, 2), uint16(*v)) //nolint:gosec // as above
	case *bool:
		one := byte(0)
		if *v {
			one = 1
		}
		return append(appendLength(b, 1), one)
	case *time.Time:
		return binary.BigEndian.AppendUint64(appendLength(b, 8), uint64(v.UnixMicro()-postgresEpochMicros)) //nolint:gosec // as above
	case *string:
		return append(appendLength(b, len(*v)), *v...)
	default:
		panic("order: a field of a type that no column has")
	}
}

func appendLength(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(n)) //nolint:gosec // columns are small
}

// insert runs insertOrders and returns the orders that became rows.
func insert(ctx context.Context, tx pgx.Tx, orders []orderevent.Order) ([]orderevent.Order, error) {
	if len(orders) == 0 {
		return nil, nil
	}
	objects := make([]map[string]any, len(orders))
	for i := range orders {
		o := map[string]any{columns[0]: orders[i].No.Bucket(), columns[1]: orders[i].No}
		for at, f := range fields(&orders[i]) {
			o[columns[2+at]] = f
		}
		objects[i] = o
	}
	data, err := json.Marshal(objects)
	if err != nil {
		return nil, fmt.Errorf("encode orders: %w", err)
	}
	rows, err := tx.Query(ctx, insertOrders, data)
	if err != nil {
		return nil, fmt.Errorf("insert orders: %w", err)
	}
	nos, err := pgx.CollectRows(rows, pgx.RowTo[ids.ID])
	if err != nil {
		return nil, fmt.Errorf("insert orders: %w", err)
	}
	inserted := make(map[ids.ID]bool, len(nos))
	for _, no := range nos {
		inserted[no] = true
	}
	made := make([]orderevent.Order, 0, len(nos))
	for i := range orders {
		if inserted[orders[i].No] {
			delete(inserted, orders[i].No) // a number that came twice is one row
			made = append(made, orders[i])
		}
	}
	return made, nil
}

// payWindow is how long the shopper has to pay, in Postgres's precision: the
// sale's window, or less if the grant says so, never more.
func payWindow(b *seckillevent.Batch, g *seckillevent.Grant) time.Duration {
	window := b.PayWindow
	if g.PayWithin > 0 {
		window = min(window, time.Duration(g.PayWithin)*time.Second)
	}
	return window.Truncate(time.Microsecond)
}

// ordersOf are the orders that entries become at a time.
func ordersOf(batches []*seckillevent.Batch, entries []entry, status string, at time.Time) []orderevent.Order {
	orders := make([]orderevent.Order, len(entries))
	for i, e := range entries {
		b, deadline := batches[e.from], at
		if status == orderevent.StatusPending {
			deadline = at.Add(payWindow(b, e.grant))
		}
		orders[i] = orderevent.Order{
			No: e.grant.No, UserID: e.grant.User, ItemID: b.ItemID, ActivityID: b.ActivityID, SessionID: b.SessionID,
			Shard: b.Shard, PerActivity: b.PerActivity, Epoch: b.Epoch, Quantity: e.grant.Quantity,
			UnitPrice: b.UnitPrice, Currency: b.Currency, Title: b.Title, Status: status, Reason: e.reason, Version: 1,
			PayDeadline: deadline, CreatedAt: at, UpdatedAt: at,
		}
	}
	return orders
}
