package order

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/require"
)

// TestLinesAreInEveryFormOfAnOrder: what the shopper pays is one sum, in the row, for
// the payment, in the event and in the cache.
func TestLinesAreInEveryFormOfAnOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	m := grants(s.item(10), 1)
	m.Grants[0].Quantity = 2
	no := m.Grants[0].No
	s.deliver(m)
	require.Equal(t, "amount of a new order", s.count(`SELECT orders.amount(unit_price, quantity, freight, discount) - unit_price * quantity FROM orders.orders WHERE order_no = $1`, no), 0)
	s.exec(`UPDATE orders.orders SET freight = 800, discount = 1500 WHERE order_no = $1`, no)
	s.exec(`INSERT INTO orders.coupon_uses (bucket, order_no, coupon_no, kind_id, discount, status) VALUES ($1, $2, $2, 1, 1500, 'locked')`, no.Bucket(), no)
	want := 2*m.UnitPrice + 800 - 1500

	var paid orderevent.Order
	s.inTx(func(tx pgx.Tx) error {
		o, err := s.Payable(t.Context(), tx, no, 1)
		require.Equal(t, "what is to be paid", o.Amount(), want)
		if err == nil {
			paid, _, err = s.MarkPaid(t.Context(), tx, no, orderevent.PaidBy{PaymentNo: ids.New()}, want)
		}
		return err
	})
	s.Committed(t.Context(), paid)
	row, err := table.Read(t.Context(), s.db, no, ErrNotFound)
	require.NoError(t, err)
	require.Equal(t, "SQL's amount", s.count(`SELECT orders.amount(unit_price, quantity, freight, discount) FROM orders.orders WHERE order_no = $1`, no), int(want))
	require.Equal(t, "it has the time of its payment", row.PaidAt != nil, true)
	require.Equal(t, "the event", s.events()[orderevent.SubjectPaid][0], paid)
	cached, ok, err := s.cache.get(t.Context(), no)
	require.NoError(t, err)
	require.Equal(t, "cached", ok, true)
	require.Equal(t, "the cache", cached, row.Order())
	require.Equal(t, "what MarkPaid returned", paid, row.Order())

	_, err = s.db.Exec(t.Context(), `UPDATE orders.orders SET discount = freight + unit_price * quantity + 1 WHERE order_no = $1`, no)
	if !pg.ViolatesCheck(err, "never_owes_the_shopper") {
		t.Errorf("a discount above the rest of the order: %v", err)
	}
}
