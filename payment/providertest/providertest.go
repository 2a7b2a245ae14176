// Package providertest is the conformance suite that every payment provider has
// to pass before shoppers' money goes through it.
//
//	func TestProvider(t *testing.T) { providertest.Run(t, newSubject) }
package providertest

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
)

// Subject is one provider under test, with a stand-in for its company.
type Subject struct {
	Provider provider.Provider
	Currency string
	// Pay does what a shopper does at a pay URL. An error means that the company
	// did not take the money.
	Pay func(payURL string) error
}

// patience bounds every wait for the company's next message.
const patience = 10 * time.Second

// Run proves a provider. setup is called once per proof.
func Run(t *testing.T, setup func(t *testing.T) Subject) {
	t.Helper()
	for _, proof := range []struct {
		name string
		run  func(*testing.T, *shop)
	}{
		{"a profile names it", profile},
		{"a creation can be repeated", creation},
		{"eight concurrent creations give one payment", creationsAtOnce},
		{"a number belongs to one amount", otherAmount},
		{"an unknown number is missing, and closed once closed", unknown},
		{"a closed payment stays closed", closing},
		{"query, close and callback report the same capture", capture},
		{"either paying or closing wins", payAgainstClose},
		{"an expired payment takes no money", expiry},
		{"a callback is repeated until it is acknowledged", repetition},
		{"a modified callback is refused", tampering},
		{"a refund moves money once", refund},
		{"a refund beyond the capture is refused", refundTooMuch},
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
	if p.Name == "" || p.Merchant == "" || p.MinWindow <= 0 {
		t.Errorf("profile is incomplete: %+v", p)
	}
}

// creation: a shopper who comes back to the page pays the same payment.
func creation(t *testing.T, s *shop) {
	c := s.charge(time.Minute)
	first := s.create(c)
	if second := s.create(c); second != first {
		t.Errorf("repeating the creation gave another address:\n%s\n%s", first, second)
	}
	if got := s.query(c.PaymentNo); got.State != provider.Open {
		t.Errorf("state = %s, want open", got.State)
	}
}

// creationsAtOnce: two tabs, two instances, one payment.
func creationsAtOnce(t *testing.T, s *shop) {
	c := s.charge(time.Minute)
	const callers = 8
	urls, errs := make([]string, callers), make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { urls[i], errs[i] = s.Provider.Create(t.Context(), c) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if all := slices.Compact(slices.Sorted(slices.Values(urls))); len(all) != 1 {
		t.Errorf("eight creations gave %d addresses: %q", len(all), all)
	}
}

// otherAmount: an answer about another amount would be taken for ours.
func otherAmount(t *testing.T, s *shop) {
	c := s.charge(time.Minute)
	s.create(c)
	c.Amount++
	if _, err := s.Provider.Create(t.Context(), c); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("creating the number with another amount gave %v, want ErrRefused", err)
	}
}

// unknown: closing has to work for a creation whose answer was lost, and
// prevent one that arrives afterwards.
func unknown(t *testing.T, s *shop) {
	no := ids.NewFor(7)
	if got := s.query(no); got.State != provider.Missing {
		t.Errorf("state = %s, want missing", got.State)
	}
	if got := s.close(no); got.State != provider.Closed {
		t.Errorf("closing an unknown number gave %s, want closed", got.State)
	}
}

// closing: once an order's units are returned, its payment must stay closed.
func closing(t *testing.T, s *shop) {
	c := s.charge(time.Minute)
	url := s.create(c)
	for range 2 { // closing is repeatable
		if got := s.close(c.PaymentNo); got.State != provider.Closed {
			t.Fatalf("close gave %s, want closed", got.State)
		}
	}
	if err := s.Pay(url); err == nil {
		t.Error("a closed payment took money")
	}
	if got := s.query(c.PaymentNo); got.State != provider.Closed {
		t.Errorf("state = %s, want closed", got.State)
	}
	if _, err := s.Provider.Create(t.Context(), c); !errors.Is(err, provider.ErrClosed) {
		t.Errorf("creating a closed number gave %v, want ErrClosed", err)
	}
}

// capture: every way of reporting it states the same money under the same
// transaction, which is the ledger's key.
func capture(t *testing.T, s *shop) {
	c := s.charge(time.Minute)
	s.pay(s.create(c))
	m := s.next()
	n, err := s.Provider.Parse(m.header, m.body)
	if err != nil {
		t.Fatalf("the company's own callback does not parse: %v", err)
	}
	m.answer <- nil
	if n.Capture == nil || n.Refund != nil {
		t.Fatalf("the callback is not a capture: %+v", n)
	}
	s.isCaptureOf(*n.Capture, c)
	for _, got := range []provider.Status{s.query(c.PaymentNo), s.close(c.PaymentNo)} {
		if got.State != provider.Captured {
			t.Fatalf("state = %s, want captured", got.State)
		}
		s.isCaptureOf(got.Capture, c)
		if got.Capture.Transaction != n.Capture.Transaction {
			t.Errorf("transaction %q, the callback has %q", got.Capture.Transaction, n.Capture.Transaction)
		}
	}
	if _, err := s.Provider.Create(t.Context(), c); !errors.Is(err, provider.ErrClosed) {
		t.Errorf("creating a captured number gave %v, want ErrClosed", err)
	}
}

// payAgainstClose: units are returned because the closing says so, so a payment
// that was reported closed must not be paid, nor a paid one reported closed.
func payAgainstClose(t *testing.T, s *shop) {
	go s.acknowledgeAll()
	for range 20 {
		c := s.charge(time.Minute)
		url := s.create(c)
		var paid error
		var closed provider.Status
		var wg sync.WaitGroup
		wg.Go(func() { paid = s.Pay(url) })
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
	c := s.charge(s.Provider.Profile().MinWindow + time.Second)
	url := s.create(c)
	s.eventually(func() bool { return s.query(c.PaymentNo).State == provider.Closed }, "the payment expires")
	if err := s.Pay(url); err == nil {
		t.Error("an expired payment took money")
	}
}

// repetition: a callback that was not acknowledged is sent again unchanged.
func repetition(t *testing.T, s *shop) {
	c := s.charge(time.Minute)
	s.pay(s.create(c))
	var transactions []string
	for range 3 {
		m := s.next()
		n, err := s.Provider.Parse(m.header, m.body)
		if err != nil || n.Capture == nil {
			t.Fatalf("parse: %+v, %v", n, err)
		}
		transactions = append(transactions, n.Capture.Transaction)
		m.answer <- errors.New("not now")
	}
	if all := slices.Compact(transactions); len(all) != 1 {
		t.Errorf("one capture was reported under %d transactions: %q", len(all), all)
	}
	go s.acknowledgeAll()
}

// tampering: every bit of the body counts, and a refusal differs from an
// acknowledgement.
func tampering(t *testing.T, s *shop) {
	c := s.charge(time.Minute)
	s.pay(s.create(c))
	m := s.next()
	m.answer <- nil
	for i := range m.body {
		touched := slices.Clone(m.body)
		touched[i] ^= 1
		if _, err := s.Provider.Parse(m.header, touched); !errors.Is(err, provider.ErrBadSignature) {
			t.Fatalf("byte %d was changed and Parse returned %v, want ErrBadSignature", i, err)
		}
	}
	if _, err := s.Provider.Parse(m.header, append(slices.Clone(m.body), ' ')); !errors.Is(err, provider.ErrBadSignature) {
		t.Errorf("a byte was added and Parse returned %v", err)
	}
	if _, err := s.Provider.Parse(http.Header{}, m.body); !errors.Is(err, provider.ErrBadSignature) {
		t.Errorf("without headers Parse returned %v, want ErrBadSignature", err)
	}
	for _, err := range []error{provider.ErrBadSignature, provider.ErrUnreadable, errors.New("database down")} {
		if got, ok := s.Provider.Answer(err), s.Provider.Answer(nil); got.Status == ok.Status {
			t.Errorf("answer to %v has status %d, like an acknowledgement", err, got.Status)
		}
	}
}

// refund: repeating the request returns its state.
func refund(t *testing.T, s *shop) {
	c := s.charge(time.Minute)
	s.pay(s.create(c))
	m := s.next()
	m.answer <- nil
	captured := s.query(c.PaymentNo).Capture
	r := s.refundOf(c, captured)
	first, err := s.Provider.Refund(t.Context(), r)
	if err != nil || first.State == provider.Failed {
		t.Fatalf("refund: %+v, %v", first, err)
	}
	m = s.next()
	n, err := s.Provider.Parse(m.header, m.body)
	if err != nil {
		t.Fatalf("the company's own callback does not parse: %v", err)
	}
	m.answer <- nil
	if n.Refund == nil || n.Capture != nil {
		t.Fatalf("the callback is not a refund: %+v", n)
	}
	again, err := s.Provider.Refund(t.Context(), r)
	if err != nil {
		t.Fatalf("the state of the refund cannot be queried: %v", err)
	}
	for _, got := range []provider.RefundStatus{*n.Refund, again} {
		if got.State != provider.Succeeded || got.RefundNo != r.RefundNo || got.PaymentNo != c.PaymentNo || got.Amount != r.Amount ||
			got.Currency != r.Currency || got.Merchant != s.Provider.Profile().Merchant || got.Transaction == "" || got.At.IsZero() {
			t.Errorf("wrong refund: %+v", got)
		}
	}
	if again.Transaction != n.Refund.Transaction {
		t.Errorf("one refund has two transactions: %q, %q", again.Transaction, n.Refund.Transaction)
	}
	// The money is gone: under another number there is none left to refund.
	r.RefundNo = ids.NewFor(7)
	if _, err := s.Provider.Refund(t.Context(), r); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("a second refund of everything gave %v, want ErrRefused", err)
	}
}

// refundTooMuch: a mistake of ours must not cost more than was paid.
func refundTooMuch(t *testing.T, s *shop) {
	go s.acknowledgeAll()
	c := s.charge(time.Minute)
	s.pay(s.create(c))
	r := s.refundOf(c, s.query(c.PaymentNo).Capture)
	r.Amount++
	if _, err := s.Provider.Refund(t.Context(), r); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("a refund beyond the capture gave %v, want ErrRefused", err)
	}
	r.Amount, r.PaymentNo = 1, ids.NewFor(7)
	if _, err := s.Provider.Refund(t.Context(), r); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("a refund of an unknown payment gave %v, want ErrRefused", err)
	}
}
