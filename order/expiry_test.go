package order

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestExpiryClosesOnTime(t *testing.T) {
	t.Parallel()
	// A minute between ticks: only the batch's timer can wake the sweeper.
	s := setup(t, func(c *Config, _ *Deps) { c.SweepEvery = time.Minute })
	stop, err := s.bus.Subscribe(t.Context(), s.Subscriptions(), func(context.Context, string, bus.Msg, error) error { return nil })
	require.NoError(t, err)
	t.Cleanup(func() { stop(context.WithoutCancel(t.Context())) })
	s.runWorker(newExpiry(s.Service, noPayments{}).Run)
	b := s.item(5)
	b.PayWindow = 300 * time.Millisecond
	m := s.placed(b, 1, 2)
	var due time.Time
	require.NoError(t, s.db.QueryRow(t.Context(), `SELECT pay_deadline FROM orders.orders WHERE order_no = $1`, m.Grants[0].No).Scan(&due))
	pgtest.Eventually(t, 30*time.Second, func() bool { return s.statuses(m.Grants[0].No)[0] == "closed/timeout" }, "the order expires")
	if time.Now().Before(due) {
		t.Error("it expired before its deadline")
	}
	requireEqual(t, "units", s.available(b.ItemID), 5)
}

func (s *bundle) runWorker(run func(context.Context) error) {
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

// sweep is one sweep, which has to claim what is due.
func (s *bundle) sweep(e *expiry) {
	if err := e.sweep(s.t.Context()); err != nil {
		s.t.Error(err) // not Fatal: may run outside the test's goroutine
	}
}

// stubborn closes all payments except some.
type stubborn struct {
	noPayments
	open []ids.ID
}

func (p stubborn) OpenOf(_ context.Context, nos []ids.ID) ([][]ids.ID, error) {
	return [][]ids.ID{nos}, nil
}

func (p stubborn) CloseOpen(_ context.Context, nos []ids.ID) ([]ids.ID, error) {
	closable := slices.DeleteFunc(slices.Clone(nos), func(no ids.ID) bool { return slices.Contains(p.open, no) })
	return closable, errors.New("one provider does not answer")
}

func TestExpiryLeavesOrderItsProviderDoesNotClose(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(5)
	b.PayWindow = 0
	m := s.placed(b, 1, 2, 3)
	e := newExpiry(s.Service, stubborn{open: numbers(m)[1:2]})
	sweep := func() { s.sweep(e); e.closing.Wait() }
	sweep()
	requireEqual(t, "statuses", s.statuses(numbers(m)...), []string{"closed/timeout", "pending_payment", "closed/timeout"})
	sweep()
	requireEqual(t, "while the claim is in force", s.count(`SELECT count(*) FROM orders.orders WHERE status = 'pending_payment' AND closing_until > clock_timestamp()`), 1)
	s.exec(`UPDATE orders.orders SET closing_until = clock_timestamp() - interval '1 ms' WHERE closing_until IS NOT NULL`)
	s.sweep(newExpiry(s.Service, noPayments{}))
	requireEqual(t, "statuses", s.statuses(numbers(m)...), []string{"closed/timeout", "closed/timeout", "closed/timeout"})
	requireEqual(t, "units", s.available(b.ItemID), 5)
}

// twoBanks gives each order in paid a payment: the first one at a bank that
// hangs, the others at one that answers.
type twoBanks struct {
	noPayments
	paid  []ids.ID
	asked chan struct{} // closed when the hanging bank is called
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

// A bank that hangs delays its own orders only: not those without a payment,
// nor those of another bank, nor those claimed after them.
func TestExpiryDoesNotWaitForAHangingBank(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.SweepLimit = 4 })
	b := s.item(20)
	b.PayWindow = 0
	first := s.placed(b, 1, 2, 3, 4)
	later := s.placed(b, 5, 6)
	banks := twoBanks{paid: numbers(first)[:2], asked: make(chan struct{}), hang: make(chan struct{})}
	e := newExpiry(s.Service, banks)
	swept := make(chan struct{})
	go func() { defer close(swept); s.sweep(e) }()
	select {
	case <-swept:
	case <-time.After(30 * time.Second):
		t.Error("the sweep waits for the bank")
	}
	<-banks.asked
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return slices.Equal(s.statuses(append(numbers(first), numbers(later)...)...),
			[]string{"pending_payment", "closed/timeout", "closed/timeout", "closed/timeout", "closed/timeout", "closed/timeout"})
	}, "all but the hanging bank's order are closed")
	close(banks.hang)
	<-swept
	e.closing.Wait()
	requireEqual(t, "after the answer", s.statuses(numbers(first)[0]), []string{"closed/timeout"})
	requireEqual(t, "units", s.available(b.ItemID), 20)
}

// While hanging banks occupy every slot, the sweep continues.
func TestExpiryBoundsOrdersWaitingForBanks(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.SweepEvery = 10 * time.Millisecond })
	b := s.item(20)
	b.PayWindow = 0
	m := s.placed(b, 1, 2)
	e := newExpiry(s.Service, stubborn{})
	for range closingAtOnce {
		e.slots <- struct{}{}
	}
	s.sweep(e)
	requireEqual(t, "left to their claim", s.statuses(numbers(m)...), []string{"pending_payment", "pending_payment"})
	s.exec(`UPDATE orders.orders SET closing_until = clock_timestamp() - interval '1 ms' WHERE closing_until IS NOT NULL`)
	<-e.slots
	s.sweep(e)
	e.closing.Wait()
	requireEqual(t, "in a place", s.statuses(numbers(m)...), []string{"closed/timeout", "closed/timeout"})
	requireEqual(t, "slots taken", len(e.slots), closingAtOnce-1)
}
