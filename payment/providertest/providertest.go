// Package providertest is the conformance suite that every payment provider has
// to pass before shoppers' money goes through it.
//
//	func TestProvider(t *testing.T) { providertest.Run(t, newSubject) }
package providertest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// Subject is one provider under test, with a stand-in for its company.
type Subject struct {
	Provider provider.Provider
	Currency string
	// Pay does what a shopper does with a handoff. An error means that the company
	// did not take the money.
	Pay func(provider.Handoff) error
	// Open does what a shopper does who looks at the payment without paying. Nil: the
	// company knows a payment from its creation on.
	Open func(provider.Handoff) error
	// Pass lets time pass at the company and for the provider: it moves their clock,
	// or waits.
	Pass func(time.Duration)
	// Backdate moves what a payment and its refunds moved into the past, in the company's
	// books.
	Backdate func(ids.ID, time.Duration)
}

// callers are how many make one request at the same moment.
const callers = 8

// patience bounds every wait for the company's next message.
const patience = 10 * time.Second

// Run proves a provider. setup is called once per proof. It asks only what companies
// promise: a repeated creation may give another address, and a message may be written
// in more than one way, as long as money moves once and what is believed is what the
// company signed.
func Run(t *testing.T, setup func(t *testing.T) Subject) {
	t.Helper()
	for _, proof := range []struct {
		name string
		run  func(*testing.T, *shop)
	}{
		{"a profile names it", profile},
		{"eight concurrent creations take money once", creations},
		{"an unknown number is missing, and not open once closed", unknown},
		{"a closed payment takes no money", closing},
		{"query, close and callback report the same capture", capture},
		{"either paying or closing wins", payAgainstClose},
		{"an expired payment takes no money", expiry},
		{"a callback is repeated until it is acknowledged", repetition},
		{"only what the company signed is believed", tampering},
		{"two refunds of parts move their money once", refund},
		{"a refund beyond the capture is refused", refundTooMuch},
		{"a statement has what moved, once it is made", statement},
	} {
		t.Run(proof.name, func(t *testing.T) {
			t.Parallel()
			proof.run(t, newShop(t, setup(t)))
		})
	}
}

// profile: the name appears in URLs, the window limits what may be published.
func profile(t *testing.T, s *shop) {
	p := s.Provider.Profile()
	if p.Name == "" || p.Merchant == "" || p.MinWindow <= 0 || len(p.Methods) == 0 || !p.Takes(s.Currency) {
		t.Errorf("profile is incomplete: %+v", p)
	}
}

// creations: two tabs, two instances, a shopper who comes back, one payment.
func creations(t *testing.T, s *shop) {
	go s.acknowledgeAll()
	c := s.charge()
	handoffs, errs := make([]provider.Handoff, callers), make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { handoffs[i], errs[i] = s.Provider.Create(t.Context(), c) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	s.refs.Store(c.PaymentNo, handoffs[0].Ref)
	if s.Open == nil {
		s.is(s.query(c.PaymentNo), provider.Open)
	}
	var transactions []string
	for _, h := range handoffs {
		_ = s.Pay(h) // a second payment is refused, or shows that the money has moved
		transactions = append(transactions, s.captured(s.query(c.PaymentNo), c).Transaction)
	}
	if all := slices.Compact(transactions); len(all) != 1 {
		t.Errorf("one payment took money under %d transactions: %q", len(all), all)
	}
}

// unknown: closing has to work for a creation whose answer was lost.
func unknown(_ *testing.T, s *shop) {
	no := ids.NewFor(7)
	s.is(s.query(no), provider.Missing)
	s.is(s.close(no), provider.Closed, provider.Missing)
	s.is(s.query(no), provider.Closed, provider.Missing)
}

// closing: once an order's units are returned, its payment must stay closed.
func closing(t *testing.T, s *shop) {
	c := s.charge()
	h := s.create(c)
	s.open(h)
	for range 2 { // closing is repeatable
		s.is(s.close(c.PaymentNo), provider.Closed)
	}
	if err := s.Pay(h); err == nil {
		t.Error("a closed payment took money")
	}
	s.is(s.query(c.PaymentNo), provider.Closed)
	s.takesNoMore(c)
}

// capture: every way of reporting it states the same money under the same
// transaction, which is the ledger's key.
func capture(t *testing.T, s *shop) {
	c := s.paid()
	m, n := s.next()
	m.answer <- nil
	if n.Capture == nil || n.Refund != nil {
		t.Fatalf("the callback is not a capture: %+v", n)
	}
	s.isCaptureOf(*n.Capture, c)
	for _, got := range []provider.Status{s.query(c.PaymentNo), s.close(c.PaymentNo)} {
		if txn := s.captured(got, c).Transaction; txn != n.Capture.Transaction {
			t.Errorf("transaction %q, the callback has %q", txn, n.Capture.Transaction)
		}
	}
	s.takesNoMore(c)
}

// payAgainstClose: units are returned because the closing says so, so a payment
// that was reported closed must not be paid, nor a paid one reported closed.
func payAgainstClose(t *testing.T, s *shop) {
	go s.acknowledgeAll()
	for range 20 {
		c := s.charge()
		h := s.create(c)
		s.open(h)
		var paid error
		var closed provider.Status
		var wg sync.WaitGroup
		wg.Go(func() { paid = s.Pay(h) })
		wg.Go(func() { closed = s.close(c.PaymentNo) })
		wg.Wait()
		if (paid == nil) != (closed.State == provider.Captured) {
			t.Fatalf("the shopper got %v, the closing %s", paid, closed.State)
		}
		if got := s.query(c.PaymentNo); got.State != closed.State {
			t.Fatalf("the closing returned %s, a query afterwards %s", closed.State, got.State)
		}
	}
}

// expiry: the provider honours the shortest window in its profile.
func expiry(t *testing.T, s *shop) {
	c := s.charge()
	window := s.Provider.Profile().MinWindow + time.Second
	c.ExpiresAt = time.Now().Add(window)
	h := s.create(c)
	s.open(h)
	s.Pass(window + time.Second)
	if err := s.Pay(h); err == nil {
		t.Error("an expired payment took money")
	}
	s.eventually(func() bool { return s.close(c.PaymentNo).State == provider.Closed }, "the payment is closed")
}

// repetition: a callback that was not acknowledged is sent again unchanged.
func repetition(t *testing.T, s *shop) {
	s.paid()
	var transactions []string
	for range 3 {
		m, n := s.next()
		if n.Capture == nil {
			t.Fatalf("the callback is not a capture: %+v", n)
		}
		transactions = append(transactions, n.Capture.Transaction)
		m.answer <- errors.New("not now")
	}
	if all := slices.Compact(transactions); len(all) != 1 {
		t.Errorf("one capture was reported under %d transactions: %q", len(all), all)
	}
	go s.acknowledgeAll()
}

// tampering: no change of a message, nor a signature with another message, makes
// something believed that the company did not sign; and a refusal differs from an
// acknowledgement.
func tampering(t *testing.T, s *shop) {
	var genuine [2]message
	var said [2]provider.Notice
	for i := range genuine {
		s.paid()
		genuine[i], said[i] = s.next()
		genuine[i].answer <- nil
	}
	believed := func(what string, h http.Header, body []byte, truth provider.Notice) {
		n, err := s.Provider.Parse(h, body)
		if err == nil && !reflect.DeepEqual(n, truth) {
			t.Errorf("%s: believed %+v, the company signed %+v", what, n, truth)
		}
		if err != nil && !errors.Is(err, provider.ErrBadSignature) && !errors.Is(err, provider.ErrUnreadable) {
			t.Errorf("%s: %v, want ErrBadSignature or ErrUnreadable", what, err)
		}
	}
	m := genuine[0]
	for i := range m.body {
		touched := slices.Clone(m.body)
		touched[i] ^= 1
		believed(fmt.Sprintf("byte %d was changed", i), m.header, touched, said[0])
	}
	believed("a byte was added", m.header, append(slices.Clone(m.body), ' '), said[0])
	believed("no headers", http.Header{}, m.body, said[0])
	believed("another message's headers", m.header, genuine[1].body, said[1])
	if _, err := s.Provider.Parse(http.Header{}, nil); !errors.Is(err, provider.ErrBadSignature) {
		t.Errorf("an empty message gave %v, want ErrBadSignature", err)
	}
	for _, err := range []error{provider.ErrBadSignature, provider.ErrUnreadable, errors.New("database down")} {
		if got, ok := s.Provider.Answer(err), s.Provider.Answer(nil); got.Status == ok.Status && bytes.Equal(got.Body, ok.Body) {
			t.Errorf("the answer to %v is an acknowledgement", err)
		}
	}
}

// refund: repeating the request returns its state, also at the same moment and after the
// money is gone, and its callback, where the company sends one, states the same.
func refund(t *testing.T, s *shop) {
	c := s.paid()
	m, _ := s.next()
	m.answer <- nil
	told := make(map[ids.ID]provider.RefundStatus)
	var mu sync.Mutex
	go s.each(func(m message) {
		if n, err := s.Provider.Parse(m.header, m.body); err != nil {
			t.Errorf("the company's own callback does not parse: %v", err)
		} else if n.Refund != nil && n.Refund.State == provider.Succeeded {
			mu.Lock()
			told[n.Refund.RefundNo] = *n.Refund
			mu.Unlock()
		}
	})
	whole := s.refundOf(c, s.query(c.PaymentNo).Capture)
	transactions := make(map[string]bool)
	for _, amount := range []int64{300, c.Amount - 300} {
		r := whole
		r.RefundNo, r.Amount = ids.NewFor(7), amount
		var wg sync.WaitGroup
		for range callers { // instances that do not know of each other
			wg.Go(func() {
				if got, err := s.Provider.Refund(t.Context(), r); err != nil || got.State == provider.Failed {
					t.Errorf("one of several requests for one refund: %+v, %v", got, err)
				}
			})
		}
		wg.Wait()
		got := s.refunded(r)
		transactions[cmp.Or(got.Transaction, got.RefundNo.String())] = true
		mu.Lock()
		if n, ok := told[r.RefundNo]; ok {
			s.isRefundOf(n, r)
			if n.Transaction != got.Transaction {
				t.Errorf("one refund has two transactions: %q, %q", n.Transaction, got.Transaction)
			}
		}
		mu.Unlock()
	}
	if len(transactions) != 2 {
		t.Errorf("two refunds have the transactions %v", transactions)
	}
	// The money is gone: under another number there is none left to refund.
	whole.RefundNo, whole.Amount = ids.NewFor(7), 1
	if _, err := s.Provider.Refund(t.Context(), whole); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("a refund after everything gave %v, want ErrRefused", err)
	}
}

// refundTooMuch: a mistake of ours must not cost more than was paid.
func refundTooMuch(t *testing.T, s *shop) {
	go s.acknowledgeAll()
	c := s.paid()
	r := s.refundOf(c, s.query(c.PaymentNo).Capture)
	r.Amount++
	if _, err := s.Provider.Refund(t.Context(), r); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("a refund beyond the capture gave %v, want ErrRefused", err)
	}
	r.RefundNo, r.Amount, r.Payment = ids.NewFor(7), 1, provider.Payment{No: ids.NewFor(7)}
	if _, err := s.Provider.Refund(t.Context(), r); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("a refund of an unknown payment gave %v, want ErrRefused", err)
	}
}
