package payment

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// yuanOnly is a provider with two methods and one currency.
type yuanOnly struct{ provider.Provider }

func (yuanOnly) Profile() provider.Profile {
	return provider.Profile{
		Name: "yuan", Merchant: "m", Methods: []provider.Method{"native", "jsapi"}, MinWindow: 1, Currencies: []string{"CNY"},
		Kinds: map[provider.Method]provider.Kind{"native": provider.Scan, "jsapi": provider.InApp},
	}
}

func waysToPayAreListed(t *testing.T, s *bundle) {
	a := s.get(0, "/api/v1/payment-methods")
	list, _ := a.Doc["methods"].([]any)
	require.Equal(t, "ways to pay", len(list), 1)
	if m, _ := list[0].(map[string]any); m["provider"] != "sandbox" || m["method"] != "page" || m["kind"] != "redirect" || m["least_seconds"] != 1.0 || m["currencies"] != nil {
		t.Errorf("%v", m)
	}
	no, user := s.one(100)
	for _, body := range []string{`{"provider":"bitcoin"}`, `{"provider":"sandbox","method":"cash"}`, `{"method":"cash"}`} {
		a := s.post(user, "/api/v1/orders/"+no.String()+"/payments", body)
		if a.Status != http.StatusUnprocessableEntity || !strings.Contains(a.Text("detail"), "sandbox (page)") {
			t.Errorf("%s: %d %q does not name the ways", body, a.Status, a.Text("detail"))
		}
	}
	shop := s.instance(options{}, yuanOnly{s.client}, s.client)
	dollars, buyer := s.one(100)
	s.exec(`UPDATE orders.orders SET currency = 'USD' WHERE order_no = $1`, dollars)
	p, err := shop.begin(t.Context(), dollars, buyer, way{})
	require.NoError(t, err)
	require.Equal(t, "who is paid in dollars", p.Provider, "sandbox")
	_, err = shop.begin(t.Context(), no, user, way{Provider: "yuan"})
	require.NoError(t, err)
	second, other := s.one(100)
	s.exec(`UPDATE orders.orders SET currency = 'USD' WHERE order_no = $1`, second)
	_, err = shop.begin(t.Context(), second, other, way{Provider: "yuan"})
	require.Equal(t, "dollars by a way that takes yuan only", fault.From(err).Kind, fault.Invalid)
}

// profiled is a provider that says something else of itself.
type profiled struct {
	provider.Provider
	profile provider.Profile
}

func (p profiled) Profile() provider.Profile { return p.profile }

// Whatever refuses a shopper's choice does so before the open payment is closed, at
// which the shopper may be paying.
func aRefusedChoiceKeepsTheOpenPayment(t *testing.T, s *bundle) {
	page := []provider.Method{"page"}
	shop := s.instance(options{}, s.client,
		profiled{s.client, provider.Profile{Name: "app", Methods: []provider.Method{"page", "jsapi"}, Logins: map[provider.Method]string{"jsapi": "wx1"}}},
		profiled{s.client, provider.Profile{Name: "dollars", Methods: page, Currencies: []string{"USD"}}},
		profiled{s.client, provider.Profile{Name: "slow", Methods: page, MinWindow: time.Hour}})
	no, user := s.one(100)
	p, err := shop.begin(t.Context(), no, user, way{})
	require.NoError(t, err)
	unknown := ids.NewFor(user).String()
	for name, by := range map[string]way{
		"no login with the app":     {Provider: "app", Method: "jsapi"},
		"a method that needs one":   {Method: "jsapi"},
		"another currency":          {Provider: "dollars"},
		"too little time":           {Provider: "slow"},
		"no such provider":          {Provider: "bitcoin"},
		"no such method":            {Method: "cash"},
		"a coupon that is not ours": {Provider: "app", Coupon: &unknown},
	} {
		_, err := shop.begin(t.Context(), no, user, by)
		if _, refused := errors.AsType[*fault.Error](err); !refused || fault.From(err).Kind == fault.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
		require.Equal(t, name+": the open payment", s.paymentStatus(p.PaymentNo), "created")
	}
	require.Equal(t, "payments begun", read[int](s, `SELECT count(*) FROM payments.payments WHERE order_no = $1`, no), 1)
	shop.deps.OpenID = func(_ context.Context, of int64, app string) (string, error) {
		if of != user || app != "wx1" {
			t.Errorf("asked for the name of %d in %q", of, app)
		}
		return "o-1", nil
	}
	p, err = shop.begin(t.Context(), no, user, way{Provider: "app", Method: "jsapi"})
	require.NoError(t, err)
	require.Equal(t, "with a login", []any{p.Provider, p.Method}, []any{"app", provider.Method("jsapi")})
}

// referring is a company that names payments itself: it returns a reference, and counts the
// later calls, which have to name the payment by it.
type referring struct {
	provider.Provider
	t     *testing.T
	calls sync.Map // by name
}

func referenceOf(no ids.ID) string { return "cs_" + no.String() }

func (r *referring) named(call string, p provider.Payment) {
	if r.calls.Store(call, true); p.Ref != referenceOf(p.No) {
		r.t.Errorf("%s names the payment %q", call, p.Ref)
	}
}

func (r *referring) Create(ctx context.Context, c provider.Charge) (provider.Handoff, error) {
	h, err := r.Provider.Create(ctx, c)
	h.Ref = referenceOf(c.PaymentNo)
	return h, err
}

func (r *referring) Query(ctx context.Context, p provider.Payment) (provider.Status, error) {
	r.named("query", p)
	return r.Provider.Query(ctx, p)
}

func (r *referring) Close(ctx context.Context, p provider.Payment) (provider.Status, error) {
	r.named("close", p)
	return r.Provider.Close(ctx, p)
}

func (r *referring) Refund(ctx context.Context, ret provider.Return) (provider.RefundStatus, error) {
	r.named("refund", ret.Payment)
	return r.Provider.Refund(ctx, ret)
}

// TestProvidersReferenceReachesEveryCall: what Create returned as Handoff.Ref comes back
// in each later call about that payment.
func TestProvidersReferenceReachesEveryCall(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	bank := &referring{Provider: s.client, t: t}
	shop := s.instance(options{}, bank)
	s.door.lose.Store(true)
	no, user := s.one(100)
	p, err := shop.begin(t.Context(), no, user, way{})
	require.NoError(t, err)
	s.until("the open payment is queried", func() bool {
		_, err := shop.queryDue(t.Context())
		_, asked := bank.calls.Load("query")
		return err == nil && asked
	})
	s.payAt(p.Handoff.URL, sandbox.Normal)
	s.exec(`UPDATE orders.orders SET status = 'closed' WHERE order_no = $1`, no)
	_, err = shop.CloseOpen(t.Context(), []ids.ID{no})
	require.NoError(t, err)
	s.until("the late money is refunded", func() bool {
		_, err := shop.refundDue(t.Context())
		return err == nil && s.refundOf(no) == "late succeeded"
	})
	_, closed := bank.calls.Load("close")
	require.Equal(t, "the payment was closed", closed, true)
}
