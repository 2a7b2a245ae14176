package sandbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/payment/provider"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/base/signature"
	"stampede/platform/workshop/require"
)

func TestSignature(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	merchant, bank := signers(secret, func() time.Time { return now })
	signedBy := func(s signer, at time.Time, body string) http.Header {
		h := http.Header{}
		s.now = func() time.Time { return at }
		s.sign(h, []byte(body))
		return h
	}
	with := func(h http.Header, change func(http.Header)) http.Header { change(h); return h }
	const body = `{"op":"query"}`
	// Computed by another program from the description.
	require.Equal(t, "the bank's signature", signedBy(bank, now, body).Get(HeaderSignature), "41f75c12622bb4fb511452613f4cbc6c466ac840b0ff1fdbcc28671d4246664c")
	for _, tt := range []struct {
		name string
		h    http.Header
		want error
	}{
		{"fresh", signedBy(merchant, now, body), nil},
		{"five minutes old", signedBy(merchant, now.Add(-5*time.Minute), body), nil},
		{"older", signedBy(merchant, now.Add(-5*time.Minute-time.Second), body), signature.ErrStale},
		{"from the future", signedBy(merchant, now.Add(5*time.Minute+time.Second), body), signature.ErrStale},
		{"another body", signedBy(merchant, now, body+" "), signature.ErrForged},
		{"the other direction", signedBy(bank, now, body), signature.ErrForged},
		{"nothing", http.Header{}, signature.ErrUnsigned},
		{"twice", with(signedBy(merchant, now, body), func(h http.Header) { h.Add(HeaderSignature, h.Get(HeaderSignature)) }), signature.ErrUnsigned},
		{"two timestamps", with(signedBy(merchant, now, body), func(h http.Header) { h.Add(HeaderTimestamp, "1") }), signature.ErrUnsigned},
		{"timestamp moved", with(signedBy(merchant, now, body), func(h http.Header) { h.Set(HeaderTimestamp, "1800000001") }), signature.ErrForged},
		{"not hex", with(signedBy(merchant, now, body), func(h http.Header) { h.Set(HeaderSignature, "zz") }), signature.ErrForged},
		{"cut", with(signedBy(merchant, now, body), func(h http.Header) { h.Set(HeaderSignature, h.Get(HeaderSignature)[:62]) }), signature.ErrForged},
	} {
		if err := merchant.verify(tt.h, []byte(body)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// post sends a signed body to one of the bank's endpoints.
func (w *bundle) post(t *testing.T, path, body string, sign func(http.Header, []byte)) (int, string) {
	t.Helper()
	h := http.Header{}
	sign(h, []byte(body))
	status, reply, h := send(t, http.MethodPost, w.url+Prefix+path, body, h)
	require.NoError(t, w.client.bank.verify(h, []byte(reply)))
	var e errorReply
	_ = json.Unmarshal([]byte(reply), &e) // empty for a success
	return status, e.Code
}

func TestRequestsThatTheBankRefuses(t *testing.T) {
	t.Parallel()
	w := setup(t, testConfig())
	notifyURL, _ := merchant(t, http.StatusOK, ackWord)
	c := w.charge(notifyURL)
	w.create(t, c)
	good := w.client.merchant.sign
	query := `{"op":"query","nonce":"` + ids.New().String() + `","merchant":"shop-1","payment_no":"` + c.PaymentNo.String() + `"}`
	creation := func(member, value string) string {
		fields := map[string]any{
			"op": "create", "nonce": ids.New(), "merchant": "shop-1", "payment_no": ids.New(), "title": "mug", "amount": 1, "currency": "CNY",
			"expires_at": time.Now().Add(time.Minute), "notify_url": notifyURL,
		}
		fields[member] = json.RawMessage(value)
		body, err := json.Marshal(fields)
		require.NoError(t, err)
		return string(body)
	}
	for _, tt := range []struct {
		name, path, body string
		sign             func(http.Header, []byte)
		status           int
		code             string
	}{
		{"unsigned", "/v1/query", query, func(http.Header, []byte) {}, 401, "bad-signature"},
		{"signed by the bank itself", "/v1/query", query, w.client.bank.sign, 401, "bad-signature"},
		{"a query replayed as a close", "/v1/close", query, good, 400, "bad-request"},
		{"another merchant", "/v1/query", strings.Replace(query, "shop-1", "shop-2", 1), good, 400, "bad-request"},
		{"an unknown member", "/v1/query", strings.Replace(query, "{", `{"x":1,`, 1), good, 400, "bad-request"},
		{"trailing data", "/v1/query", query + "{}", good, 400, "bad-request"},
		{"not JSON", "/v1/query", "payment", good, 400, "bad-request"},
		{"too long", "/v1/query", strings.Repeat(" ", maxMessageBytes) + query, good, 413, "too-large"},
		{"a good creation", "/v1/create", creation("title", `"cup"`), good, 200, ""},
		{"nothing to pay", "/v1/create", creation("amount", "0"), good, 422, "invalid"},
		{"no currency", "/v1/create", creation("currency", `"yuan"`), good, 422, "invalid"},
		{"a script for an address", "/v1/create", creation("return_url", `"javascript:alert(1)"`), good, 422, "invalid"},
		{"a file for an address", "/v1/create", creation("notify_url", `"file:///etc/passwd"`), good, 422, "invalid"},
		{"expired already", "/v1/create", creation("expires_at", `"2020-01-01T00:00:00Z"`), good, 422, "invalid"},
	} {
		status, code := w.post(t, tt.path, tt.body, tt.sign)
		require.Equal(t, tt.name, []any{status, code}, []any{tt.status, tt.code})
	}
}

// TestClientTrustsOnlyTheBank: a reply that is not signed, or answers another
// request, is rejected.
func TestClientTrustsOnlyTheBank(t *testing.T) {
	t.Parallel()
	_, bank := signers(secret, time.Now)
	no := ids.NewFor(7)
	for _, tt := range []struct {
		name   string
		sign   func(http.Header, []byte)
		nonce  func(asked ids.ID) ids.ID
		refuse bool
	}{
		{"the bank", bank.sign, func(asked ids.ID) ids.ID { return asked }, false},
		{"unsigned", func(http.Header, []byte) {}, func(asked ids.ID) ids.ID { return asked }, true},
		{"an old reply replayed", bank.sign, func(ids.ID) ids.ID { return ids.New() }, true},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var asked call
			if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
				t.Error(err)
			}
			reply, err := json.Marshal(paymentReply{answered{tt.nonce(asked.Nonce), "shop-1"}, Payment{No: no.String(), Status: StatusClosed}})
			if err != nil {
				t.Error(err)
			}
			tt.sign(w.Header(), reply)
			_, _ = w.Write(reply)
		}))
		if got, err := clientOf(t, srv.URL).Close(t.Context(), provider.Payment{No: no}); (err != nil) != tt.refuse {
			t.Errorf("%s: the client accepted %+v, %v", tt.name, got, err)
		}
		srv.Close()
	}
}

func clientOf(t *testing.T, url string) *Client {
	t.Helper()
	cfg := DefaultClientConfig()
	cfg.Merchant, cfg.Secret, cfg.BankURL, cfg.Backoff = "shop-1", secret, url, time.Millisecond
	c := NewClient(cfg, clock.System{})
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// TestSignedInvalidMessageIsRefused: a signature does not make a message valid, and
// an amount is a whole number of minor units.
func TestSignedInvalidMessageIsRefused(t *testing.T) {
	t.Parallel()
	_, bank := signers(secret, time.Now)
	c := clientOf(t, "http://127.0.0.1:1")
	good := `{"event":"payment.captured","merchant":"shop-1","payment_no":"` + ids.NewFor(7).String() +
		`","transaction":"t","amount":100,"currency":"CNY","at":"2026-01-01T00:00:00Z"}`
	parse := func(body string) error {
		h := http.Header{}
		bank.sign(h, []byte(body))
		_, err := c.Parse(h, []byte(body))
		return err
	}
	require.NoError(t, parse(good))
	for name, change := range map[string][2]string{
		"a float":                  {`:100,`, `:100.0,`},
		"an exponent":              {`:100,`, `:1e2,`},
		"a string for an amount":   {`:100,`, `:"100",`},
		"beyond int64":             {`:100,`, `:9223372036854775808,`},
		"an unknown member":        {`:100,`, `:100,"discount":99,`},
		"a second message":         {`Z"}`, `Z"}{}`},
		"no transaction":           {`"t"`, `""`},
		"no time":                  {`,"at":"2026-01-01T00:00:00Z"`, ``},
		"an unknown event":         {`captured`, `imagined`},
		"a refund without number":  {`payment.captured`, `refund.succeeded`},
		"a number of another form": {`"payment_no":"`, `"payment_no":"x`},
	} {
		body := strings.Replace(good, change[0], change[1], 1)
		if body == good {
			t.Fatalf("%s: nothing changed", name)
		}
		if err := parse(body); !errors.Is(err, provider.ErrUnreadable) {
			t.Errorf("%s: %v, want ErrUnreadable", name, err)
		}
	}
	// The same message in other bytes does not match the signature.
	h := http.Header{}
	bank.sign(h, []byte(good))
	_, err := c.Parse(h, []byte(strings.ReplaceAll(good, `,"`, `, "`)))
	require.ErrorIs(t, err, provider.ErrBadSignature)
}

// FuzzParse feeds arbitrary callbacks: unsigned ones are refused as such,
// signed ones are decoded or refused, and a decoded one is complete.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"event":"payment.captured","merchant":"m","payment_no":"0190b5a0c0c07000a000000000000001","transaction":"t","amount":1,"currency":"CNY","at":"2026-01-01T00:00:00Z"}`), "1", "00", true)
	f.Add([]byte(`{"event":"refund.failed","refund_no":"0190b5a0c0c07000a000000000000001"}`), "x", "", true)
	f.Add([]byte(`{}{}`), "-1", "zz", false)
	cfg := DefaultClientConfig()
	cfg.Merchant, cfg.Secret, cfg.BankURL = "m", secret, "http://127.0.0.1:1"
	c := NewClient(cfg, clock.System{})
	f.Fuzz(func(t *testing.T, body []byte, stamp, signature string, genuine bool) {
		h := http.Header{HeaderTimestamp: {stamp}, HeaderSignature: {signature}}
		if genuine {
			_, bank := signers(secret, time.Now)
			bank.sign(h, body)
		}
		n, err := c.Parse(h, body)
		switch {
		case !genuine && !errors.Is(err, provider.ErrBadSignature):
			t.Fatalf("a forged callback: %+v, %v", n, err)
		case genuine && err != nil && !errors.Is(err, provider.ErrUnreadable):
			t.Fatalf("a genuine callback: %v", err)
		case err == nil && (n.Capture == nil) == (n.Refund == nil):
			t.Fatalf("decoded as both or neither: %+v", n)
		case n.Capture != nil && (n.Capture.PaymentNo.IsZero() && !strings.Contains(string(body), strings.Repeat("0", 32)) || n.Capture.Transaction == ""):
			t.Fatalf("incomplete capture: %+v", n.Capture)
		}
		if reply := c.Answer(err); (reply.Status == http.StatusOK) != (err == nil) {
			t.Fatalf("answered %d to %v", reply.Status, err)
		}
	})
}
