package order

import (
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/deadletters"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// Grants that could not be written are redriven once their cause is fixed, and
// become orders once, however often they are sent.
func TestRedrivenGrantsBecomeOrdersOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := grants(s.item(5), 1, 666)
	s.exec(`ALTER TABLE orders.orders ADD CONSTRAINT planted CHECK (user_id <> 666)`)
	m := envelope(t, 1, b.Encode(nil), b.ID)
	s.writer.write(t.Context(), t.Context().Done(), []bus.Msg{m.Msg})
	letters, err := deadletters.List(t.Context(), s.db, deadletters.Filter{Consumer: "order-writer"})
	require.NoError(t, err)
	require.Equal(t, "letters", len(letters), 1)
	s.exec(`ALTER TABLE orders.orders DROP CONSTRAINT planted`)
	pgtest.Work(t, s.writer.run)
	require.NoError(t, deadletters.Redrive(t.Context(), s.db, s.bus, letters[0].ID))
	require.ErrorIs(t, deadletters.Redrive(t.Context(), s.db, s.bus, letters[0].ID), deadletters.ErrNotFound)
	// The hold sweeper may have sent them again, too.
	twin := again(b)
	for _, id := range []ids.ID{twin.ID, ids.New()} {
		require.NoError(t, s.bus.Publish(t.Context(), seckillevent.GrantsSubject(b.ItemID), id, twin.Encode(nil)))
	}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		queue, err := s.deps.Grants.State(t.Context())
		return err == nil && queue.Messages == 0
	}, "everything is written")
	require.Equal(t, "statuses", s.statuses(numbers(b)...), []string{"pending_payment", "pending_payment"})
	require.Equal(t, "units", s.available(b.ItemID), 3)
}

func TestWriterLeavesGrantsOfANewerVersion(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := grants(s.item(5), 1)
	newer := b.Encode(nil)
	newer[0] = 3 // the layout after the ones that this version reads
	left, written := envelope(t, 1, newer, ids.New()), envelope(t, 2, b.Encode(nil), b.ID)
	var delays []time.Duration
	left.Nak = func(d time.Duration) error { delays = append(delays, d); return nil }
	s.writer.write(t.Context(), t.Context().Done(), []bus.Msg{left.Msg, written.Msg})

	require.Equal(t, "acks", []int64{left.acked.Load(), written.acked.Load()}, []int64{0, 1})
	require.Equal(t, "delays", delays, []time.Duration{newerDelay})
	require.Equal(t, "dead letters", s.count(`SELECT count(*) FROM platform.dead_letters`), 0)
	require.Equal(t, "statuses", s.statuses(numbers(b)...), []string{"pending_payment"})
	s.requireAlarm("newer-grants", "order-writer")
}
