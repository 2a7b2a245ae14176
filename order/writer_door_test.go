package order

import (
	"testing"
	"time"

	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/order/search"
	"stampede/platform/workshop/require"
)

// The door's decisions about a shopper reach the order: the time to pay, and
// that the shopper has been blacklisted since the grant.

func TestWriterKeepsAShorterPaymentWindow(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(20)
	want := map[int64]time.Duration{1: 15 * time.Minute, 2: 30 * time.Second, 3: 15 * time.Minute}
	first := grants(b, 1, 2, 3)
	first.Grants[1].PayWithin = 30
	first.Grants[2].PayWithin = 3600 // longer than the sale's: a path only ever takes time away
	s.deliver(first)
	// The same by INSERT, which a grant that is already known forces.
	second := grants(b, 4, 5)
	second.Grants[0].PayWithin = 60
	second.Grants = append(second.Grants, first.Grants[1])
	want[4], want[5] = time.Minute, 15*time.Minute
	s.deliver(second)

	rows, err := table.Many(t.Context(), s.db, append(numbers(first), numbers(second)...))
	require.NoError(t, err)
	require.Equal(t, "orders", len(rows), 5)
	told := map[int64]time.Duration{}
	for _, o := range s.events()[orderevent.SubjectCreated] {
		require.Equal(t, "order in the event", o, rows[o.No])
		told[o.UserID] = o.PayDeadline.Sub(o.CreatedAt)
	}
	require.Equal(t, "payment windows", told, want)
}

func TestWriterRefusesUserBlockedSinceGrant(t *testing.T) {
	t.Parallel()
	blocked := map[int64]bool{}
	s := setup(t, func(_ *Config, d *Deps) { d.Blocked = func(user int64) bool { return blocked[user] } })
	b := s.item(3)
	before := grants(b, 1)
	s.deliver(before)
	blocked[1], blocked[2] = true, true

	after := grants(b, 2, 3)
	s.deliver(after, again(before))
	require.Equal(t, "statuses", s.statuses(append(numbers(before), numbers(after)...)...),
		[]string{"pending_payment", "refused/blocked", "pending_payment"})
	require.Equal(t, "units", s.available(b.ItemID), 1)
	// The event returns the unit in Redis; a repeated message does not publish it
	// twice.
	s.deliver(again(after))
	refused := s.events()[orderevent.SubjectRefused]
	require.Equal(t, "refusals published", len(refused), 1)
	require.Equal(t, "number", refused[0].No, after.Grants[0].No)
	require.Equal(t, "what the shopper reads", orderevent.View(refused[0]).Reason, "not-available")
	require.Equal(t, "what the operator reads", search.View(refused[0]).Reason, orderevent.ReasonBlocked)
}

// The door's rules read who has many unpaid orders.
func TestOpenUnpaidCountsUnpaidOrders(t *testing.T) {
	t.Parallel()
	s := setup(t)
	a, b, c := s.item(9), s.item(9), s.item(9)
	s.deliver(grants(a, 1, 2, 3), grants(b, 1, 2), grants(c, 1))
	s.exec(`UPDATE orders.orders SET status = 'paid' WHERE user_id = 2 AND item_id = $1`, b.ItemID)
	for _, q := range []struct {
		atLeast, most int
		want          map[int64]int64
	}{
		{1, 10, map[int64]int64{1: 3, 2: 1, 3: 1}},
		{2, 10, map[int64]int64{1: 3}},
		{1, 1, map[int64]int64{1: 3}}, // the user with the most first
		{4, 10, map[int64]int64{}},
	} {
		open, err := s.OpenUnpaid(t.Context(), q.atLeast, q.most)
		require.NoError(t, err)
		require.Equal(t, "open orders", open, q.want)
	}
}
