package order

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/seckill/seckillevent"
)

// insertPending makes orders of grants where copyPending cannot: when some are
// known or duplicates. What is the same for a whole message is sent once per
// message and read by subscript; unlike a join, that keeps the grants in stream
// order, so that of two grants of one user the earlier wins. A row that
// conflicts with any unique key is left out and classified by the caller. The
// statement is here because sqlc does not support unnest of several arrays in
// FROM.
//
// The time is read once, so that all orders of the batch fall due together.
const insertPending = `
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS at)
INSERT INTO orders.orders (bucket, order_no, user_id, quantity, item_id, activity_id, session_id, shard, epoch,
                           unit_price, currency, title, one_per_activity, status, pay_deadline, created_at, updated_at)
SELECT g.bucket, g.no, g.usr, g.quantity,
       ($6::bigint[])[g.m], ($7::bigint[])[g.m], ($8::bigint[])[g.m], ($9::smallint[])[g.m], ($10::bigint[])[g.m],
       ($11::bigint[])[g.m], ($12::text[])[g.m], ($13::text[])[g.m], ($14::boolean[])[g.m],
       'pending_payment', t.at + g.window_micros * interval '1 microsecond', t.at, t.at
FROM t, unnest($1::int[], $2::smallint[], $3::uuid[], $4::bigint[], $5::int[], $15::bigint[])
     AS g (m, bucket, no, usr, quantity, window_micros)
ON CONFLICT DO NOTHING
RETURNING order_no, created_at`

// insertRefused records refused numbers. Refused rows are in no partial unique
// index: a row is left out only if its number is known already.
const insertRefused = `
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS at)
INSERT INTO orders.orders (bucket, order_no, user_id, quantity, item_id, activity_id, session_id, shard, epoch,
                           unit_price, currency, title, one_per_activity, status, reason, pay_deadline, created_at, updated_at)
SELECT g.bucket, g.no, g.usr, g.quantity,
       ($6::bigint[])[g.m], ($7::bigint[])[g.m], ($8::bigint[])[g.m], ($9::smallint[])[g.m], ($10::bigint[])[g.m],
       ($11::bigint[])[g.m], ($12::text[])[g.m], ($13::text[])[g.m], ($14::boolean[])[g.m],
       'refused', g.reason, t.at, t.at, t.at
FROM t, unnest($1::int[], $2::smallint[], $3::uuid[], $4::bigint[], $5::int[], $15::text[])
     AS g (m, bucket, no, usr, quantity, reason)
ON CONFLICT DO NOTHING
RETURNING order_no, created_at`

// entry is one grant on its way to a row.
type entry struct {
	grant  *seckillevent.Grant
	from   int    // which message of the transaction, from 0
	reason string // of the refusal
}

// heads are the parts of a statement's arguments that are the same for all
// grants of a message.
type heads struct {
	item, activity, session, epoch, price []int64
	shard                                 []int16
	currency, title                       []string
	perActivity                           []bool
}

func newHeads(batches []*seckillevent.Batch) *heads {
	n := len(batches)
	wide, text := make([]int64, 5*n), make([]string, 2*n)
	h := &heads{
		item: wide[:n], activity: wide[n : 2*n], session: wide[2*n : 3*n], epoch: wide[3*n : 4*n], price: wide[4*n:],
		shard: make([]int16, n), currency: text[:n], title: text[n:], perActivity: make([]bool, n),
	}
	for i, b := range batches {
		h.item[i], h.activity[i], h.session[i], h.epoch[i] = b.ItemID, b.ActivityID, b.SessionID, b.Epoch
		h.price[i], h.shard[i], h.currency[i], h.title[i], h.perActivity[i] = b.UnitPrice, b.Shard, b.Currency, b.Title, b.PerActivity
	}
	return h
}

// columns are the arguments that differ from grant to grant.
type columns struct {
	message  []int32 // from 1, as SQL counts
	bucket   []int16
	no       []ids.ID
	user     []int64
	quantity []int32
	reason   []string
}

func newColumns(entries []entry) *columns {
	n := len(entries)
	narrow := make([]int32, 2*n)
	c := &columns{
		message: narrow[:n], quantity: narrow[n:], bucket: make([]int16, n), no: make([]ids.ID, n),
		user: make([]int64, n), reason: make([]string, n),
	}
	for i, e := range entries {
		c.message[i], c.bucket[i], c.no[i] = int32(e.from)+1, e.grant.No.Bucket(), e.grant.No //nolint:gosec // few messages
		c.user[i], c.quantity[i], c.reason[i] = e.grant.User, e.grant.Quantity, e.reason
	}
	return c
}

// insert runs one of the two statements and returns the entries that became
// rows, as orders, in entry order.
func insert(ctx context.Context, tx pgx.Tx, status string, batches []*seckillevent.Batch, h *heads, entries []entry) ([]orderevent.Order, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	c := newColumns(entries)
	statement, last := insertRefused, any(c.reason)
	if status == orderevent.StatusPending {
		statement, last = insertPending, windowMicros(batches, entries)
	}
	rows, err := tx.Query(ctx, statement, c.message, c.bucket, c.no, c.user, c.quantity,
		h.item, h.activity, h.session, h.shard, h.epoch, h.price, h.currency, h.title, h.perActivity, last)
	if err != nil {
		return nil, fmt.Errorf("insert %s orders: %w", status, err)
	}
	defer rows.Close()
	inserted := make(map[ids.ID]struct{}, len(entries))
	var at time.Time
	for rows.Next() {
		var no ids.ID
		if err := rows.Scan(&no, &at); err != nil {
			return nil, fmt.Errorf("read inserted %s orders: %w", status, err)
		}
		inserted[no] = struct{}{}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("insert %s orders: %w", status, err)
	}
	at = at.UTC()
	orders := make([]orderevent.Order, 0, len(inserted))
	for _, e := range entries {
		if _, ok := inserted[e.grant.No]; ok {
			delete(inserted, e.grant.No) // a number that came twice is one row
			orders = append(orders, orderOf(batches[e.from], e, status, at))
		}
	}
	return orders, nil
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

func windowMicros(batches []*seckillevent.Batch, entries []entry) []int64 {
	micros := make([]int64, len(entries))
	for i, e := range entries {
		micros[i] = payWindow(batches[e.from], e.grant).Microseconds()
	}
	return micros
}

// orderOf is the order that an entry becomes at a time.
func orderOf(b *seckillevent.Batch, e entry, status string, at time.Time) orderevent.Order {
	deadline := at
	if status == orderevent.StatusPending {
		deadline = at.Add(payWindow(b, e.grant))
	}
	return orderevent.Order{
		No: e.grant.No, UserID: e.grant.User, ItemID: b.ItemID, ActivityID: b.ActivityID, SessionID: b.SessionID,
		Shard: b.Shard, PerActivity: b.PerActivity, Epoch: b.Epoch, Quantity: e.grant.Quantity,
		UnitPrice: b.UnitPrice, Currency: b.Currency, Title: b.Title, Status: status, Reason: e.reason, Version: 1,
		PayDeadline: deadline, CreatedAt: at, UpdatedAt: at,
	}
}
