package order

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// pay captures a payment the way payment's callback does.
func (s *bundle) pay(no ids.ID) (won bool) {
	s.t.Helper()
	_, won = s.paidBy(no, orderevent.PaidBy{PaymentNo: ids.New()})
	return won
}

// paidBy is pay with a payment of the caller's.
func (s *bundle) paidBy(no ids.ID, by orderevent.PaidBy) (o orderevent.Order, won bool) {
	s.t.Helper()
	amount := s.costs(no) // not inside, where it would wait for a second connection
	err := pg.InTx(s.t.Context(), s.db, func(tx pgx.Tx) (err error) {
		o, won, err = s.MarkPaid(s.t.Context(), tx, no, by, amount)
		return err
	})
	if err != nil {
		s.t.Error(err) // not Fatal: may run outside the test's goroutine
	}
	if won {
		s.Committed(s.t.Context(), o)
	}
	return o, won
}

func (s *bundle) payable(no ids.ID, user int64) error {
	return pg.InTx(s.t.Context(), s.db, func(tx pgx.Tx) error {
		_, err := s.Payable(s.t.Context(), tx, no, user)
		return err
	})
}

// placed writes orders for the users and returns their message.
func (s *bundle) placed(b *seckillevent.Batch, users ...int64) *seckillevent.Batch {
	s.t.Helper()
	m := grants(b, users...)
	s.deliver(m)
	return m
}

func (s *bundle) claim(no ids.ID, user int64) error {
	_, err := s.Claim(s.t.Context(), no, user)
	return err
}

// closeClaimed closes those of the orders that are claimed.
func (s *bundle) closeClaimed(reason string, nos ...ids.ID) []orderevent.Order {
	s.t.Helper()
	closed, err := s.CloseClaimed(s.t.Context(), nos, reason)
	require.NoError(s.t, err)
	return closed
}

// close claims an order and closes it.
func (s *bundle) close(no ids.ID, user int64, reason string) {
	s.t.Helper()
	require.NoError(s.t, s.claim(no, user))
	require.Equal(s.t, "orders closed", len(s.closeClaimed(reason, no)), 1)
}

func TestClosingIsAProtocol(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(5)
	no := s.placed(b, 1).Grants[0].No

	require.NoError(t, s.payable(no, 1))
	require.ErrorIs(t, s.payable(ids.NewFor(2), 1), ErrNotFound) // in another bucket
	require.ErrorIs(t, s.payable(ids.NewFor(1), 1), ErrNotFound)
	require.Equal(t, "closed without a claim", len(s.closeClaimed(orderevent.ReasonTimeout, no)), 0)
	require.NoError(t, s.claim(no, 1))
	require.ErrorIs(t, s.claim(no, 1), ErrClosing)
	require.ErrorIs(t, s.payable(no, 1), ErrClosing)

	// The claim expires: the order is as before.
	s.exec(`UPDATE orders.orders SET closing_until = clock_timestamp() - interval '1 ms'`)
	require.NoError(t, s.payable(no, 1))
	require.Equal(t, "closed under a claim that had run out", len(s.closeClaimed(orderevent.ReasonTimeout, no)), 0)

	require.NoError(t, s.claim(no, 1))
	closed := s.closeClaimed(orderevent.ReasonCanceled, no)
	require.Equal(t, "orders closed", len(closed), 1)
	require.Equal(t, "units", s.available(b.ItemID), 5)
	require.Equal(t, "event", s.events()[orderevent.SubjectClosed], closed)
	require.Equal(t, "version and reason", []any{closed[0].Version, closed[0].Status, closed[0].Reason}, []any{int32(2), "closed", "canceled"})
	cached, _, err := s.cache.get(t.Context(), no)
	require.NoError(t, err)
	require.Equal(t, "cache", cached, closed[0])
	require.ErrorIs(t, s.claim(no, 1), ErrNotCancelable)
	require.ErrorIs(t, s.claim(no, 2), ErrNotFound)
	require.ErrorIs(t, s.payable(no, 1), ErrNotPayable)
	require.Equal(t, "history", s.count(`SELECT count(*) FROM orders.history WHERE status = 'closed' AND reason = 'canceled' AND actor = 'shopper' AND version = 2`), 1)
}

// A push is sent by the relay, and by the time the relay is woken the cache, which
// polls read, has the change.
func TestPollAfterPushReadsNoOlderState(t *testing.T) {
	t.Parallel()
	s := setup(t)
	m := grants(s.item(2), 1, 2, 3)
	paid, closed, refused := m.Grants[0].No, m.Grants[1].No, m.Grants[2].No
	no := paid
	var read []string
	s.waker.onWake = func() {
		o, _, err := s.cache.get(t.Context(), no)
		if err != nil {
			t.Error(err)
		}
		read = append(read, o.Status)
	}
	s.deliver(m)
	no = refused
	s.deliver(again(m))
	no = paid
	s.pay(paid)
	no = closed
	s.close(closed, 2, orderevent.ReasonCanceled)
	require.Equal(t, "what polls read when the relay is woken", read, []string{
		orderevent.StatusPending, orderevent.StatusRefused, orderevent.StatusPaid, orderevent.StatusClosed,
	})
}

func TestNoPaymentAfterTheDeadline(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(5)
	b.PayWindow = 0
	no := s.placed(b, 1).Grants[0].No
	require.ErrorIs(t, s.payable(no, 1), ErrNotPayable)
	// Money that was under way is accepted as long as the order is not closed.
	require.Equal(t, "a capture before the closing wins", s.pay(no), true)
	nos, err := s.ClaimDue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, "paid orders that are due", len(nos), 0)
	s.exec(`UPDATE orders.orders SET closing_until = clock_timestamp() + interval '1 hour'`)
	require.Equal(t, "paid orders that were closed", len(s.closeClaimed(orderevent.ReasonTimeout, no)), 0)
}

func TestSweepersShareTheWork(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(1000)
	b.PayWindow = 0
	m := s.placed(b, usersUpTo(200)...)
	later := s.placed(s.item(5), 1) // not due
	locked := m.Grants[3].No
	release := pgtest.Locked(s.t, s.db, `SELECT FROM orders.orders WHERE order_no = $1 FOR UPDATE`, locked) // a payment is being made for one of the orders
	var mu sync.Mutex
	claimed := map[ids.ID]int{}
	var sweepers sync.WaitGroup
	for range 4 {
		sweepers.Go(func() {
			for {
				nos, err := s.ClaimDue(t.Context(), 30)
				if err != nil {
					t.Error(err)
					return
				}
				if len(nos) == 0 {
					return
				}
				mu.Lock()
				for _, no := range nos {
					claimed[no]++
				}
				mu.Unlock()
				_, err = s.CloseClaimed(t.Context(), nos, orderevent.ReasonTimeout)
				for pg.LockTimedOut(err) { // as a sweeper's next round
					_, err = s.CloseClaimed(t.Context(), nos, orderevent.ReasonTimeout)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	sweepers.Wait()
	release()
	require.Equal(t, "claimed orders", len(claimed), 199)
	for no, n := range claimed {
		if n != 1 {
			t.Errorf("%s claimed %d times", no, n)
		}
	}
	require.Equal(t, "the locked one and the one not due", s.statuses(locked, later.Grants[0].No), []string{"pending_payment", "pending_payment"})
	require.Equal(t, "units", s.available(b.ItemID), 999)
	require.Equal(t, "released", len(s.events()[orderevent.SubjectClosed]), 199)
}

// TestPayAgainstClose races a capture with a closing of the same order many
// times: one of them wins, and stock, events and history agree with it.
func TestPayAgainstClose(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const races = 60
	b := s.item(races)
	b.PayWindow = 0
	nos := numbers(s.placed(b, usersUpTo(races)...))
	claimed, err := s.ClaimDue(t.Context(), races)
	require.NoError(t, err)
	require.Equal(t, "claimed orders", len(claimed), races)
	paid, closed := 0, 0
	for _, no := range nos {
		var won bool
		var done []orderevent.Order
		var err error
		var both sync.WaitGroup
		both.Go(func() { won = s.pay(no) })
		both.Go(func() { done, err = s.CloseClaimed(t.Context(), []ids.ID{no}, orderevent.ReasonTimeout) })
		both.Wait()
		require.NoError(t, err)
		require.Equal(t, "closed by the closing alone", len(done) == 1, !won)
		if won {
			paid++
		} else {
			closed++
		}
	}
	t.Logf("%d paid, %d closed", paid, closed)
	require.Equal(t, "units", int(s.available(b.ItemID)), closed)
	events := s.events()
	require.Equal(t, "events", []int{len(events[orderevent.SubjectPaid]), len(events[orderevent.SubjectClosed])}, []int{paid, closed})
	require.Equal(t, "history", s.count(`SELECT count(*) FROM orders.history`), races)
	for i, no := range nos {
		o, ok, err := s.cache.get(t.Context(), no)
		if err != nil || !ok || o.Status != s.statuses(no)[0][:len(o.Status)] || o.Version != 2 {
			t.Fatalf("order %d in the cache: %+v, %v", i, o, err)
		}
	}
}
