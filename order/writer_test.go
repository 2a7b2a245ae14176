package order

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

func decode(t testing.TB, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
}

func TestWriterMakesOrdersOfSeveralItemsAtOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	a, b := s.item(10), s.item(10)
	b.PayWindow = time.Minute
	first, second, third := grants(a, 1, 2), grants(b, 1, 3), grants(a, 4)
	third.Grants[0].Quantity = 5
	s.deliver(first, second, third)

	for _, m := range []*seckillevent.Batch{first, second, third} {
		for i, status := range s.statuses(numbers(m)...) {
			require.Equal(t, fmt.Sprintf("grant %d of item %d", i, m.ItemID), status, orderevent.StatusPending)
		}
	}
	require.Equal(t, "units of the first item", s.available(a.ItemID), 10-2-5)
	require.Equal(t, "units of the second item", s.available(b.ItemID), 10-2)

	// The event, the cache and the row have the same order.
	events := s.events()
	created := events[orderevent.SubjectCreated]
	require.Equal(t, "orders in the event", len(created), 5)
	require.Equal(t, "subjects", len(events), 1)
	rows, err := table.Many(t.Context(), s.db, append(append(numbers(first), numbers(second)...), numbers(third)...))
	require.NoError(t, err)
	for _, o := range created {
		require.Equal(t, "order in the event", o, rows[o.No])
		cached, ok, err := s.cache.get(t.Context(), o.No)
		require.NoError(t, err)
		require.Equal(t, "cached", ok, true)
		require.Equal(t, "order in the cache", cached, rows[o.No])
		window := 15 * time.Minute
		if o.ItemID == b.ItemID {
			window = time.Minute
		}
		require.Equal(t, "payment window", o.PayDeadline.Sub(o.CreatedAt), window)
	}
	if ttl := s.rdb.TTL(t.Context(), placeOf(first.Grants[0].No).keys()[0]).Val(); ttl <= 23*time.Hour || ttl > 24*time.Hour+24*time.Hour/lifeSpread {
		t.Errorf("the cache keeps a new order for %s", ttl)
	}
	require.Equal(t, "the relay was woken", s.waker.woken.Load() > 0, true)
}

// Two items, one of them in two messages, in one transaction.
func TestWriterMarksHoldsPersisted(t *testing.T) {
	t.Parallel()
	s := setup(t)
	state := func(b *seckillevent.Batch) inventory.State {
		st, _, err := s.stock.State(t.Context(), inventory.Item{ID: b.ItemID, ActivityID: b.ActivityID})
		require.NoError(t, err)
		return st
	}
	granted := func(b *seckillevent.Batch, users ...int64) *seckillevent.Batch {
		m := grants(b, users...)
		var attempts []inventory.Attempt
		for _, g := range m.Grants {
			attempts = append(attempts, inventory.Attempt{User: g.User, No: g.No, Quantity: g.Quantity})
		}
		m.Epoch = state(b).Epoch
		var d inventory.Decision
		require.NoError(t, s.stock.Reserve(t.Context(), inventory.Item{ID: b.ItemID, ActivityID: b.ActivityID}, m.Epoch, attempts, &d))
		return m
	}
	a, b := s.item(3), s.item(2)
	for _, item := range []*seckillevent.Batch{a, b} {
		require.NoError(t, s.stock.Load(t.Context(), item.ItemID))
	}
	messages := []*seckillevent.Batch{granted(a, 1, 2), granted(b, 1), granted(a, 3)}
	require.Equal(t, "waiting", state(a).Seq-state(a).Persisted, 3)
	s.deliver(messages...)
	s.deliver(messages...) // a repetition marks nothing twice
	for item, want := range map[*seckillevent.Batch]int64{a: 3, b: 1} {
		st := state(item)
		require.Equal(t, "persisted", st.Persisted, want)
		require.Equal(t, "remaining", st.Remaining, int64(s.available(item.ItemID)))
	}
}

func (s *bundle) requireAlarm(code alarm.Code, subject string) {
	s.t.Helper()
	list, err := alarm.List(s.t.Context(), s.db, alarm.Filter{Open: true, Limit: 100})
	require.NoError(s.t, err)
	for _, a := range list {
		if a.Code == code && (subject == "" || a.Subject == subject) {
			return
		}
	}
	s.t.Fatalf("no alarm %s about %q among %+v", code, subject, list)
}

func TestWriterBuriesPoisonAlone(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(20)
	good, poisoned, fine := grants(b, 1, 2), grants(b, 3, 666), grants(b, 4, 5)
	// A failure that no check foresees: Postgres refuses the row.
	s.exec(`ALTER TABLE orders.orders ADD CONSTRAINT planted CHECK (user_id <> 666)`)
	// Decode finds the first, only the grant itself shows the second.
	garbage := envelope(t, 1, []byte("not a batch"), ids.New())
	fine.Grants[1].Quantity = 0
	fine.Grants = append(fine.Grants, seckillevent.Grant{No: ids.NewFor(7), User: 8, Quantity: 1}) // not the user's bucket
	all := []sent{garbage}
	for i, m := range []*seckillevent.Batch{good, poisoned, fine} {
		all = append(all, envelope(t, uint64(i)+2, m.Encode(nil), m.ID))
	}
	var msgs []bus.Msg
	for _, m := range all {
		msgs = append(msgs, m.Msg)
	}
	for range 2 { // a redelivery buries nothing twice
		s.writer.write(t.Context(), t.Context().Done(), msgs)
	}
	for _, m := range all {
		require.Equal(t, "acknowledgements of two deliveries", m.acked.Load(), 2)
	}
	require.Equal(t, "statuses", s.statuses(append(append(numbers(good), numbers(poisoned)...), numbers(fine)...)...),
		[]string{"pending_payment", "pending_payment", "", "", "pending_payment", "", ""})
	require.Equal(t, "dead letters", s.count(`SELECT count(*) FROM platform.dead_letters WHERE consumer = 'order-writer'`), 3)
	require.Equal(t, "units", s.available(b.ItemID), 17)
	s.requireAlarm("dead-letter", "order-writer")

	// The dead letter of single grants is a message that can be sent again.
	id := fine.ID
	id[15]++
	var dead seckillevent.Batch
	require.NoError(t, dead.Decode(pgtest.Read[[]byte](t, s.db, `SELECT payload FROM platform.dead_letters WHERE message_id = $1`, id.String())))
	require.Equal(t, "grants in it", len(dead.Grants), 2)
}

// TestWriterAsksForAPersonAboutStock: what the model does not see, an operator
// hears of grants beyond the stock and of an item without a stock row.
func TestWriterAsksForAPersonAboutStock(t *testing.T) {
	t.Parallel()
	s := setup(t)
	scarce := s.item(1)
	unknown := *scarce
	unknown.ItemID = 4711
	s.deliver(grants(scarce, 1, 2), grants(&unknown, 3))
	s.requireAlarm("stock-shortfall", "item 1")
	s.requireAlarm("grants-without-stock", "item 4711")
}
