package order

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// written is the writer under its model: what was sent, and what must have
// become of it.
type written struct {
	*bundle
	m     *model
	items []*seckillevent.Batch
	base  int64 // each run has new users
	sent  []*seckillevent.Batch
	dead  map[string]int // message id → grants in its dead letter, −1 for a message as it came
}

// newWritten puts items of every kind on sale: two of one activity that allows
// one per user, two without that rule, one without a limit and one that
// Postgres has lost.
func newWritten(s *bundle, rt *rapid.T, base int64) *written {
	w := &written{bundle: s, m: newModel(), base: base, dead: map[string]int{}}
	activity := 1_000_000 + s.nextItem
	for i := range 6 {
		units := int32(rapid.IntRange(0, 8).Draw(rt, "units"))
		b := s.item(units, func(n *inventory.NewStock) {
			if i < 2 {
				n.ActivityID, n.PerActivity = activity, true
			}
			n.Unlimited = i == 4
		})
		w.m.units[b.ItemID], w.m.unlimited[b.ItemID], w.m.unknown[b.ItemID] = units, i == 4, i == 5
		w.items = append(w.items, b)
	}
	s.exec(`DELETE FROM inventory.stock WHERE item_id = $1`, w.items[5].ItemID)
	delete(w.m.units, w.items[5].ItemID)
	return w
}

// draw makes one message of a fetch: one that was sent before, the same grants
// under another id, or a new one, in which some numbers may be known, doubled,
// or invalid.
func (w *written) draw(rt *rapid.T) *seckillevent.Batch {
	if len(w.sent) > 0 && rapid.IntRange(0, 3).Draw(rt, "repeat") == 0 {
		b := w.sent[rapid.IntRange(0, len(w.sent)-1).Draw(rt, "which")]
		if rapid.Bool().Draw(rt, "republished") {
			b = again(b)
		}
		return b
	}
	item := w.items[rapid.IntRange(0, len(w.items)-1).Draw(rt, "item")]
	m := grants(item)
	m.Epoch = w.m.epoch[m.ItemID]
	if m.Epoch > 0 && rapid.IntRange(0, 4).Draw(rt, "late") == 0 {
		m.Epoch--
	}
	known := w.knownOf(m)
	for i := range rapid.IntRange(1, 6).Draw(rt, "grants") {
		user := w.base + rapid.Int64Range(1, 6).Draw(rt, "user")
		g := seckillevent.Grant{No: ids.NewFor(user), User: user, Seq: int64(i) + 1}
		g.Quantity = int32(rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(rt, "quantity"))
		switch kind := rapid.IntRange(0, 15).Draw(rt, "kind"); {
		case kind < 2 && len(known) > 0:
			g = known[rapid.IntRange(0, len(known)-1).Draw(rt, "known")]
		case kind == 2:
			g.Quantity = maxQuantity + 1
		case kind == 3:
			g.No[15]++ // another user's bucket
		}
		m.Grants = append(m.Grants, g)
		known = append(known, g)
	}
	return m
}

// knownOf lists the grants that were sent for the message's item, under its
// epoch: a number is granted under one epoch only.
func (w *written) knownOf(m *seckillevent.Batch) (known []seckillevent.Grant) {
	for _, b := range w.sent {
		if b.ItemID == m.ItemID && b.Epoch == m.Epoch {
			known = append(known, b.Grants...)
		}
	}
	return known
}

// fetch hands messages to the writer in any order, some of them truncated in
// transit, and requires that each is acknowledged once.
func (w *written) fetch(rt *rapid.T, batches []*seckillevent.Batch) {
	type one struct {
		*seckillevent.Batch
		sent
	}
	var list []one
	for i, b := range batches {
		data := b.Encode(nil)
		if rapid.IntRange(0, 11).Draw(rt, "cut") == 0 {
			data = bytes.Clone(data[:len(data)-1])
		}
		list = append(list, one{b, envelope(w.t, uint64(i)+1, data, b.ID)})
	}
	order := rapid.Permutation(list).Draw(rt, "arrival")
	received := make([]bus.Msg, len(order))
	for i, m := range order {
		received[i] = m.Msg
	}
	w.writer.write(w.t.Context(), w.t.Context().Done(), received)
	for _, m := range list { // in stream order again
		require.Equal(rt, "acknowledgements of "+m.ID.String(), m.acked.Load(), 1)
		if new(seckillevent.Batch).Decode(m.Data) != nil {
			w.dead[m.ID.String()] = -1
			continue
		}
		good := *m.Batch
		good.Grants = slices.Clone(m.Grants)
		if bad := takeBad(&good); len(bad) > 0 {
			id := m.ID
			id[15]++
			w.dead[id.String()] = len(bad)
		}
		w.m.deliver(&good)
	}
}

// between runs one event between two fetches.
func (w *written) between(rt *rapid.T) {
	b := w.sent[rapid.IntRange(0, len(w.sent)-1).Draw(rt, "then")]
	ctx := w.t.Context()
	switch rapid.IntRange(0, 3).Draw(rt, "what") {
	case 0: // a Load
		w.m.epoch[b.ItemID]++
		w.exec(`UPDATE inventory.stock SET epoch = epoch + 1 WHERE item_id = $1`, b.ItemID)
	case 1: // a closing, which changes nothing without a claim
		claimed := rapid.Bool().Draw(rt, "claimed")
		if claimed {
			w.exec(`UPDATE orders.orders SET closing_until = now() + interval '1 hour' WHERE order_no = ANY($1)`, numbers(b))
		}
		closed, err := w.CloseClaimed(ctx, numbers(b), orderevent.ReasonTimeout)
		require.NoError(rt, err)
		want := 0
		for _, g := range b.Grants {
			if claimed && w.m.close(b, g) {
				want++
			}
		}
		require.Equal(rt, "orders closed", len(closed), want)
	case 2: // a payment
		g := b.Grants[0]
		amount := w.costs(g.No)
		w.inTx(func(tx pgx.Tx) error {
			_, paid, err := w.MarkPaid(ctx, tx, g.No, orderevent.PaidBy{PaymentNo: ids.New()}, amount)
			if err != nil && w.m.rows[g.No] != "" {
				return err
			}
			if want := w.m.pay(g); paid != want {
				rt.Fatalf("%s was paid: %v, the model says %v", g.No, paid, want)
			}
			return nil
		})
	}
}

// check compares every row, every unit and every dead letter.
func (w *written) check(rt *rapid.T) {
	var all []seckillevent.Grant
	for _, b := range w.sent {
		all = append(all, b.Grants...)
	}
	for i, got := range w.statuses(numbers(&seckillevent.Batch{Grants: all})...) {
		if want := w.m.rows[all[i].No]; got != want {
			rt.Fatalf("user %d, number %s, %d units: %q, the model says %q", all[i].User, all[i].No, all[i].Quantity, got, want)
		}
	}
	for item, want := range w.m.units {
		require.Equal(rt, fmt.Sprint("units of item ", item), w.available(item), want)
	}
	rows, err := w.db.Query(w.t.Context(), `SELECT message_id, payload FROM platform.dead_letters WHERE consumer = $1`, writerName)
	require.NoError(rt, err)
	dead := map[string]int{}
	var id string
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &payload}, func() error {
		var b seckillevent.Batch
		if dead[id] = -1; b.Decode(payload) == nil {
			dead[id] = len(b.Grants)
		}
		return nil
	})
	require.NoError(rt, err)
	require.Equal(rt, "dead letters", dead, w.dead)
	w.exec(`DELETE FROM platform.dead_letters`)
}

// TestWriterFollowsTheModel sends random messages in random fetches and compares
// every row, unit and dead letter with the model: numbers that repeat, in one
// message, in others and republished, repeated message ids, users with a live
// order of the item or of another one of the activity, items that run short
// beside others that do not (the slow path), an item without a limit and one
// without a stock row, old epochs, malformed entries and messages, arrivals out
// of stream order, and Loads, payments and closings, with a claim and without, in
// between. Each change is published exactly once, by the outbox of the
// transaction that wrote it.
func TestWriterFollowsTheModel(t *testing.T) {
	t.Parallel()
	s := setup(t)
	user := int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWritten(s, rt, user)
		user += 6
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			var batches []*seckillevent.Batch
			for range rapid.IntRange(1, 3).Draw(rt, "messages") {
				b := w.draw(rt)
				batches = append(batches, b)
				w.sent = append(w.sent, b)
			}
			w.fetch(rt, batches)
			w.between(rt)
		}
		w.check(rt)
	})
	s.eachChangeOnce()
}

// eachChangeOnce compares the outbox with the rows: every status that an order
// ever entered has its line of history and exactly one event, with the version
// that entered it.
func (s *bundle) eachChangeOnce() {
	s.t.Helper()
	told := map[string]int{}
	for _, orders := range s.events() {
		for _, o := range orders {
			told[fmt.Sprintf("%s %d %s", o.No, o.Version, o.Status)]++
		}
	}
	rows, err := s.db.Query(s.t.Context(), `SELECT replace(order_no::text, '-', '') || format(' %s %s', version, status) FROM orders.history
		UNION ALL SELECT replace(order_no::text, '-', '') || ' 1 ' || CASE WHEN status = 'refused' THEN status ELSE 'pending_payment' END FROM orders.orders`)
	require.NoError(s.t, err)
	entered, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	for _, change := range entered {
		require.Equal(s.t, "events for "+change, told[change], 1)
	}
	require.Equal(s.t, "changes with events", len(told), len(entered))
	require.Equal(s.t, "lines of history", s.count(`SELECT count(*) FROM orders.history`), s.count(`SELECT coalesce(sum(version - 1), 0)::int FROM orders.orders`))
}
