package order

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// lockStock locks an item's stock row, as a client does that froze in mid-transaction.
func (s *bundle) lockStock(item int64) (release func()) {
	s.t.Helper()
	return pgtest.Locked(s.t, s.db, `SELECT FROM inventory.stock WHERE item_id = $1 FOR UPDATE`, item)
}

func (s *bundle) writes(seq uint64, m *seckillevent.Batch) sent {
	return envelope(s.t, seq, m.Encode(nil), m.ID)
}

// TestWriterSplitsSetWhenOneItemIsLocked: the other items' orders are written at
// once, those of the locked item in stream order when it is free, and until then
// an operator hears of it.
func TestWriterSplitsSetWhenOneItemIsLocked(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.LockWait, c.MaxRetryDelay = 20*time.Millisecond, 20*time.Millisecond })
	stuck, free, third := s.item(2), s.item(9), s.item(9)
	release := s.lockStock(stuck.ItemID)
	first, second, last := grants(stuck, 1), grants(stuck, 2), grants(stuck, 3) // for two units
	a, c, late := grants(free, 1, 2), grants(third, 1), grants(free, 4)
	locked := []sent{s.writes(2, first), s.writes(3, second), s.writes(6, last)}
	others := []sent{s.writes(1, a), s.writes(4, c), s.writes(5, late)}
	stop, returned := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-returned })
	go func() {
		defer close(returned)
		s.writer.write(t.Context(), stop, []bus.Msg{others[1].Msg, locked[1].Msg, others[0].Msg, locked[0].Msg})
		s.writer.write(t.Context(), stop, []bus.Msg{others[2].Msg, locked[2].Msg}) // the next fetch
	}()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return others[0].acked.Load() == 1 && others[1].acked.Load() == 1 && others[2].acked.Load() == 1
	}, "the other items' orders")
	require.Equal(t, "statuses", s.statuses(append(numbers(a), numbers(c)...)...), []string{"pending_payment", "pending_payment", "pending_payment"})
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return s.count(`SELECT count(*) FROM platform.alarms WHERE code = 'writer-stuck' AND subject = $1`, inventory.ItemSubject(stuck.ItemID)) == 1
	}, "the alarm about the item")
	for i := range locked {
		require.Equal(t, "acks while locked", locked[i].acked.Load(), 0)
	}
	release()
	pgtest.Eventually(t, 30*time.Second, func() bool { return locked[2].acked.Load() == 1 }, "the item's orders")
	require.Equal(t, "statuses of the item, in stream order", s.statuses(append(append(numbers(first), numbers(second)...), numbers(last)...)...),
		[]string{"pending_payment", "pending_payment", "refused/shortfall"})
	s.writer.aside.working.Wait()
	require.Equal(t, "messages aside", s.writer.aside.count, 0)
	s.deliver(grants(free, 5), grants(stuck, 6)) // together again
}

// TestWriterReturnsWhatIsAsideAtTheStop: a process that stops leaves the locked
// item's messages to the next one.
func TestWriterReturnsWhatIsAsideAtTheStop(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.LockWait = 20 * time.Millisecond })
	b := s.item(5)
	release := s.lockStock(b.ItemID)
	m := grants(b, 1)
	msg := s.writes(1, m)
	returned := make(chan struct{})
	msg.Nak = func(time.Duration) error { close(returned); return nil }
	stop := make(chan struct{})
	s.writer.write(t.Context(), stop, []bus.Msg{msg.Msg})
	close(stop)
	<-returned
	s.writer.aside.working.Wait()
	require.Equal(t, "acks", msg.acked.Load(), 0)
	release()
	s.deliver(again(m))
}

// TestItemIsSetAsideAgainWhileItsAlarmIsRecorded: the goroutine that emptied the item's queue
// leaves the messages of the next one alone.
func TestItemIsSetAsideAgainWhileItsAlarmIsRecorded(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.LockWait = 20 * time.Millisecond })
	b := s.item(5)
	first, second, returned := s.writes(1, grants(b, 1)), s.writes(2, grants(b, 2)), new(atomic.Int64)
	second.Nak = func(time.Duration) error { returned.Add(1); return nil }
	alarmed := func(subject string) func() bool {
		return func() bool { return s.count(`SELECT count(*) FROM platform.alarms WHERE subject = $1`, subject) == 1 }
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); s.writer.aside.working.Wait() })
	release := s.lockStock(b.ItemID)
	s.writer.write(t.Context(), stop, []bus.Msg{first.Msg})
	pgtest.Eventually(t, 30*time.Second, alarmed(inventory.ItemSubject(b.ItemID)), "the alarm about the item")
	recorded := pgtest.Locked(t, s.db, `LOCK TABLE platform.alarms`)
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s.writer.raiseAlarm(late, "kept", "until the item is written")
	release()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return first.acked.Load() == 1 && s.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	}, "the kept alarm is being recorded")
	release = s.lockStock(b.ItemID)
	s.writer.write(t.Context(), stop, []bus.Msg{second.Msg})
	recorded()
	pgtest.Eventually(t, 30*time.Second, alarmed("kept"), "the kept alarm")
	release()
	pgtest.Eventually(t, 30*time.Second, func() bool { return second.acked.Load() == 1 }, "the item's order")
	s.writer.aside.working.Wait()
	require.Equal(t, "messages returned", returned.Load(), 0)
}

// TestPanicLeavesTheConnectionsOfItemsThatAreAside: the item's messages return, and the others may be written.
func TestPanicLeavesTheConnectionsOfItemsThatAreAside(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, d *Deps) {
		c.LockWait = 20 * time.Millisecond
		d.Blocked = func(user int64) bool {
			if user == 2 {
				panic("planted")
			}
			return false
		}
	})
	b := s.item(5)
	release := s.lockStock(b.ItemID)
	first, msg := s.writes(1, grants(b, 1)), s.writes(2, grants(b, 2))
	returned := make(chan time.Duration, 1)
	msg.Nak = func(d time.Duration) error { returned <- d; return nil }
	s.writer.write(t.Context(), make(chan struct{}), []bus.Msg{first.Msg})
	s.writer.write(t.Context(), make(chan struct{}), []bus.Msg{msg.Msg}) // behind the first, which waits
	release()
	require.Equal(t, "returned after", <-returned, asidePanic)
	s.writer.aside.working.Wait()
	require.Equal(t, "connections in use", len(s.writer.aside.slots), 0)
}

// TestLockedItemLeavesTheStreamToTheOthers: more of its messages wait than a
// consumer may have unacknowledged by default.
func TestLockedItemLeavesTheStreamToTheOthers(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.LockWait = 20 * time.Millisecond })
	stuck, free := s.item(2000), s.item(5)
	release := s.lockStock(stuck.ItemID)
	pgtest.Work(t, s.Workers()[0].Run)
	var all []bus.Outgoing
	send := func(m *seckillevent.Batch) {
		all = append(all, bus.Outgoing{Subject: seckillevent.GrantsSubject(m.ItemID), ID: m.ID, Data: m.Encode(nil)})
	}
	for user := range int64(1100) {
		send(grants(stuck, user+1))
	}
	last := grants(free, 1)
	send(last)
	for _, err := range s.bus.PublishAll(t.Context(), all) {
		require.NoError(t, err)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return s.statuses(numbers(last)...)[0] == orderevent.StatusPending }, "the other item's order")
	require.Equal(t, "orders", s.count(`SELECT count(*) FROM orders.orders`), 1)
	release()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		queue, err := s.deps.Grants.State(t.Context())
		return err == nil && queue.Messages == 0
	}, "the item's orders")
	require.Equal(t, "orders", s.count(`SELECT count(*) FROM orders.orders`), 1101)
}

// TestClosingSplitsSetWhenOneItemIsLocked: orders of other items close, and their
// units return.
func TestClosingSplitsSetWhenOneItemIsLocked(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.LockWait = 80 * time.Millisecond })
	stuck, free := s.item(5), s.item(5)
	stuck.PayWindow, free.PayWindow = 0, 0
	waiting, closable := s.placed(stuck, 1), s.placed(free, 2, 3)
	release := s.lockStock(stuck.ItemID)
	due, err := s.ClaimDue(t.Context(), 10)
	require.NoError(t, err)
	_, _ = s.CloseClaimed(t.Context(), due, orderevent.ReasonTimeout) // the locked item's fail
	require.Equal(t, "statuses", s.statuses(append(numbers(closable), numbers(waiting)...)...), []string{"closed/timeout", "closed/timeout", "pending_payment"})
	require.Equal(t, "units", s.available(free.ItemID), 5)
	release()
	require.Equal(t, "closed after the lock", len(s.closeClaimed(orderevent.ReasonTimeout, append(numbers(closable), numbers(waiting)...)...)), 1)
}
