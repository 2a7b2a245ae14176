package providertest

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
)

// shop is the merchant's side of a test: it receives the company's callbacks
// and answers them as the test says.
type shop struct {
	Subject
	t        *testing.T
	url      string
	messages chan message
	refs     sync.Map // of ids.ID to Handoff.Ref
}

// message is a callback that waits for its answer: the outcome of handling it.
type message struct {
	header http.Header
	body   []byte
	answer chan<- error
}

// newShop serves a notify URL whose callbacks wait until the test takes them.
func newShop(t *testing.T, subject Subject) *shop {
	t.Helper()
	s := &shop{Subject: subject, t: t, messages: make(chan message)}
	over := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		answer := make(chan error, 1)
		select {
		case s.messages <- message{r.Header, body, answer}:
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
		select {
		case err = <-answer:
		case <-over:
			return
		}
		reply := s.Provider.Answer(err)
		w.Header().Set("Content-Type", reply.ContentType)
		w.WriteHeader(reply.Status)
		_, _ = w.Write(reply.Body)
	}))
	t.Cleanup(func() {
		close(over)
		srv.Close()
	})
	s.url = srv.URL
	return s
}

// next returns the next callback and what it says.
func (s *shop) next() (message, provider.Notice) {
	s.t.Helper()
	select {
	case m := <-s.messages:
		n, err := s.Provider.Parse(m.header, m.body)
		if err != nil {
			s.t.Fatalf("the company's own callback does not parse: %v", err)
		}
		return m, n
	case <-time.After(patience):
		s.t.Fatal("no callback came")
		return message{}, provider.Notice{}
	}
}

// acknowledgeAll answers every further callback until the test ends.
func (s *shop) acknowledgeAll() { s.each(func(message) {}) }

// each reads and acknowledges every further callback until the test ends.
func (s *shop) each(read func(message)) {
	for {
		select {
		case m := <-s.messages:
			read(m)
			m.answer <- nil
		case <-s.t.Context().Done():
			return
		}
	}
}

func (s *shop) charge() provider.Charge {
	return provider.Charge{
		PaymentNo: ids.NewFor(7), Method: s.Provider.Profile().Methods[0], Title: "一分钱的 “mug”, with <angle> brackets & more", Amount: 1299, Currency: s.Currency,
		ExpiresAt: time.Now().Add(s.Provider.Profile().MinWindow + time.Minute), NotifyURL: s.url,
	}
}

func (s *shop) refundOf(c provider.Charge, captured provider.Capture) provider.Return {
	return provider.Return{
		RefundNo: ids.NewFor(7), Payment: s.known(c.PaymentNo), Transaction: captured.Transaction, Amount: c.Amount, Captured: captured.Amount,
		Currency: c.Currency, Reason: "late", NotifyURL: s.url,
	}
}

// create opens a payment and keeps its reference, as the shop's row does.
func (s *shop) create(c provider.Charge) provider.Handoff {
	s.t.Helper()
	h, err := s.Provider.Create(s.t.Context(), c)
	if err != nil || !h.Is(s.Provider.Profile().Kind(c.Method)) {
		s.t.Fatalf("create: %+v, %v, want a handoff of the kind %s", h, err, s.Provider.Profile().Kind(c.Method))
	}
	s.refs.Store(c.PaymentNo, h.Ref)
	return h
}

// open makes sure that the company knows the payment.
func (s *shop) open(h provider.Handoff) {
	s.t.Helper()
	if s.Open == nil {
		return
	}
	if err := s.Open(h); err != nil {
		s.t.Fatalf("open: %v", err)
	}
}

// takesNoMore tries to create a number that has ended and to pay it: the company
// refuses one or the other.
func (s *shop) takesNoMore(c provider.Charge) {
	s.t.Helper()
	before := s.query(c.PaymentNo)
	h, err := s.Provider.Create(s.t.Context(), c)
	if err == nil {
		_ = s.Pay(h)
	} else if !errors.Is(err, provider.ErrClosed) {
		s.t.Errorf("creating a number that has ended gave %v, want ErrClosed", err)
	}
	if after := s.query(c.PaymentNo); after != before {
		s.t.Errorf("after another creation the payment is %+v, was %+v", after, before)
	}
}

// known is a payment as the shop's row names it.
func (s *shop) known(no ids.ID) provider.Payment {
	ref, _ := s.refs.Load(no)
	text, _ := ref.(string)
	return provider.Payment{No: no, Ref: text}
}

// paid is a payment that a shopper makes.
func (s *shop) paid() provider.Charge {
	s.t.Helper()
	c := s.charge()
	if err := s.Pay(s.create(c)); err != nil {
		s.t.Fatalf("pay: %v", err)
	}
	return c
}

// query and close use Error, not Fatal: tests call them from goroutines.
func (s *shop) query(no ids.ID) provider.Status {
	s.t.Helper()
	got, err := s.Provider.Query(s.t.Context(), s.known(no))
	if err != nil {
		s.t.Errorf("query: %v", err)
	}
	return got
}

func (s *shop) close(no ids.ID) provider.Status {
	s.t.Helper()
	got, err := s.Provider.Close(s.t.Context(), s.known(no))
	if err != nil {
		s.t.Errorf("close: %v", err)
	}
	return got
}

// is requires one of the states.
func (s *shop) is(got provider.Status, want ...provider.State) {
	s.t.Helper()
	if !slices.Contains(want, got.State) {
		s.t.Fatalf("state = %s, want %v", got.State, want)
	}
}

// captured is the money of a payment, which has to be what was charged.
func (s *shop) captured(got provider.Status, c provider.Charge) provider.Capture {
	s.t.Helper()
	s.is(got, provider.Captured)
	s.isCaptureOf(got.Capture, c)
	return got.Capture
}

// refunded requests a refund until it is made.
func (s *shop) refunded(r provider.Return) (got provider.RefundStatus) {
	s.t.Helper()
	s.eventually(func() bool {
		var err error
		if got, err = s.Provider.Refund(s.t.Context(), r); err != nil || got.State == provider.Failed {
			s.t.Fatalf("refund: %+v, %v", got, err)
		}
		return got.State == provider.Succeeded
	}, "the refund succeeds")
	s.isRefundOf(got, r)
	return got
}

func (s *shop) isCaptureOf(got provider.Capture, c provider.Charge) {
	s.t.Helper()
	if got.PaymentNo != c.PaymentNo || got.Amount != c.Amount || got.Currency != c.Currency || got.Transaction == "" ||
		got.At.IsZero() || got.Merchant != s.Provider.Profile().Merchant {
		s.t.Errorf("wrong capture: %+v, charged %+v", got, c)
	}
}

func (s *shop) isRefundOf(got provider.RefundStatus, r provider.Return) {
	s.t.Helper()
	if got.State != provider.Succeeded || got.RefundNo != r.RefundNo || got.PaymentNo != r.Payment.No || got.Amount != r.Amount ||
		got.Currency != r.Currency || got.Merchant != s.Provider.Profile().Merchant || got.At.IsZero() {
		s.t.Errorf("wrong refund: %+v", got)
	}
}

// eventually polls with growing pauses, as every query may be a real call.
func (s *shop) eventually(cond func() bool, what string) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for pause := 20 * time.Millisecond; !cond(); pause *= 2 {
		if time.Now().After(deadline) {
			s.t.Fatalf("did not happen within %v: %s", patience, what)
		}
		<-time.After(min(pause, 500*time.Millisecond))
	}
}
