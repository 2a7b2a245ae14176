package alipay_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"stampede/payment/alipay"
	"stampede/payment/alipay/standin"
	"stampede/payment/internal/company"
	"stampede/payment/provider"
	"stampede/payment/providertest"
	"stampede/payment/sandbox"
	"stampede/payment/sandbox/sandboxtest"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// shop is a client and the company that it knows.
type shop struct {
	*alipay.Client
	cfg     alipay.Config
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

func client(t *testing.T, cfg alipay.Config) *alipay.Client {
	t.Helper()
	c := alipay.New(cfg, clock.System{})
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func TestConformance(t *testing.T) {
	t.Parallel()
	s := setup(t)
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		t.Helper()
		subject := s.bank.Subject(t, s.Client, "CNY")
		subject.Open = sandboxtest.Look
		return subject
	})
}

func charge() provider.Charge {
	return provider.Charge{
		PaymentNo: ids.NewFor(7), Method: alipay.Page, Title: "一分钱的 “mug”", Amount: 100, Currency: "CNY",
		ExpiresAt: time.Now().Add(10 * time.Minute), NotifyURL: "https://shop.invalid/notify",
	}
}

// TestRefundedInFullWasCaptured: Alipay calls such a trade closed, like one that was
// never paid.
func TestRefundedInFullWasCaptured(t *testing.T) {
	t.Parallel()
	s := setup(t)
	c := charge()
	h, err := s.Create(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, sandboxtest.Pay(h))
	of := provider.Payment{No: c.PaymentNo}
	r := provider.Return{RefundNo: ids.NewFor(7), Payment: of, Amount: c.Amount, Captured: c.Amount, Currency: "CNY", Reason: "late"}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		st, err := s.Refund(t.Context(), r)
		return err == nil && st.State == provider.Succeeded
	}, "the refund is made")
	if st, err := s.Query(t.Context(), of); err != nil || st.State != provider.Captured || st.Capture.Amount != c.Amount {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestOnlyYuan(t *testing.T) {
	t.Parallel()
	c := charge()
	c.Currency = "USD"
	_, cfg := standin.Pair("http://127.0.0.1", time.Now, slog.New(slog.DiscardHandler))
	_, err := client(t, cfg).Create(t.Context(), c)
	require.ErrorIs(t, err, provider.ErrRefused)
}

// TestWhomItBelieves plays what arrives at a callback address that is no secret.
func TestWhomItBelieves(t *testing.T) {
	t.Parallel()
	company, cfg := standin.Pair("http://127.0.0.1", time.Now, slog.New(slog.DiscardHandler))
	c := client(t, cfg)
	captured := sandbox.Event{Payment: sandbox.Payment{
		No: ids.NewFor(7).String(), Status: sandbox.StatusCaptured, Amount: 100, Captured: 100, Currency: "CNY", Transaction: "t1", At: time.Now(),
	}}
	body := func(change func(url.Values)) []byte {
		text, err := company.Callback(captured)
		require.NoError(t, err)
		p, err := url.ParseQuery(string(text))
		require.NoError(t, err)
		change(p)
		return []byte(p.Encode())
	}
	if n, err := c.Parse(nil, body(func(url.Values) {})); err != nil || n.Capture == nil || n.Capture.Amount != 100 {
		t.Fatalf("genuine: %+v, %v", n, err)
	}
	other, _ := standin.Pair("http://127.0.0.1", time.Now, slog.New(slog.DiscardHandler))
	foreign, err := other.Callback(captured)
	require.NoError(t, err)
	for name, text := range map[string][]byte{
		"another amount":      body(func(p url.Values) { p.Set("total_amount", "0.01") }),
		"another order":       body(func(p url.Values) { p.Set("out_trade_no", ids.NewFor(8).String()) }),
		"a second amount":     body(func(p url.Values) { p.Add("total_amount", "0.01") }),
		"one parameter more":  body(func(p url.Values) { p.Set("a", "b") }),
		"one parameter less":  body(func(p url.Values) { p.Del("seller_id") }),
		"no signature":        body(func(p url.Values) { p.Del("sign") }),
		"another company's":   foreign,
		"a request of ours":   []byte("app_id=1&sign=x"),
		"a half-written form": []byte("a=%zz"),
	} {
		if n, err := c.Parse(http.Header{}, text); !errors.Is(err, provider.ErrBadSignature) {
			t.Errorf("%s: %+v, %v, want ErrBadSignature", name, n, err)
		}
	}
	elsewhere := cfg
	elsewhere.App = "another app of the same company"
	if n, err := client(t, elsewhere).Parse(nil, body(func(url.Values) {})); err != nil || n.Capture.Merchant == cfg.Seller {
		t.Errorf("money of another app passes as ours: %+v, %v", n, err)
	}
}

// TestRepliesThatAreNoAnswer: a reply that Alipay did not sign decides nothing.
func TestRepliesThatAreNoAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	_, stranger := standin.Pair("http://127.0.0.1", time.Now, slog.New(slog.DiscardHandler))
	var unsigned atomic.Pointer[map[string]any]
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reply := unsigned.Load(); reply != nil {
			_ = json.NewEncoder(w).Encode(reply)
			return
		}
		text, _ := alipay.SignReply(stranger.Key, r.PostFormValue("method"), alipay.Reply{Code: alipay.CodeFailed, SubCode: "ACQ.TRADE_NOT_EXIST"})
		_, _ = w.Write(text)
	}))
	t.Cleanup(srv.Close)
	cfg := s.cfg
	cfg.URL = srv.URL
	c := client(t, cfg)
	of := provider.Payment{No: ids.NewFor(7)}
	_, asked := c.Query(t.Context(), of)
	_, closed := c.Close(t.Context(), of)
	_, refunded := c.Refund(t.Context(), provider.Return{RefundNo: ids.NewFor(7), Payment: of, Amount: 1, Captured: 1, Currency: "CNY"})
	for _, err := range []error{asked, closed, refunded} {
		if err == nil || errors.Is(err, provider.ErrRefused) {
			t.Errorf("a reply signed by another key gave %v", err)
		}
	}
	// The gateway signs no refusal of an app that it does not know; that is a mistake of ours that a person repairs.
	for _, name := range []string{"error_response", alipay.ReplyName(alipay.MethodClose)} {
		unsigned.Store(&map[string]any{name: alipay.Reply{Code: "40002", SubCode: "isv.invalid-app-id"}})
		if st, err := client(t, cfg).Close(t.Context(), of); err == nil || !strings.Contains(err.Error(), "40002 isv.invalid-app-id") {
			t.Errorf("an unsigned refusal gave %+v, %v", st, err)
		}
	}
}

func TestYuan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fen := rapid.Int64Range(0, 1e13).Draw(t, "fen")
		got, err := company.ParseYuan(company.Yuan(fen))
		require.NoError(t, err)
		require.Equal(t, company.Yuan(fen), got, fen)
	})
	for text, want := range map[string]int64{"1": 100, "0.5": 50, "12.30": 1230, "0.01": 1} {
		got, err := company.ParseYuan(text)
		require.NoError(t, err)
		require.Equal(t, text, got, want)
	}
	for _, text := range []string{"", "-1", "+1", "1.234", "1,00", "01", "1e3", ".5", "1.", "999999999999999", "１"} {
		if got, err := company.ParseYuan(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}
