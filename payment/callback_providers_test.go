package payment

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"stampede/order/orderevent"
	"stampede/payment/alipay"
	alipaystandin "stampede/payment/alipay/standin"
	"stampede/payment/paymentevent"
	"stampede/payment/provider"
	"stampede/payment/providertest"
	"stampede/payment/sandbox/sandboxtest"
	"stampede/payment/stripe"
	stripestandin "stampede/payment/stripe/standin"
	"stampede/payment/wechatpay"
	wechatstandin "stampede/payment/wechatpay/standin"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// caller is a provider whose company sends callbacks.
type caller struct {
	providertest.Subject
	silent bool // about refunds: we query them
}

// callers are the providers whose callbacks TestCallbacksOfEveryProvider sends.
func callers(t *testing.T, s *bundle) []caller {
	t.Helper()
	log, bank := slog.New(slog.DiscardHandler), sandboxtest.Open(t)
	weChat, weChatConfig := wechatstandin.Pair(bank.URL, time.Now, log)
	aliPay, aliPayConfig := alipaystandin.Pair(bank.URL, time.Now, log)
	cards, cardsConfig := stripestandin.Pair(bank.URL, time.Now, log)
	bank.Speak(t, weChat, aliPay, cards)
	byWeChat, byAlipay, byCard := wechatpay.New(weChatConfig, clock.System{}), alipay.New(aliPayConfig, clock.System{}), stripe.New(cardsConfig)
	for _, company := range []interface{ CloseIdleConnections() }{byWeChat, byAlipay, byCard} {
		t.Cleanup(company.CloseIdleConnections)
	}
	atAlipay := bank.Subject(t, byAlipay, "CNY")
	atAlipay.Open = sandboxtest.Look
	return []caller{
		{Subject: providertest.Subject{Provider: s.client, Currency: "CNY", Pay: sandboxtest.Pay}},
		{Subject: bank.Subject(t, byWeChat, "CNY")},
		{atAlipay, true},
		{Subject: bank.Subject(t, byCard, "CNY")},
	}
}

// altered is a provider that signed something else: a message for another merchant, in
// another amount or currency. It cannot be queried.
type altered struct {
	provider.Provider
	change func(merchant *string, amount *int64, currency *string)
}

func (a altered) Parse(h http.Header, body []byte) (provider.Notice, error) {
	n, err := a.Provider.Parse(h, body)
	if c := n.Capture; c != nil {
		a.change(&c.Merchant, &c.Amount, &c.Currency)
	}
	if r := n.Refund; r != nil {
		a.change(&r.Merchant, &r.Amount, &r.Currency)
	}
	return n, err
}

func (altered) Query(context.Context, provider.Payment) (provider.Status, error) {
	return provider.Status{}, errors.New("unreachable")
}

// answered hands a callback to an instance and returns the answer as the provider
// reads it.
func answered(svc *Service, name string, cb recorded) provider.Reply {
	mux := chi.NewRouter()
	mux.Post("/{provider}", svc.callback)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, cb.request("/"+name))
	return provider.Reply{Status: w.Code, ContentType: w.Header().Get("Content-Type"), Body: w.Body.Bytes()}
}

func same(a, b provider.Reply) bool {
	return a.Status == b.Status && a.ContentType == b.ContentType && slices.Equal(a.Body, b.Body)
}

// rows is everything that callbacks about an order may change.
func (s *bundle) rows(no ids.ID) string {
	return read[string](s, `SELECT concat_ws(E'\n', (SELECT o::text FROM orders.orders o WHERE o.order_no = $1),
		(SELECT string_agg(p::text, ';' ORDER BY p.payment_no) FROM payments.payments p WHERE p.order_no = $1),
		(SELECT string_agg(l::text, ';') FROM payments.ledger l WHERE l.order_no = $1),
		(SELECT string_agg(r::text, ';' ORDER BY r.refund_no) FROM payments.refunds r WHERE r.order_no = $1),
		(SELECT count(*) FROM platform.outbox WHERE position(convert_to($1::text, 'UTF8') IN payload) > 0))`, no.String())
}

// TestCallbacksOfEveryProvider: of 50 concurrent copies of a callback at two instances
// one has its effect and all get the provider's acknowledgement; the same callback for
// another merchant, in another amount or currency changes nothing and raises an alarm.
func TestCallbacksOfEveryProvider(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	all := callers(t, s)
	var providers []provider.Provider
	for _, subject := range all {
		providers = append(providers, subject.Provider)
	}
	two := []*Service{s.instance(options{}, providers...), s.instance(options{}, providers...)}
	s.door.lose.Store(true)
	for _, subject := range all {
		t.Run(subject.Provider.Profile().Name, func(t *testing.T) {
			s := s.in(t)
			no, user := s.one(100)
			paymentNo := s.paidAt(two[0], subject, no, user)
			cb := s.arrived(subject, func(n provider.Notice) bool { return n.Capture != nil && n.Capture.PaymentNo == paymentNo })
			s.refusesAltered(subject, no, cb)
			s.takesCopies(two, subject, cb)
			s.orderIs(no, orderevent.StatusPaid)
			require.Equal(t, "ledger rows, captured and paid events", [...]int{s.ledger(no, kindCapture), s.events(paymentevent.SubjectCaptured, no), s.events(orderevent.SubjectPaid, no)}, [...]int{1, 1, 1})

			no, user = s.one(100)
			paymentNo = s.paidAt(two[0], subject, no, user)
			cb = s.arrived(subject, func(n provider.Notice) bool { return n.Capture != nil && n.Capture.PaymentNo == paymentNo })
			s.closeBehindTheBank(no, user)
			s.takesCopies(two, subject, cb)
			if subject.silent {
				on := s.in(t)
				on.Service = two[0]
				on.refundsDone(no)
			} else {
				s.round(two[0].refundDue)
				cb = s.arrived(subject, func(n provider.Notice) bool { return n.Refund != nil && n.Refund.PaymentNo == paymentNo })
				s.refusesAltered(subject, no, cb)
				s.takesCopies(two, subject, cb)
			}
			require.Equal(t, "refund", s.refundOf(no), "late succeeded")
			s.orderIs(no, orderevent.StatusClosed)
			require.Equal(t, "captures, refunds and refunded events", [...]int{s.ledger(no, kindCapture), s.ledger(no, kindRefund), s.events(paymentevent.SubjectRefunded, no)}, [...]int{1, 1, 1})
			s.booksAreRight()
		})
	}
}

// paidAt pays an order at the provider's company, whose callback is lost.
func (s *bundle) paidAt(svc *Service, subject caller, no ids.ID, user int64) ids.ID {
	s.t.Helper()
	profile := subject.Provider.Profile()
	s.exec(`UPDATE orders.orders SET currency = $2, pay_deadline = clock_timestamp() + $3::interval WHERE order_no = $1`,
		no, subject.Currency, profile.MinWindow+time.Hour)
	p, err := svc.begin(s.t.Context(), no, user, way{Provider: profile.Name})
	require.NoError(s.t, err)
	if subject.Open != nil {
		err = subject.Open(p.Handoff)
	}
	require.NoError(s.t, errors.Join(err, subject.Pay(p.Handoff)))
	return p.PaymentNo
}

// arrived waits for a callback of the provider's company.
func (s *bundle) arrived(subject caller, is func(provider.Notice) bool) (cb recorded) {
	s.t.Helper()
	s.until("the callback", func() bool {
		came := s.door.callbacks()
		i := slices.IndexFunc(came, func(c recorded) bool {
			n, err := subject.Provider.Parse(c.header, c.body)
			return err == nil && is(n)
		})
		if i >= 0 {
			cb = came[i]
		}
		return i >= 0
	})
	return cb
}

func (s *bundle) takesCopies(instances []*Service, subject caller, cb recorded) {
	s.t.Helper()
	const copies = 50
	name := subject.Provider.Profile().Name
	ok := subject.Provider.Answer(nil)
	var wg sync.WaitGroup
	for i := range copies {
		wg.Go(func() {
			if got := answered(instances[i%len(instances)], name, cb); !same(got, ok) {
				s.t.Errorf("a copy is answered %d %q, want %d %q", got.Status, got.Body, ok.Status, ok.Body)
			}
		})
	}
	wg.Wait()
}

func (s *bundle) refusesAltered(subject caller, no ids.ID, cb recorded) {
	s.t.Helper()
	name := subject.Provider.Profile().Name
	ok := subject.Provider.Answer(nil)
	for _, tt := range []struct {
		what   string
		alarm  string
		change func(merchant *string, amount *int64, currency *string)
	}{
		{"another merchant", "payment-foreign-merchant", func(m *string, _ *int64, _ *string) { *m = "another shop" }},
		{"a larger amount", "payment-mismatch", func(_ *string, a *int64, _ *string) { *a++ }},
		{"a smaller amount", "payment-mismatch", func(_ *string, a *int64, _ *string) { *a-- }},
		{"another currency", "payment-mismatch", func(_ *string, _ *int64, c *string) { *c = "KRW" }},
	} {
		raised := func() int {
			return read[int](s, `SELECT coalesce(sum(count), 0) FROM platform.alarms WHERE code = $1`, tt.alarm)
		}
		rows, alarms := s.rows(no), raised()
		if got := answered(s.instance(options{}, altered{subject.Provider, tt.change}), name, cb); same(got, ok) {
			s.t.Errorf("%s is acknowledged", tt.what)
		}
		require.Equal(s.t, tt.what+" changes rows", s.rows(no), rows)
		require.Equal(s.t, tt.what+" raises alarms", raised()-alarms, 1)
	}
}
