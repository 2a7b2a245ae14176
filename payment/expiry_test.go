package payment

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/pulse"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// closingBy returns a sweeper whose payments are closed by c.
func (s *bundle) closingBy(c closer, change ...func(*Config)) *expiry {
	cfg := DefaultConfig()
	for _, f := range change {
		f(&cfg)
	}
	return newExpiry(cfg, s.orders, c, slog.New(slog.DiscardHandler), nil)
}

// due writes orders whose deadline has passed.
func (s *bundle) due(n int) []ids.ID {
	s.t.Helper()
	nos, _ := s.buy(n, 100)
	s.exec(`UPDATE orders.orders SET pay_deadline = now() - interval '1 second' WHERE order_no = ANY($1)`, nos)
	return nos
}

// ends are the orders' "status" or "status/reason".
func (s *bundle) ends(nos ...ids.ID) []string {
	s.t.Helper()
	all := make([]string, len(nos))
	for i, no := range nos {
		all[i] = read[string](s, `SELECT concat_ws('/', status, nullif(reason, '')) FROM orders.orders WHERE order_no = $1`, no)
	}
	return all
}

const closedInTime = "closed/timeout"

// sweeps is one sweep, which has to claim what is due.
func (s *bundle) sweeps(e *expiry) {
	if err := e.sweep(s.t.Context()); err != nil {
		s.t.Error(err) // not Fatal: may run outside the test's goroutine
	}
}

// TestExpiryClosesOnTime: the pulse finds what falls due.
func TestExpiryClosesOnTime(t *testing.T) {
	t.Parallel()
	// A minute between ticks: only the pulse can wake the sweeper.
	s := setup(t, options{pay: func(c *Config) { c.SweepEvery = time.Minute }})
	s.expiry.pulse = pulse.New(s.db, slog.New(slog.DiscardHandler), nil)
	pgtest.Work(t, s.expiry.Run)
	pgtest.Work(t, s.expiry.pulse.Worker().Run)
	pgtest.Work(t, s.orders.Workers()[0].Run)
	user := s.user.Add(1)
	m := seckillevent.Batch{
		ID: ids.New(), ItemID: s.item, ActivityID: 9, SessionID: 5, UnitPrice: 100, Currency: "CNY", Title: "x", PayWindow: 300 * time.Millisecond,
		Grants: []seckillevent.Grant{{No: ids.NewFor(user), User: user, Quantity: 1, Seq: 1}},
	}
	before := s.stockIs()
	require.NoError(t, s.bus.Publish(t.Context(), seckillevent.GrantsSubject(s.item), m.ID, m.Encode(nil)))
	no := m.Grants[0].No
	s.until("the order is written", func() bool { return s.written(no) })
	pgtest.Eventually(t, 30*time.Second, func() bool { return s.ends(no)[0] == closedInTime }, "the order expires")
	require.Equal(t, "before its deadline", read[bool](s, `SELECT updated_at < pay_deadline FROM orders.orders WHERE order_no = $1`, no), false)
	require.Equal(t, "stock", s.stockIs(), before)
}

// stubborn closes all payments except some.
type stubborn struct{ open []ids.ID }

func (p stubborn) OpenOf(_ context.Context, nos []ids.ID) ([][]ids.ID, error) {
	return [][]ids.ID{nos}, nil
}

func (p stubborn) CloseOpen(_ context.Context, nos []ids.ID) ([]ids.ID, error) {
	closable := slices.DeleteFunc(slices.Clone(nos), func(no ids.ID) bool { return slices.Contains(p.open, no) })
	return closable, errors.New("one provider does not answer")
}

// TestExpiry sweeps a shop of its own, where nothing else falls due.
func TestExpiry(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{}), anOrderWhosePaymentIsNotClosedStays, aHangingProviderDelaysItsOwnOrders, ordersThatWaitForProvidersAreBounded)
}

func anOrderWhosePaymentIsNotClosedStays(t *testing.T, s *bundle) {
	before := s.stockIs()
	nos := s.due(3)
	e := s.closingBy(stubborn{open: nos[1:2]})
	sweep := func() { s.sweeps(e); e.closing.Wait() }
	sweep()
	require.Equal(t, "statuses", s.ends(nos...), []string{closedInTime, "pending_payment", closedInTime})
	sweep()
	require.Equal(t, "while the claim is in force", read[int](s, `SELECT count(*) FROM orders.orders WHERE status = 'pending_payment' AND closing_until > clock_timestamp()`), 1)
	s.claimsExpire()
	s.sweeps(s.closingBy(s.Service))
	require.Equal(t, "statuses", s.ends(nos...), []string{closedInTime, closedInTime, closedInTime})
	require.Equal(t, "stock", s.stockIs(), before)
}

func (s *bundle) claimsExpire() {
	s.t.Helper()
	s.exec(`UPDATE orders.orders SET closing_until = clock_timestamp() - interval '1 ms' WHERE closing_until IS NOT NULL`)
}

// twoBanks gives each order in paid a payment: the first one at a bank that
// hangs, the others at one that answers.
type twoBanks struct {
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
func aHangingProviderDelaysItsOwnOrders(t *testing.T, s *bundle) {
	before := s.stockIs()
	nos := s.due(6)
	s.exec(`UPDATE orders.orders SET pay_deadline = pay_deadline + interval '100 milliseconds' WHERE order_no = ANY($1)`, nos[4:])
	banks := twoBanks{paid: nos[:2], asked: make(chan struct{}), hang: make(chan struct{})}
	e := s.closingBy(banks, func(c *Config) { c.SweepLimit = 4 })
	swept := make(chan struct{})
	go func() { defer close(swept); s.sweeps(e) }()
	select {
	case <-swept:
	case <-time.After(30 * time.Second):
		t.Error("the sweep waits for the bank")
	}
	<-banks.asked
	s.until("all but the hanging bank's order are closed", func() bool {
		return slices.Equal(s.ends(nos...), []string{"pending_payment", closedInTime, closedInTime, closedInTime, closedInTime, closedInTime})
	})
	close(banks.hang)
	<-swept
	e.closing.Wait()
	require.Equal(t, "after the answer", s.ends(nos[0])[0], closedInTime)
	require.Equal(t, "stock", s.stockIs(), before)
}

// While hanging banks occupy every slot, the sweep continues.
func ordersThatWaitForProvidersAreBounded(t *testing.T, s *bundle) {
	nos := s.due(2)
	e := s.closingBy(stubborn{}, func(c *Config) { c.SweepEvery = 10 * time.Millisecond })
	for range closingAtOnce {
		e.slots <- struct{}{}
	}
	s.sweeps(e)
	require.Equal(t, "left to their claim", s.ends(nos...), []string{"pending_payment", "pending_payment"})
	s.claimsExpire()
	<-e.slots
	s.sweeps(e)
	e.closing.Wait()
	require.Equal(t, "in a place", s.ends(nos...), []string{closedInTime, closedInTime})
	require.Equal(t, "slots taken", len(e.slots), closingAtOnce-1)
}
