package order

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/bus"
	"stampede/platform/ids"
	"stampede/platform/pg"
	"stampede/platform/pgtest"
	"stampede/seckill/seckillevent"
)

// pay captures a payment the way payment's callback does.
func (s *shop) pay(no ids.ID) (won bool) {
	s.t.Helper()
	var o orderevent.Order
	err := pg.InTx(s.t.Context(), s.db, func(tx pgx.Tx) (err error) {
		o, won, err = s.MarkPaid(s.t.Context(), tx, no, ids.New())
		return err
	})
	if err != nil {
		s.t.Error(err) // may run beside the test's goroutine
	}
	if won {
		s.Announce(s.t.Context(), o)
	}
	return won
}

func (s *shop) payable(no ids.ID, user int64) error {
	return pg.InTx(s.t.Context(), s.db, func(tx pgx.Tx) error {
		_, err := s.Payable(s.t.Context(), tx, no, user)
		return err
	})
}

// placed writes orders for the users and returns their message.
func (s *shop) placed(b *seckillevent.Batch, users ...int64) *seckillevent.Batch {
	s.t.Helper()
	m := grants(b, users...)
	s.deliver(m)
	return m
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

	// The claim runs out: the order is as before.
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
	requireEqual(t, "units", s.available(b.ItemID), 5)
	requireEqual(t, "event", s.events()[orderevent.SubjectClosed], closed)
	requireEqual(t, "version and reason", []any{closed[0].Version, closed[0].Status, closed[0].Reason}, []any{int32(2), "closed", "canceled"})
	cached, _, err := s.cache.get(ctx, no)
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "cache", cached, closed[0])
	if _, err := s.Claim(ctx, no, 1); !errors.Is(err, ErrNotCancelable) {
		t.Errorf("claim of a closed order: %v", err)
	}
	if _, err := s.Claim(ctx, no, 2); !errors.Is(err, ErrNotFound) {
		t.Errorf("claim of a foreign order: %v", err)
	}
	if err := s.payable(no, 1); !errors.Is(err, ErrNotPayable) {
		t.Errorf("a closed order: %v", err)
	}
	requireEqual(t, "history", s.count(`SELECT count(*) FROM orders.history WHERE status = 'closed' AND reason = 'canceled' AND actor = 'shopper' AND version = 2`), 1)
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
	// Money that was on its way is taken as long as the order is not closed.
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
	var users []int64
	for user := range int64(200) {
		users = append(users, user+1)
	}
	m := s.placed(b, users...)
	later := s.placed(s.item(5), 1) // not due
	locked := m.Grants[3].No
	release := make(chan struct{})
	var holding, group sync.WaitGroup
	holding.Add(1)
	group.Go(func() { // a payment is being made for one of them
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
	requireEqual(t, "claimed orders", len(claimed), 199)
	for no, n := range claimed {
		if n != 1 {
			t.Errorf("%s claimed %d times", no, n)
		}
	}
	requireEqual(t, "the locked one and the one not due", s.statuses(locked, later.Grants[0].No), []string{"pending_payment", "pending_payment"})
	requireEqual(t, "units", s.available(b.ItemID), 999)
	requireEqual(t, "released", len(s.events()[orderevent.SubjectClosed]), 199)
}

func TestExpiryClosesOnTime(t *testing.T) {
	t.Parallel()
	// An hour between ticks: only the timer of the batch can be what wakes it.
	s := setup(t, func(c *Config, _ *Deps) { c.SweepEvery = time.Minute })
	stop, err := s.bus.Subscribe(t.Context(), s.Subscriptions(), func(context.Context, string, bus.Msg, error) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(context.WithoutCancel(t.Context())) })
	s.runWorker(NewExpiry(s.Service, noPayments{}).Run)
	b := s.item(5)
	b.PayWindow = 300 * time.Millisecond
	m := s.placed(b, 1, 2)
	due := time.Now().Add(b.PayWindow)
	pgtest.Eventually(t, 10*time.Second, func() bool { return s.statuses(m.Grants[0].No)[0] == "closed/timeout" }, "the order expires")
	if time.Now().Before(due.Add(-50 * time.Millisecond)) {
		t.Error("it expired before its deadline")
	}
	requireEqual(t, "units", s.available(b.ItemID), 5)
}

func (s *shop) runWorker(run func(context.Context) error) {
	ctx, stop := contextWithStop(s.t)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
}

// stubborn closes all payments but some.
type stubborn struct{ open []ids.ID }

func (p stubborn) OpenOf(_ context.Context, nos []ids.ID) ([][]ids.ID, error) {
	return [][]ids.ID{nos}, nil
}

func (p stubborn) CloseOpen(_ context.Context, nos []ids.ID) ([]ids.ID, error) {
	closable := slices.DeleteFunc(slices.Clone(nos), func(no ids.ID) bool { return slices.Contains(p.open, no) })
	return closable, errors.New("one provider does not answer")
}

func TestExpiryLeavesWhatItsProviderDoesNotClose(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(5)
	b.PayWindow = 0
	m := s.placed(b, 1, 2, 3)
	e := NewExpiry(s.Service, stubborn{open: numbers(m)[1:2]})
	sweep := func() { e.sweep(t.Context()); e.closing.Wait() }
	sweep()
	requireEqual(t, "statuses", s.statuses(numbers(m)...), []string{"closed/timeout", "pending_payment", "closed/timeout"})
	sweep()
	requireEqual(t, "while the claim is in force", s.count(`SELECT count(*) FROM orders.orders WHERE status = 'pending_payment' AND closing_until > clock_timestamp()`), 1)
	s.exec(`UPDATE orders.orders SET closing_until = clock_timestamp() - interval '1 ms' WHERE closing_until IS NOT NULL`)
	NewExpiry(s.Service, noPayments{}).sweep(t.Context())
	requireEqual(t, "statuses", s.statuses(numbers(m)...), []string{"closed/timeout", "closed/timeout", "closed/timeout"})
	requireEqual(t, "units", s.available(b.ItemID), 5)
}

// TestPayAgainstClose lets a capture and a closing meet on the same order many
// times: one of them wins, and stock, events and history agree with it.
func TestPayAgainstClose(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const races = 60
	b := s.item(races)
	b.PayWindow = 0
	var users []int64
	for user := range int64(races) {
		users = append(users, user+1)
	}
	nos := numbers(s.placed(b, users...))
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
		if err != nil {
			t.Fatal(err)
		}
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
	requireEqual(t, "units", int(s.available(b.ItemID)), closed)
	events := s.events()
	requireEqual(t, "events", []int{len(events[orderevent.SubjectPaid]), len(events[orderevent.SubjectClosed])}, []int{paid, closed})
	requireEqual(t, "history", s.count(`SELECT count(*) FROM orders.history`), races)
	for i, no := range nos {
		o, ok, err := s.cache.get(t.Context(), no)
		if err != nil || !ok || o.Status != s.statuses(no)[0][:len(o.Status)] || o.Version != 2 {
			t.Fatalf("order %d in the cache: %+v, %v", i, o, err)
		}
	}
}

// TestEveryOrderOfEvents applies every sequence of four events to an order of
// its own and compares each state on the way, the stock and the history with
// what the state machine says.
func TestEveryOrderOfEvents(t *testing.T) {
	t.Parallel()
	s := setup(t)
	ctx := t.Context()
	const length = 4
	closing := func(reason string) func(at []*seckillevent.Batch) {
		return func(at []*seckillevent.Batch) {
			var claimed []ids.ID
			for _, m := range at {
				switch _, err := s.Claim(ctx, m.Grants[0].No, m.Grants[0].User); {
				case err == nil:
					claimed = append(claimed, m.Grants[0].No)
				case !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrNotCancelable):
					t.Fatal(err)
				}
			}
			if _, err := s.CloseClaimed(ctx, claimed, reason); err != nil {
				t.Fatal(err)
			}
		}
	}
	// What an event does, and what it makes of a state; a state that is missing
	// stays as it is.
	events := []struct {
		name string
		do   func(at []*seckillevent.Batch)
		next map[string]string
	}{
		{"grant", func(at []*seckillevent.Batch) {
			all := again(at[0])
			for _, m := range at[1:] {
				all.Grants = append(all.Grants, m.Grants...)
			}
			s.deliver(all)
		}, map[string]string{"": "pending_payment"}},
		{"pay", func(at []*seckillevent.Batch) {
			s.inTx(func(tx pgx.Tx) error { //nolint:contextcheck // it has the test's
				for _, m := range at {
					if _, _, err := s.MarkPaid(ctx, tx, m.Grants[0].No, ids.New()); err != nil && !errors.Is(err, ErrNotFound) {
						return err
					}
				}
				return nil
			})
		}, map[string]string{"pending_payment": "paid"}},
		{"expire", closing(orderevent.ReasonTimeout), map[string]string{"pending_payment": "closed/timeout"}},
		{"cancel", closing(orderevent.ReasonCanceled), map[string]string{"pending_payment": "closed/canceled"}},
	}
	b := s.item(1_000_000)
	sequences := 1
	for range length {
		sequences *= len(events)
	}
	orders := make([]*seckillevent.Batch, sequences)
	nos := make([]ids.ID, sequences)
	states, versions := make([]string, sequences), make([]int, sequences)
	for i := range orders {
		orders[i] = grants(b, int64(i)+1)
		orders[i].Grants = slices.Clip(orders[i].Grants) // deliver's append must not write here
		nos[i] = orders[i].Grants[0].No
	}
	// The digits of a sequence's index in base 4 are its events.
	for step, digit := 0, 1; step < length; step, digit = step+1, digit*len(events) {
		for kind, event := range events {
			var at []*seckillevent.Batch
			for i := range orders {
				if i/digit%len(events) != kind {
					continue
				}
				at = append(at, orders[i])
				if next, ok := event.next[states[i]]; ok {
					states[i] = next
					versions[i]++
				}
			}
			event.do(at)
		}
		for i, got := range s.statuses(nos...) {
			if got != states[i] {
				names := ""
				for j, d := 0, 1; j <= step; j, d = j+1, d*len(events) {
					names += " " + events[i/d%len(events)].name
				}
				t.Errorf("after%s: %q, expected %q", names, got, states[i])
			}
		}
	}
	live, changes := 0, 0
	for i := range orders {
		if status, _, _ := strings.Cut(states[i], "/"); orderevent.Live(status) {
			live++
		}
		if versions[i] > 0 {
			requireEqual(t, "version", int(s.order(nos[i]).Version), versions[i])
			changes += versions[i] - 1
		}
	}
	requireEqual(t, "units", int(s.available(b.ItemID)), 1_000_000-live)
	requireEqual(t, "history", s.count(`SELECT count(*) FROM orders.history h JOIN orders.orders o USING (order_no) WHERE h.version BETWEEN 2 AND o.version`), changes)
}

// twoBanks has a payment of each order in paid: of the first one at a bank that
// hangs, of the others at one that answers.
type twoBanks struct {
	paid  []ids.ID
	asked chan struct{} // closed when the hanging bank is asked
	hang  chan struct{} // closed when it answers
}

func (p twoBanks) OpenOf(_ context.Context, nos []ids.ID) (groups [][]ids.ID, err error) {
	for _, group := range [][]ids.ID{p.paid[:1], p.paid[1:]} {
		if slices.Contains(nos, group[0]) {
			groups = append(groups, group)
		}
	}
	return groups, nil
}

func (p twoBanks) CloseOpen(_ context.Context, nos []ids.ID) ([]ids.ID, error) {
	if slices.Contains(nos, p.paid[0]) {
		close(p.asked)
		<-p.hang
	}
	return nos, nil
}

// A bank that hangs holds up its own orders: neither those without a payment,
// nor those of another bank, nor those that are claimed after them.
func TestExpiryDoesNotWaitForAHangingBank(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.SweepLimit = 4 })
	b := s.item(20)
	b.PayWindow = 0
	first := s.placed(b, 1, 2, 3, 4)
	later := s.placed(b, 5, 6)
	banks := twoBanks{paid: numbers(first)[:2], asked: make(chan struct{}), hang: make(chan struct{})}
	e := NewExpiry(s.Service, banks)
	swept := make(chan struct{})
	go func() { defer close(swept); e.sweep(t.Context()) }()
	select {
	case <-swept:
	case <-time.After(10 * time.Second):
		t.Error("the sweep waits for the bank")
	}
	<-banks.asked
	pgtest.Eventually(t, 10*time.Second, func() bool {
		return slices.Equal(s.statuses(append(numbers(first), numbers(later)...)...),
			[]string{"pending_payment", "closed/timeout", "closed/timeout", "closed/timeout", "closed/timeout", "closed/timeout"})
	}, "all but the hanging bank's order are closed")
	close(banks.hang)
	<-swept
	e.closing.Wait()
	requireEqual(t, "after the answer", s.statuses(numbers(first)[0]), []string{"closed/timeout"})
	requireEqual(t, "units", s.available(b.ItemID), 20)
}

// With every place taken by banks that hang, the sweep goes on all the same.
func TestExpiryBoundsWhatWaitsForBanks(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.SweepEvery = 10 * time.Millisecond })
	b := s.item(20)
	b.PayWindow = 0
	m := s.placed(b, 1, 2)
	e := NewExpiry(s.Service, stubborn{})
	for range closingAtOnce {
		e.slots <- struct{}{}
	}
	e.sweep(t.Context())
	requireEqual(t, "left to their claim", s.statuses(numbers(m)...), []string{"pending_payment", "pending_payment"})
	s.exec(`UPDATE orders.orders SET closing_until = clock_timestamp() - interval '1 ms' WHERE closing_until IS NOT NULL`)
	<-e.slots
	e.sweep(t.Context())
	e.closing.Wait()
	requireEqual(t, "in a place", s.statuses(numbers(m)...), []string{"closed/timeout", "closed/timeout"})
	requireEqual(t, "places taken", len(e.slots), closingAtOnce-1)
}
