package stripe_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v84/webhook"
	"go.uber.org/goleak"

	"stampede/payment/provider"
	"stampede/payment/providertest"
	"stampede/payment/sandbox"
	"stampede/payment/sandbox/sandboxtest"
	"stampede/payment/stripe"
	"stampede/payment/stripe/standin"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// shop is a client and the company that it knows.
type shop struct {
	*stripe.Client
	cfg     stripe.Config
	company *standin.Company
	bank    *sandboxtest.Bank
}

func setup(t *testing.T) *shop {
	t.Helper()
	s := &shop{bank: sandboxtest.Open(t)}
	s.company, s.cfg = standin.Pair(s.bank.URL, time.Now, slog.New(slog.DiscardHandler))
	s.bank.Speak(t, s.company)
	s.cfg.Backoff = time.Millisecond
	s.Client = client(t, s.cfg)
	return s
}

func client(t *testing.T, cfg stripe.Config) *stripe.Client {
	t.Helper()
	c := stripe.New(cfg)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func TestConformance(t *testing.T) {
	t.Parallel()
	s := setup(t)
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		t.Helper()
		return s.bank.Subject(t, s.Client, "ISK")
	})
}

// TestUnits compares with the examples in Stripe's documentation.
func TestUnits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		currency      string
		amount, units int64
	}{{"USD", 1000, 1000}, {"JPY", 500, 500}, {"ISK", 5, 500}, {"UGX", 5, 500}, {"KWD", 5120, 5120}, {"KWD", 5124, 0}, {"MGA", 500, 5}, {"MGA", 501, 0}} {
		units, err := stripe.Units(tt.amount, tt.currency)
		back, backErr := stripe.Minor(units, tt.currency)
		if units != tt.units || errors.Is(err, provider.ErrRefused) != (tt.units == 0) || err == nil && (back != tt.amount || backErr != nil) {
			t.Errorf("%d %s is %d to Stripe, %v, and %d back, %v", tt.amount, tt.currency, units, err, back, backErr)
		}
	}
	if got, err := stripe.Minor(4010, "ISK"); err == nil {
		t.Errorf("40.10 ISK is %d", got)
	}
}

func charge() provider.Charge {
	return provider.Charge{
		PaymentNo: ids.NewFor(7), Method: stripe.Card, Title: "a mug", Amount: 100, Currency: "USD",
		ExpiresAt: time.Now().Add(time.Hour), NotifyURL: "https://shop.invalid/notify", ReturnURL: "https://shop.invalid/",
	}
}

func captured() sandbox.Event {
	return sandbox.Event{Payment: sandbox.Payment{
		Ref: ids.New(), No: ids.NewFor(7).String(), Status: sandbox.StatusCaptured, Amount: 100, Captured: 100, Currency: "USD", Transaction: "t1", At: time.Now(),
	}}
}

// TestWhomItBelieves plays what arrives at a callback address that is no secret.
func TestWhomItBelieves(t *testing.T) {
	t.Parallel()
	company, cfg := standin.Pair("http://127.0.0.1", time.Now, slog.New(slog.DiscardHandler))
	c := client(t, cfg)
	text, err := company.Callback(captured())
	require.NoError(t, err)
	signed := func(body, secret string, at time.Time) http.Header {
		s := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: []byte(body), Secret: secret, Timestamp: at})
		return http.Header{stripe.HeaderSignature: {s.Header}}
	}
	for name, tt := range map[string]struct {
		header http.Header
		want   error
	}{
		"genuine":            {signed(string(text), cfg.Secrets[0], time.Now()), nil},
		"five minutes old":   {signed(string(text), cfg.Secrets[0], time.Now().Add(-6*time.Minute)), provider.ErrBadSignature},
		"another secret":     {signed(string(text), "whsec_other", time.Now()), provider.ErrBadSignature},
		"another message":    {signed("{}", cfg.Secrets[0], time.Now()), provider.ErrBadSignature},
		"no time":            {http.Header{stripe.HeaderSignature: {"v1=00"}}, provider.ErrBadSignature},
		"only an old scheme": {http.Header{stripe.HeaderSignature: {strings.Replace(signed(string(text), cfg.Secrets[0], time.Now()).Get(stripe.HeaderSignature), "v1=", "v0=", 1)}}, provider.ErrBadSignature},
	} {
		n, err := c.Parse(tt.header, text)
		if !errors.Is(err, tt.want) || tt.want == nil && (n.Capture == nil || n.Capture.Amount != 100 || n.Capture.Merchant != cfg.Account) {
			t.Errorf("%s: %+v, %v, want %v", name, n, err, tt.want)
		}
	}
	for name, body := range map[string]string{
		"live mode":           strings.Replace(string(text), `"livemode":false,"object":"event"`, `"livemode":true,"object":"event"`, 1),
		"a connected account": strings.Replace(string(text), `{"api_version"`, `{"account":"acct_other","api_version"`, 1),
	} {
		n, err := c.Parse(signed(body, cfg.Secrets[0], time.Now()), []byte(body))
		if err != nil || n.Capture == nil || n.Capture.Merchant == cfg.Account {
			t.Errorf("money of %s passes as ours: %+v, %v", name, n, err)
		}
	}
	for name, body := range map[string]string{
		"an event of no use":                      `{"object":"event","type":"charge.refunded","data":{"object":{}}}`,
		"an expired session":                      strings.ReplaceAll(string(text), "checkout.session.completed", "checkout.session.expired"),
		"a session that is not paid yet":          strings.Replace(string(text), `"payment_status":"paid"`, `"payment_status":"unpaid"`, 1),
		"a refund made in the dashboard":          `{"object":"event","type":"refund.created","data":{"object":{"id":"re_1","object":"refund","metadata":{}}}}`,
		"a session of another use of the account": `{"object":"event","type":"checkout.session.completed","data":{"object":{"mode":"payment","payment_status":"paid","metadata":{}}}}`,
	} {
		if n, err := c.Parse(signed(body, cfg.Secrets[0], time.Now()), []byte(body)); err != nil || n.Capture != nil || n.Refund != nil {
			t.Errorf("%s: %+v, %v, want nothing to do", name, n, err)
		}
	}
}

// TestRolledSecret: while an endpoint's secret is rolled, a shop with either or both of
// them believes the company.
func TestRolledSecret(t *testing.T) {
	t.Parallel()
	company, cfg := standin.Pair("http://127.0.0.1", time.Now, slog.New(slog.DiscardHandler))
	first, second := cfg.Secrets[0], company.Roll()
	text, err := company.Callback(captured())
	require.NoError(t, err)
	h := http.Header{}
	company.Head(h, text)
	for _, secrets := range [][]string{{first}, {second}, {first, second}, {"whsec_older", second}} {
		cfg.Secrets = secrets
		_, err := client(t, cfg).Parse(h, text)
		require.NoError(t, err)
	}
}

// TestLostCreation: a session whose creation was not answered is found, closed and, if it
// was paid, captured, without its reference.
func TestLostCreation(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, paid := range []bool{true, false} {
		c := charge()
		c.NotifyURL, c.ReturnURL = s.bank.URL+"/nowhere", ""
		h, err := s.Create(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, "it has a reference", h.Ref != "", true)
		for range 3 { // others of the same time
			_, err := s.Create(t.Context(), charge())
			require.NoError(t, err)
		}
		lost, want := provider.Payment{No: c.PaymentNo}, provider.Closed
		st, err := s.Query(t.Context(), lost)
		require.NoError(t, err)
		require.Equal(t, "before the payment", st.State, provider.Open)
		if paid {
			require.NoError(t, sandboxtest.Pay(h))
			want = provider.Captured
		}
		st, err = s.Close(t.Context(), lost)
		require.NoError(t, err)
		require.Equal(t, "closed", st.State, want)
		if st, err := s.Query(t.Context(), provider.Payment{No: ids.NewFor(7), Ref: h.Ref}); err == nil {
			t.Errorf("another payment's session was read as %+v", st)
		}
	}
}

// TestRefundAfterTopUp: Stripe repeats a refusal under its key for a day, and the refund is made
// all the same once the balance covers it.
func TestRefundAfterTopUp(t *testing.T) {
	t.Parallel()
	s := setup(t)
	c := charge()
	h, err := s.Create(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, sandboxtest.Pay(h))
	paid, err := s.Query(t.Context(), provider.Payment{No: c.PaymentNo, Ref: h.Ref})
	require.NoError(t, err)
	back := provider.Return{
		RefundNo: ids.NewFor(7), Payment: provider.Payment{No: c.PaymentNo}, Transaction: paid.Capture.Transaction, Amount: 40, Currency: "USD", Reason: "x",
	}
	s.company.Break(true)
	for range 3 {
		if _, err := s.Refund(t.Context(), back); err == nil || errors.Is(err, provider.ErrRefused) || !strings.Contains(err.Error(), "balance_insufficient") {
			t.Fatalf("a refund beyond the balance: %v", err)
		}
	}
	s.company.Break(false)
	made, err := s.Refund(t.Context(), back)
	require.NoError(t, err)
	again, err := s.Refund(t.Context(), back)
	require.NoError(t, err)
	require.Equal(t, "the refund's number", again.Transaction, made.Transaction)
}

// TestWrongKeyDecidesNothing: a refusal of the key is not one of the payment, and shows no
// secret.
func TestWrongKeyDecidesNothing(t *testing.T) {
	t.Parallel()
	var kernel string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kernel += r.Header.Get("X-Stripe-Client-User-Agent")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":{"type":"invalid_request_error","message":"Invalid API Key provided: sk_test_****"}}`))
	}))
	t.Cleanup(srv.Close)
	_, cfg := standin.Pair("http://127.0.0.1", time.Now, slog.New(slog.DiscardHandler))
	cfg.URL, cfg.Backoff = srv.URL, time.Millisecond
	c := client(t, cfg)
	_, created := c.Create(t.Context(), charge())
	_, asked := c.Query(t.Context(), provider.Payment{No: ids.NewFor(7), Ref: "cs_test_1"})
	_, closed := c.Close(t.Context(), provider.Payment{No: ids.NewFor(7)})
	_, refunded := c.Refund(t.Context(), provider.Return{RefundNo: ids.NewFor(7), Transaction: "pi_1", Amount: 1})
	for _, err := range []error{created, asked, closed, refunded} {
		if err == nil || errors.Is(err, provider.ErrRefused) || strings.Contains(err.Error(), cfg.Key) {
			t.Errorf("a refused key gave %v", err)
		}
	}
	require.Equal(t, "what the library says of this machine", kernel, "")
}
