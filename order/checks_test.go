package order

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/inventory"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// violations runs the checks of an id and returns "subject: detail" of each
// violation.
func (s *bundle) violations(checks []proof.Check, id string) (found []string) {
	s.t.Helper()
	ran := false
	for _, c := range checks {
		if c.ID != id {
			continue
		}
		ran = true
		list, err := c.Run(s.t.Context())
		require.NoError(s.t, err)
		for _, v := range list {
			found = append(found, v.Subject+": "+v.Detail)
		}
	}
	if !ran {
		s.t.Fatalf("no check %s", id)
	}
	return found
}

func requireViolation(t testing.TB, found []string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !slices.ContainsFunc(found, func(v string) bool { return strings.Contains(v, part) }) {
			t.Errorf("no violation says %q: %q", part, found)
		}
	}
	if len(found) != len(parts) {
		t.Errorf("%d violations, want %d: %q", len(found), len(parts), found)
	}
}

func TestI3FindsSecondLiveOrders(t *testing.T) {
	t.Parallel()
	s := setup(t)
	one := func(n *inventory.NewStock) { n.ActivityID, n.PerActivity, n.UserLimit = 55, true, 2 }
	a, b := s.item(10, one), s.item(10, one)
	s.exec(`DROP INDEX orders.one_live_order_per_item`)
	s.exec(`DROP INDEX orders.one_live_order_per_activity`)
	s.placed(a, 1)
	s.placed(a, 1) // two of one item
	s.placed(a, 2)
	s.placed(b, 2) // two of one activity
	big := grants(b, 3)
	big.Grants[0].Quantity = 3
	s.deliver(big)
	requireViolation(t, s.violations(s.Checks(), "I3"),
		"item 1: User 1 has 2 live orders", "activity 55: User 1 has 2 live orders", "activity 55: User 2 has 2 live orders",
		"item 2: A live order has 3 units; a user may have 2")
}

func TestI7FindsNumbersWithoutAnEnd(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.StuckAfter = 10 * time.Second })
	b := s.item(5)
	require.NoError(t, s.stock.Load(t.Context(), b.ItemID))
	item := inventory.Item{ID: b.ItemID, ActivityID: b.ActivityID}
	state, _, err := s.stock.State(t.Context(), item)
	require.NoError(t, err)
	lost, written := ids.NewFor(1), ids.NewFor(2)
	var d inventory.Decision
	err = s.stock.Reserve(t.Context(), item, state.Epoch, []inventory.Attempt{{User: 1, No: lost, Quantity: 1}, {User: 2, No: written, Quantity: 1}}, &d)
	require.NoError(t, err)
	// One has its row but Redis was not updated; that number is not lost.
	m := grants(b, 2)
	m.Grants[0].No, m.Epoch = written, state.Epoch-1
	s.deliver(m)
	s.checker.cfg.StuckAfter = 0 // as if ten seconds had passed
	requireViolation(t, s.violations(s.Checks(), "I7"), "number "+lost.String()+": User 1 holds 1 units")

	// And a message that no writer processes.
	m = grants(b, 3)
	m.Epoch = state.Epoch
	require.NoError(t, s.bus.Publish(t.Context(), seckillevent.GrantsSubject(b.ItemID), m.ID, m.Encode(nil)))
	requireViolation(t, s.violations(s.Checks(), "I7"), "number "+lost.String(), "grants: 1 messages wait")
}

func TestI9FindsOrdersThatDoNotExist(t *testing.T) {
	t.Parallel()
	s := setup(t)
	m := s.placed(s.item(5), 1, 2, 3, 4)
	phantom := orderevent.Order{No: ids.NewFor(9), UserID: 9, Version: 1, Status: orderevent.StatusPending}
	ahead, behind, twisted := s.order(m.Grants[0].No), s.order(m.Grants[1].No), s.order(m.Grants[2].No)
	require.Equal(t, "paid", s.pay(behind.No), true)
	ahead.Version, ahead.Status = 2, orderevent.StatusPaid
	twisted.Status = orderevent.StatusPaid
	for _, o := range []orderevent.Order{phantom, ahead, behind, twisted} {
		require.NoError(t, s.rdb.HSet(t.Context(), placeOf(o.No).keys()[0], string(o.No[:]), appendCached(nil, &o)).Err())
	}
	requireViolation(t, s.violations(s.Checks(), "I9"),
		phantom.No.String()+`: The cache says "pending_payment" and Postgres has no such order`,
		ahead.No.String()+`: The cache says "paid" (version 2)`,
		behind.No.String()+`: The cache still says "pending_payment" (version 1)`,
		twisted.No.String()+`: The cache and Postgres disagree within version 1`)
}

func (s *bundle) order(no ids.ID) orderevent.Order {
	s.t.Helper()
	rows, err := table.Many(s.t.Context(), s.db, []ids.ID{no})
	require.NoError(s.t, err)
	return rows[no]
}

func TestClientLog(t *testing.T) {
	t.Parallel()
	s := setup(t)
	m := s.placed(s.item(2), 1, 2, 3)
	won, lost := m.Grants[0], m.Grants[2]
	waiting, forgotten, invented := ids.NewFor(4), ids.NewFor(5), ids.NewFor(6)
	l := &line{positions: map[ids.ID]int64{waiting: 1}}
	asked := func(no ids.ID, user int64, answer string) proof.ClientRecord {
		return proof.ClientRecord{OrderNo: no, UserID: user, Answer: answer}
	}
	shown := func(no ids.ID, user int64) proof.ClientRecord {
		return proof.ClientRecord{OrderNo: no, UserID: user, Status: orderevent.StatusPaid}
	}
	honest := []proof.ClientRecord{
		asked(won.No, 1, answerQueued),
		shown(won.No, 1),
		asked(won.No, 1, answerAlreadyBought),
		asked(lost.No, 3, answerQueued),
		asked(waiting, 4, answerQueued),
		asked(ids.NewFor(7), 7, "sold-out"),
	}
	for range 2 * statusLimit { // more than one query reads
		honest = append(honest, shown(won.No, 1))
	}
	checks := s.CheckClientLog(l, honest)
	requireViolation(t, s.violations(checks, "I6"))
	requireViolation(t, s.violations(checks, "I9"))

	lies := append(slices.Clone(honest),
		asked(forgotten, 5, answerQueued), asked(won.No, 8, answerAlreadyBought),
		shown(invented, 6), shown(lost.No, 3), shown(won.No, 2))
	checks = s.CheckClientLog(l, lies)
	requireViolation(t, s.violations(checks, "I6"),
		"number "+forgotten.String()+`: User 5 was answered "queued"`, won.No.String()+`: User 8 was answered "already-bought"; the order is user 1's`)
	requireViolation(t, s.violations(checks, "I9"),
		"order "+invented.String()+": User 6 was shown", lost.No.String()+": User 3 was shown the order; the number was refused", won.No.String()+": User 2 was shown")
}

func TestBooksAndHolds(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(3)
	m := s.placed(b, 1, 2, 3, 4) // the last one is refused
	require.Equal(t, "paid", s.pay(m.Grants[0].No), true)
	s.close(m.Grants[1].No, 2, orderevent.ReasonCanceled)
	s.exec(`UPDATE orders.orders SET updated_at = clock_timestamp() - interval '241 s' WHERE order_no = $1`, m.Grants[3].No)
	units, err := s.LiveUnits(t.Context())
	require.NoError(t, err)
	require.Equal(t, "live units", units, map[int64]inventory.Units{b.ItemID: {Held: 1, Sold: 1}})
	changed, err := s.ChangedWithin(t.Context(), time.Minute)
	require.NoError(t, err)
	slices.Sort(changed[b.ItemID])
	require.Equal(t, "changed lately", changed, map[int64][]int64{b.ItemID: {1, 2}})
	nos := append(numbers(m), ids.New())
	for range statusLimit {
		nos = append(nos, ids.New())
	}
	known, err := s.Statuses(t.Context(), nos)
	require.NoError(t, err)
	require.Equal(t, "known", known, map[ids.ID]string{nos[0]: "paid", nos[1]: "closed", nos[2]: "pending_payment", nos[3]: "refused"})

	var live []inventory.Held
	var gone []inventory.Tombstone
	s.inTx(func(tx pgx.Tx) (err error) {
		if err := (Reader{}).Live(t.Context(), tx, b.ItemID, func(part []inventory.Held) error { live = append(live, part...); return nil }); err != nil {
			return err
		}
		return Reader{}.Ended(t.Context(), tx, b.ItemID, func(part []inventory.Tombstone) error { gone = append(gone, part...); return nil })
	})
	slices.SortFunc(live, func(a, b inventory.Held) int { return int(a.User - b.User) })
	require.Equal(t, "holds", live, []inventory.Held{{No: nos[0], User: 1, Quantity: 1, Paid: true}, {No: nos[2], User: 3, Quantity: 1}})
	var closed []inventory.Held
	s.inTx(func(tx pgx.Tx) (err error) {
		return Reader{}.Closed(t.Context(), tx, b.ItemID, func(part []inventory.Held) error { closed = append(closed, part...); return nil })
	})
	require.Equal(t, "closed, not refused", closed, []inventory.Held{{No: nos[1], User: 2, Closed: true}})
	if len(gone) != 1 || gone[0].No != nos[1] {
		t.Fatalf("recently ended: %+v", gone)
	}
	if left := time.Until(gone[0].Until); left < 200*time.Second || left > 241*time.Second {
		t.Errorf("the number is kept for %s more", left)
	}
}

// closing is a Reader before whose first answer an order is closed.
type closing struct {
	Reader
	once *sync.Once
	how  func()
}

func (c closing) Live(ctx context.Context, tx pgx.Tx, itemID int64, each func([]inventory.Held) error) error {
	c.once.Do(c.how)
	return c.Reader.Live(ctx, tx, itemID, each)
}

// A Load has the stock and the orders as of one moment: an order that is closed
// between the two reads is a hold that its event releases.
func TestLoadReadsOneSnapshot(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(3)
	no := s.placed(b, 1, 2).Grants[0].No
	stock := inventory.New(inventory.DefaultConfig(), inventory.Deps{
		DB: s.db, Redis: s.rdb, Bus: s.bus, Grants: bustest.GrantsOf[inventory.StaleHold](s.bus), Books: Reader{DB: s.db}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Holds: closing{once: new(sync.Once), how: func() { s.close(no, 1, orderevent.ReasonTimeout) }},
	})
	require.NoError(t, stock.Load(t.Context(), b.ItemID))
	row, _, err := s.stock.Book(t.Context(), b.ItemID)
	require.NoError(t, err)
	require.Equal(t, "remaining, to be released, and the difference", []int64{row.RedisRemaining, row.ReleasePending, row.Difference}, []int64{1, 1, 0})
}

// A Load reads the orders of an item in chunks, and may read them again while it
// does.
func TestOrdersOfAnItemArriveInChunks(t *testing.T) {
	t.Parallel()
	const orders = 2*cursorRows + 1
	s := setup(t)
	b := s.item(orders)
	s.past(b.ItemID, orders)
	users, again := map[int64]bool{}, 0
	s.inTx(func(tx pgx.Tx) error {
		return Reader{}.Live(t.Context(), tx, b.ItemID, func(part []inventory.Held) error {
			if len(part) > cursorRows {
				t.Errorf("a chunk of %d", len(part))
			}
			for _, h := range part {
				users[h.User] = true
			}
			return Reader{}.Live(t.Context(), tx, b.ItemID, func(part []inventory.Held) error { again += len(part); return nil })
		})
	})
	require.Equal(t, "users", len(users), orders)
	require.Equal(t, "read meanwhile", again, 3*orders)
}
