package order

import (
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
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

// close claims an order and closes it.
func (s *bundle) close(no ids.ID, user int64, reason string) {
	s.t.Helper()
	_, err := s.Claim(s.t.Context(), no, user)
	require.NoError(s.t, err)
	if closed, err := s.CloseClaimed(s.t.Context(), []ids.ID{no}, reason); err != nil || len(closed) != 1 {
		s.t.Fatal(closed, err)
	}
}

func TestClosingIsAProtocol(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(5)
	no := s.placed(b, 1).Grants[0].No
	ctx := t.Context()

	if err := s.payable(no, 1); err != nil {
		t.Fatalf("a new order: %v", err)
	}
	for name, err := range map[string]error{
		"foreign bucket": s.payable(ids.NewFor(2), 1),
		"unknown number": s.payable(ids.NewFor(1), 1),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if closed, err := s.CloseClaimed(ctx, []ids.ID{no}, orderevent.ReasonTimeout); err != nil || len(closed) != 0 {
		t.Fatalf("closed without a claim: %v, %v", closed, err)
	}
	if _, err := s.Claim(ctx, no, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(ctx, no, 1); !errors.Is(err, ErrClosing) {
		t.Errorf("claimed twice: %v", err)
	}
	if err := s.payable(no, 1); !errors.Is(err, ErrClosing) {
		t.Errorf("payable while it is being closed: %v", err)
	}

	// The claim expires: the order is as before.
	s.exec(`UPDATE orders.orders SET closing_until = clock_timestamp() - interval '1 ms'`)
	if err := s.payable(no, 1); err != nil {
		t.Errorf("after the claim: %v", err)
	}
	if closed, err := s.CloseClaimed(ctx, []ids.ID{no}, orderevent.ReasonTimeout); err != nil || len(closed) != 0 {
		t.Fatalf("closed under a claim that had run out: %v, %v", closed, err)
	}

	if _, err := s.Claim(ctx, no, 1); err != nil {
		t.Fatal(err)
	}
	closed, err := s.CloseClaimed(ctx, []ids.ID{no}, orderevent.ReasonCanceled)
	if err != nil || len(closed) != 1 {
		t.Fatalf("%v, %v", closed, err)
	}
	require.Equal(t, "units", s.available(b.ItemID), 5)
	require.Equal(t, "event", s.events()[orderevent.SubjectClosed], closed)
	require.Equal(t, "version and reason", []any{closed[0].Version, closed[0].Status, closed[0].Reason}, []any{int32(2), "closed", "canceled"})
	cached, _, err := s.cache.get(ctx, no)
	require.NoError(t, err)
	require.Equal(t, "cache", cached, closed[0])
	if _, err := s.Claim(ctx, no, 1); !errors.Is(err, ErrNotCancelable) {
		t.Errorf("claim of a closed order: %v", err)
	}
	if _, err := s.Claim(ctx, no, 2); !errors.Is(err, ErrNotFound) {
		t.Errorf("claim of a foreign order: %v", err)
	}
	if err := s.payable(no, 1); !errors.Is(err, ErrNotPayable) {
		t.Errorf("a closed order: %v", err)
	}
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
	if err := s.payable(no, 1); !errors.Is(err, ErrNotPayable) {
		t.Errorf("payable after its deadline: %v", err)
	}
	// Money that was under way is accepted as long as the order is not closed.
	if !s.pay(no) {
		t.Error("a capture before the closing lost")
	}
	if nos, err := s.ClaimDue(t.Context(), 10); err != nil || len(nos) != 0 {
		t.Errorf("a paid order is due: %v, %v", nos, err)
	}
	s.exec(`UPDATE orders.orders SET closing_until = clock_timestamp() + interval '1 hour'`)
	if closed, err := s.CloseClaimed(t.Context(), []ids.ID{no}, orderevent.ReasonTimeout); err != nil || len(closed) != 0 {
		t.Errorf("a paid order was closed: %v, %v", closed, err)
	}
}

func TestSweepersShareTheWork(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(1000)
	b.PayWindow = 0
	m := s.placed(b, usersUpTo(200)...)
	later := s.placed(s.item(5), 1) // not due
	locked := m.Grants[3].No
	release := make(chan struct{})
	var holding, group sync.WaitGroup
	holding.Add(1)
	group.Go(func() { // a payment is being made for one of the orders
		err := pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT 1 FROM orders.orders WHERE order_no = $1 FOR UPDATE`, locked)
			holding.Done()
			<-release
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	holding.Wait()
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
				if _, err := s.CloseClaimed(t.Context(), nos, orderevent.ReasonTimeout); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	sweepers.Wait()
	close(release)
	group.Wait()
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
	if claimed, err := s.ClaimDue(t.Context(), races); err != nil || len(claimed) != races {
		t.Fatalf("%d, %v", len(claimed), err)
	}
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
		if won == (len(done) == 1) {
			t.Fatalf("paid: %v, closed: %d", won, len(done))
		}
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
