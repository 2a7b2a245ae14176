package wechatpay_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/goleak"

	"stampede/payment/internal/company"
	"stampede/payment/provider"
	"stampede/payment/providertest"
	"stampede/payment/sandbox"
	"stampede/payment/sandbox/sandboxtest"
	"stampede/payment/wechatpay"
	"stampede/payment/wechatpay/standin"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// shop is a client and the company that it knows.
type shop struct {
	*wechatpay.Client
	cfg     wechatpay.Config
	company *standin.Company
	bank    *sandboxtest.Bank
	skew    atomic.Int64 // of the company's clock
}

func setup(t *testing.T) *shop {
	t.Helper()
	s := &shop{bank: sandboxtest.Open(t)}
	now := func() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) }
	s.company, s.cfg = standin.Pair(s.bank.URL, now, slog.New(slog.DiscardHandler))
	s.bank.Speak(t, s.company)
	s.cfg.Backoff = time.Millisecond
	s.Client = s.client(t, s.cfg)
	return s
}

func (s *shop) client(t *testing.T, cfg wechatpay.Config) *wechatpay.Client {
	t.Helper()
	c := wechatpay.New(cfg, clock.System{})
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func charge() provider.Charge {
	return provider.Charge{
		PaymentNo: ids.NewFor(7), Method: wechatpay.Native, Title: strings.Repeat("限量版跑鞋", 20), Amount: 100, Currency: "CNY",
		ExpiresAt: time.Now().Add(10 * time.Minute), NotifyURL: "https://shop.invalid/notify", ReturnURL: "https://shop.invalid/?order=1&x=2",
		Address: netip.MustParseAddr("203.0.113.9"), OpenID: func(context.Context, string) (string, error) { return "o-1", nil },
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	s := setup(t)
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		t.Helper()
		return s.bank.Subject(t, s.Client, "CNY")
	})
}

func TestMethods(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, method := range s.Profile().Methods {
		c := charge()
		c.Method = method
		h, err := s.Create(t.Context(), c)
		require.NoError(t, err)
		most := map[provider.Method]time.Duration{wechatpay.H5: 5 * time.Minute}
		if left := time.Until(h.Until); left <= 0 || left >= cmp.Or(most[method], 2*time.Hour) {
			t.Errorf("%s: usable for %s", method, left)
		}
		switch method {
		case wechatpay.Native:
			if h.QR == "" || h.URL != "" {
				t.Errorf("native: %+v", h)
			}
		case wechatpay.H5:
			if !strings.HasSuffix(h.URL, "&redirect_url=https%3A%2F%2Fshop.invalid%2F%3Forder%3D1%26x%3D2") {
				t.Errorf("h5: %+v", h)
			}
		case wechatpay.JSAPI:
			p := h.JSAPI
			if err := wechatpay.Verify(&s.cfg.Key.PublicKey, p["paySign"], s.cfg.App, p["timeStamp"], p["nonceStr"], p["package"]); err != nil || p["signType"] != "RSA" {
				t.Errorf("jsapi: %+v, %v", h, err)
			}
		}
	}
	c := charge()
	c.Method, c.OpenID = wechatpay.JSAPI, nil
	_, err := s.Create(t.Context(), c)
	require.ErrorIs(t, err, provider.ErrNoLogin)
	c = charge()
	c.ExpiresAt = time.Now().Add(30 * time.Second)
	_, err = s.Create(t.Context(), c)
	require.ErrorIs(t, err, provider.ErrRefused)
}

// capture is the company's callback about a capture.
func (s *shop) capture(t *testing.T) []byte {
	t.Helper()
	body, err := s.company.Callback(sandbox.Event{Payment: sandbox.Payment{
		No: ids.NewFor(7).String(), Status: sandbox.StatusCaptured, Amount: 100, Captured: 100, Currency: "CNY", Transaction: "t1", At: time.Now(),
	}})
	require.NoError(t, err)
	return body
}

// TestWhomItBelieves plays what arrives at a callback address that everybody can find.
func TestWhomItBelieves(t *testing.T) {
	t.Parallel()
	s := setup(t)
	body := s.capture(t)
	signed := func(change func(http.Header)) http.Header {
		h := http.Header{}
		s.company.Head(h, body)
		change(h)
		return h
	}
	genuine := signed(func(http.Header) {})
	if n, err := s.Parse(genuine, body); err != nil || n.Capture == nil || n.Capture.Amount != 100 {
		t.Fatalf("genuine: %+v, %v", n, err)
	}
	s.company.Rotate()
	for _, h := range []http.Header{signed(func(http.Header) {}), genuine} { // by the new key, and by the one before
		_, err := s.Parse(h, body)
		require.NoError(t, err)
	}
	other, _ := standin.Pair("http://127.0.0.1", time.Now, slog.New(slog.DiscardHandler))
	for name, h := range map[string]http.Header{
		"a probe": signed(func(h http.Header) {
			h.Set(wechatpay.HeaderSignature, "WECHATPAY/SIGNTEST/"+h.Get(wechatpay.HeaderSignature))
		}),
		"an unknown key":      signed(func(h http.Header) { h.Set(wechatpay.HeaderSerial, "PUB_KEY_ID_OTHER") }),
		"another known key":   signed(func(h http.Header) { h.Set(wechatpay.HeaderSerial, "PUB_KEY_ID_PRACTICE_0") }),
		"another nonce":       signed(func(h http.Header) { h.Set(wechatpay.HeaderNonce, "n") }),
		"another time":        signed(func(h http.Header) { h.Set(wechatpay.HeaderTimestamp, "1") }),
		"no time":             signed(func(h http.Header) { h.Del(wechatpay.HeaderTimestamp) }),
		"another company's":   func() http.Header { h := http.Header{}; other.Head(h, body); return h }(),
		"six minutes old":     func() http.Header { s.skew.Store(int64(-6 * time.Minute)); return signed(func(http.Header) {}) }(),
		"six minutes ahead":   func() http.Header { s.skew.Store(int64(6 * time.Minute)); return signed(func(http.Header) {}) }(),
		"no signature at all": {},
	} {
		if _, err := s.Parse(h, body); !errors.Is(err, provider.ErrBadSignature) {
			t.Errorf("%s: %v, want ErrBadSignature", name, err)
		}
	}
	s.skew.Store(0)
	for name, text := range map[string]string{"not JSON": "x", "another event": `{"event_type":"COUPON.USE"}`, "no resource": `{"event_type":"TRANSACTION.SUCCESS"}`} {
		h := http.Header{}
		s.company.Head(h, []byte(text))
		if _, err := s.Parse(h, []byte(text)); !errors.Is(err, provider.ErrUnreadable) {
			t.Errorf("%s: %v, want ErrUnreadable", name, err)
		}
	}
}

// TestRepliesThatAreNoAnswer: a reply that WeChat Pay did not sign decides nothing.
func TestRepliesThatAreNoAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	of := provider.Payment{No: ids.NewFor(7)}
	cfg := s.cfg
	for _, failing := range []int{0, http.StatusTooManyRequests, http.StatusInternalServerError} { // 0: the status that goes with the body
		mux := chi.NewRouter()
		forged := func(status int, v any) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(cmp.Or(failing, status))
				_ = json.NewEncoder(w).Encode(v)
			}
		}
		mux.Get("/v3/pay/transactions/out-trade-no/{no}", forged(http.StatusOK, wechatpay.Transaction{TradeState: wechatpay.TradeClosed}))
		mux.Post("/v3/pay/transactions/out-trade-no/{no}/close", forged(http.StatusNotFound, wechatpay.Problem{Code: "ORDER_NOT_EXIST"}))
		mux.Post("/v3/refund/domestic/refunds", forged(http.StatusBadRequest, wechatpay.Problem{Code: "PARAM_ERROR"}))
		srv := httptest.NewServer(mux)
		t.Cleanup(srv.Close)
		cfg.URL = srv.URL
		c := s.client(t, cfg)
		_, asked := c.Query(t.Context(), of)
		_, closed := c.Close(t.Context(), of)
		_, refunded := c.Refund(t.Context(), provider.Return{RefundNo: ids.NewFor(7), Payment: of, Amount: 1, Captured: 1, Currency: "CNY"})
		for _, err := range []error{asked, closed, refunded} {
			if err == nil || errors.Is(err, provider.ErrRefused) || errors.Is(err, provider.ErrClosed) {
				t.Errorf("an unsigned reply, with status %d, gave %v", failing, err)
			}
		}
	}
	// The company refuses a merchant whose key it does not know; that is a mistake of ours that a person repairs.
	_, cfg = standin.Pair(s.bank.URL, time.Now, slog.New(slog.DiscardHandler))
	cfg.Peers, cfg.Backoff = s.cfg.Peers, time.Millisecond
	if _, err := s.client(t, cfg).Query(t.Context(), of); err == nil || errors.Is(err, provider.ErrRefused) || !strings.Contains(err.Error(), "SIGN_ERROR") {
		t.Errorf("with another key of ours: %v", err)
	}
}

// TestBillsThatAreAlteredOrCutOff: a bill is read while it arrives, and believed at its end.
func TestBillsThatAreAlteredOrCutOff(t *testing.T) {
	t.Parallel()
	s := setup(t)
	c := charge()
	h, err := s.Create(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, sandboxtest.Pay(h))
	s.bank.Backdate(t, c.PaymentNo, 72*time.Hour)
	st, err := s.Query(t.Context(), provider.Payment{No: c.PaymentNo})
	require.NoError(t, err)
	day := provider.DayOf(st.Capture.At, company.China)
	for name, change := range map[string]func([]byte) []byte{
		"":            func(b []byte) []byte { return b },
		"another sum": func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("`1.00"), []byte("`9.00")) },
		"cut off":     func(b []byte) []byte { return b[:len(b)/2] },
	} {
		target, err := url.Parse(s.bank.URL)
		require.NoError(t, err)
		proxy := httputil.NewSingleHostReverseProxy(target)
		proxy.ModifyResponse = func(r *http.Response) error {
			if strings.Contains(r.Request.URL.Path, "billdownload") {
				text, err := io.ReadAll(r.Body)
				text = change(text)
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
				r.Header.Set("Content-Length", strconv.Itoa(len(text)))
				return err
			}
			return nil
		}
		srv := httptest.NewServer(proxy)
		cfg := s.cfg
		cfg.URL = srv.URL + standin.Prefix
		lines, failed := 0, error(nil)
		for _, err := range s.client(t, cfg).Statement(t.Context(), day) {
			if lines++; err != nil {
				failed = err
			}
		}
		if genuine := name == ""; genuine != (failed == nil) || genuine && lines != 1 {
			t.Errorf("%q: %d lines, %v", name, lines, failed)
		}
		srv.Close()
	}
	for _, err := range s.Statement(t.Context(), provider.Day{From: day.From.AddDate(0, 0, -9), To: day.From.AddDate(0, 0, -8)}) {
		t.Errorf("a day of which there is no bill: %v", err)
	}
}

// TestPlatformCertificatesAreRenewed: a client that was given one certificate believes the
// next one, which the company names in a reply signed by the first, and no other key.
func TestPlatformCertificatesAreRenewed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	c := s.client(t, s.company.Certify(s.cfg))
	text := s.capture(t)
	believed := func() error {
		h := http.Header{}
		s.company.Head(h, text)
		_, err := c.Parse(h, text)
		return err
	}
	require.NoError(t, believed())
	s.company.Rotate()
	require.ErrorIs(t, believed(), provider.ErrBadSignature) // a certificate that was never named
	// Nor does a reply by it name itself.
	if _, err := c.Query(t.Context(), provider.Payment{No: ids.NewFor(7)}); err == nil {
		t.Error("a reply by an unknown certificate is believed")
	}
	s.company.Rotate()
	c = s.client(t, s.company.Certify(s.cfg))
	_, err := c.Query(t.Context(), provider.Payment{No: ids.NewFor(7)})
	require.NoError(t, err)
	s.company.Rotate()
	require.NoError(t, believed())
}
