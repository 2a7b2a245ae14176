package order

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/seckill/seckillevent"
)

// copyPending makes orders of grants by COPY, which writes a page at a time
// where INSERT writes a row, and is half as fast again as INSERT … ON CONFLICT.
// COPY has no ON CONFLICT: a grant that is known or whose user has another live
// order aborts the transaction, which is then run again with insertPending.
// Both are rare, because Redis lets no user have two and the inbox filters
// redelivered messages.
const copyPending = `
COPY orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, shard, epoch, quantity, unit_price,
                    currency, title, one_per_activity, status, pay_deadline, created_at, updated_at)
FROM STDIN (FORMAT binary)`

// copyColumns is how many columns copyPending names.
const copyColumns = 17

// copyHead opens the binary format: signature, no flags, no extension.
const copyHead = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// copyTail closes it: a row of −1 columns.
const copyTail = "\xff\xff"

// copyRowBytes is the size of a row without its texts: the column count, 17
// lengths and the fixed columns; see appendRow.
const copyRowBytes = 2 + copyColumns*4 + 3*2 + 16 + 9*8 + 4 + 1

// copyIn makes an order of every entry, or fails.
func copyIn(ctx context.Context, tx pgx.Tx, batches []*seckillevent.Batch, entries []entry) ([]orderevent.Order, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	// One time for all orders, by Postgres's clock, so that they fall due
	// together.
	at, err := orderdb.New(tx).Clock(ctx)
	if err != nil {
		return nil, fmt.Errorf("read clock: %w", err)
	}
	at = at.UTC()
	orders := make([]orderevent.Order, len(entries))
	size := len(copyHead) + len(copyTail)
	for i, e := range entries {
		orders[i] = orderOf(batches[e.from], e, orderevent.StatusPending, at)
		size += copyRowBytes + len(orders[i].Currency) + len(orders[i].Title) + len(orders[i].Status)
	}
	data := append(make([]byte, 0, size), copyHead...)
	for i := range orders {
		data = appendRow(data, &orders[i])
	}
	data = append(data, copyTail...)
	tag, err := tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(data), copyPending)
	if err != nil {
		return nil, fmt.Errorf("copy orders: %w", err)
	}
	if tag.RowsAffected() != int64(len(orders)) {
		return nil, fmt.Errorf("copy orders: Postgres stored %d of %d", tag.RowsAffected(), len(orders))
	}
	return orders, nil
}

// appendRow appends an order as one row of the binary format: every column
// preceded by its length, in the order of copyPending's columns.
func appendRow(b []byte, o *orderevent.Order) []byte {
	b = binary.BigEndian.AppendUint16(b, copyColumns)
	b = appendInt16(b, o.No.Bucket())
	b = append(appendLength(b, len(o.No)), o.No[:]...)
	for _, v := range [...]int64{o.UserID, o.ItemID, o.ActivityID, o.SessionID} {
		b = appendInt64(b, v)
	}
	b = appendInt16(b, o.Shard)
	b = appendInt64(b, o.Epoch)
	b = binary.BigEndian.AppendUint32(appendLength(b, 4), uint32(o.Quantity)) //nolint:gosec // the bits, not the value
	b = appendInt64(b, o.UnitPrice)
	b = append(appendLength(b, len(o.Currency)), o.Currency...)
	b = append(appendLength(b, len(o.Title)), o.Title...)
	one := byte(0)
	if o.PerActivity {
		one = 1
	}
	b = append(appendLength(b, 1), one)
	b = append(appendLength(b, len(o.Status)), o.Status...)
	for _, t := range [...]time.Time{o.PayDeadline, o.CreatedAt, o.UpdatedAt} {
		b = appendInt64(b, t.UnixMicro()-postgresEpochMicros)
	}
	return b
}

// postgresEpochMicros is 2000-01-01 UTC, Postgres's epoch, in Unix
// microseconds.
const postgresEpochMicros = 946_684_800 * 1_000_000

func appendLength(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(n)) //nolint:gosec // columns are small
}

func appendInt16(b []byte, v int16) []byte {
	return binary.BigEndian.AppendUint16(appendLength(b, 2), uint16(v)) //nolint:gosec // the bits, not the value
}

func appendInt64(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(appendLength(b, 8), uint64(v)) //nolint:gosec // the bits, not the value
}
