package order

import (
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/watch/deadletters"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

func TestI7FindsGrantsThatWereGivenUp(t *testing.T) {
	t.Parallel()
	s := setup(t)
	m := bus.Msg{Subject: "grants.1", ID: ids.New(), Attempt: 5}
	require.NoError(t, deadletters.Keep(t.Context(), s.db, "another-consumer", m, errors.New("unreadable")))
	requireViolation(t, s.violations(s.Checks(), "I7"))
	require.NoError(t, deadletters.Keep(t.Context(), s.db, writerName, m, errors.New("unreadable")))
	requireViolation(t, s.violations(s.Checks(), "I7"), "A message of grants.1 was given up after 5 attempts: unreadable")
}

func TestI7FindsEventsThatAreNotSent(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.inTx(func(tx pgx.Tx) error {
		_, err := outbox.Append(t.Context(), tx, orderevent.SubjectPaid, orderevent.Changed{})
		return err
	})
	requireViolation(t, s.violations(s.Checks(), "I7")) // it was committed just now
	s.exec(`UPDATE platform.outbox SET created_at = created_at - interval '1 min'`)
	requireViolation(t, s.violations(s.Checks(), "I7"), "outbox: The oldest event, "+orderevent.SubjectPaid+", was committed ")
	s.exec(`UPDATE platform.outbox SET sent_at = created_at`)
	s.exec(`INSERT INTO platform.outbox_refused (id, subject, payload, created_at, attempts, error, next_try, failed_at) VALUES
		(gen_random_uuid(), 'events.a', '', now(), 3, 'too large', now(), NULL), (gen_random_uuid(), 'events.b', '', now(), 50, 'too large', NULL, now())`)
	requireViolation(t, s.violations(s.Checks(), "I7"), "events.b was refused 50 times and is failed: too large", "events.a was refused 3 times and is refused: too large")
}

// TestI3FindsSecondPurchases: without rebuy a closed order counts as bought, for
// the item, and for the activity where the rule spans it.
func TestI3FindsSecondPurchases(t *testing.T) {
	t.Parallel()
	s := setup(t)
	once := func(n *inventory.NewStock) { n.Rebuy = false }
	activity := func(n *inventory.NewStock) { n.ActivityID, n.PerActivity, n.Rebuy = 55, true, false }
	again, item, one, other := s.item(10), s.item(10, once), s.item(10, activity), s.item(10, activity)
	for _, b := range []struct{ first, second int }{{0, 0}, {1, 1}, {2, 3}} {
		items := []*seckillevent.Batch{again, item, one, other}
		m := s.placed(items[b.first], 1)
		s.exec(`UPDATE orders.orders SET status = 'closed', reason = 'timeout', updated_at = clock_timestamp() WHERE order_no = $1`, m.Grants[0].No)
		s.placed(items[b.second], 1)
	}
	// A refused attempt after the close is no purchase.
	m := s.placed(item, 2)
	s.exec(`UPDATE orders.orders SET status = 'closed', updated_at = clock_timestamp() WHERE order_no = $1`, m.Grants[0].No)
	m = s.placed(item, 2)
	s.exec(`UPDATE orders.orders SET status = 'refused' WHERE order_no = $1`, m.Grants[0].No)
	requireViolation(t, s.violations(s.Checks(), "I3"), "item 2: User 1 has order ", "item 4: User 1 has order ")
}

// A push shows a status that the order has or had.
func TestLogOfAShopperWhoGotPushes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	m := s.placed(s.item(4), 1, 2, 3)
	no := numbers(m)
	require.Equal(t, "paid", s.pay(no[0]), true)
	s.exec(`UPDATE orders.orders SET status = 'refunding' WHERE order_no = $1`, no[0])
	unknown := ids.NewFor(1)
	right := []proof.ClientRecord{
		{OrderNo: no[0], UserID: 1, Pushed: orderevent.StatusPaid},
		{OrderNo: no[0], UserID: 1, Pushed: orderevent.StatusPending},
		{OrderNo: no[1], UserID: 2, Pushed: orderevent.StatusPending},
		{OrderNo: no[2], UserID: 3},
	}
	requireViolation(t, s.violations(s.CheckClientLog(&line{}, right), "I9"))
	wrong := slices.Concat(right, []proof.ClientRecord{
		{OrderNo: no[1], UserID: 2, Pushed: orderevent.StatusPaid},
		{OrderNo: no[0], UserID: 1, Pushed: orderevent.StatusClosed},
		{OrderNo: no[0], UserID: 4, Pushed: orderevent.StatusPaid},
		{OrderNo: unknown, UserID: 1, Pushed: orderevent.StatusPaid},
	})
	requireViolation(t, s.violations(s.CheckClientLog(&line{}, wrong), "I9"),
		no[1].String()+`: User 2 was pushed "paid"; the order is "pending_payment"`, no[0].String()+`: User 1 was pushed "closed"`,
		"the order is user 1's", "Postgres has no order")
}
