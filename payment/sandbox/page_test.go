package sandbox

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// browser follows no redirect and keeps no connection open.
var browser = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// browse asks for a page, or posts a form, and follows no redirect, so that a test sees each
// answer.
func (w *bundle) browse(t *testing.T, address, language string, form url.Values) (int, string, http.Header) {
	t.Helper()
	h := http.Header{"Accept-Language": {language}}
	if form == nil {
		return send(t, http.MethodGet, address, "", h)
	}
	h.Set("Content-Type", "application/x-www-form-urlencoded")
	return send(t, http.MethodPost, address, form.Encode(), h)
}

func send(t *testing.T, method, address, body string, head http.Header) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	require.NoError(t, err)
	req.Header = head
	resp, err := browser.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	reply, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(reply), resp.Header
}

// opened is an open payment and its page.
func (w *bundle) opened(t *testing.T) (c provider.Charge, address string) {
	t.Helper()
	notifyURL, _ := merchant(t, http.StatusOK, ackWord)
	c = w.charge(notifyURL)
	return c, w.create(t, c)
}

func wants(t *testing.T, body string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("the page does not show %q", text)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	w := setup(t, testConfig())
	notifyURL, _ := merchant(t, http.StatusOK, ackWord)
	c := w.charge(notifyURL)
	c.Title, c.Amount, c.ReturnURL = `<script>alert("mug")</script>`, 129900, "https://shop.example/orders/1"
	address := w.create(t, c)

	status, body, h := w.browse(t, address, "en-GB", nil)
	require.Equal(t, "status", status, http.StatusOK)
	wants(t, body, "Stampede", "¥1,299.00", "&lt;script&gt;alert", `<button name="action" value="pay"`, `value="fail"`, `id="left"`, `<option value="silent">no word and no answer`)
	if strings.Contains(body, `<script>alert`) || strings.Contains(body, "://") {
		t.Error("the open payment's page contains an injected script or an address")
	}
	if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
		t.Errorf("policy %q", csp)
	}
	_, body, _ = w.browse(t, address, "zh-CN,zh;q=0.9", nil)
	wants(t, body, `lang="zh"`, "付款", "剩余时间", "模拟故障", `<option value="silent">指定秒数内`)

	status, _, h = w.browse(t, address, "en", url.Values{"action": {"fail"}})
	if status != http.StatusSeeOther || !strings.Contains(h.Get("Location"), "failed=1") {
		t.Fatalf("failing gave %d to %q", status, h.Get("Location"))
	}
	_, body, _ = w.browse(t, w.url+h.Get("Location"), "en", nil)
	wants(t, body, "The payment failed", `value="pay"`)

	for range 2 { // a second press changes nothing
		status, _, h = w.browse(t, address+"&failed=1", "en", url.Values{"action": {"pay"}, "behaviour": {""}, "delay_seconds": {""}})
		if status != http.StatusSeeOther || strings.Contains(h.Get("Location"), "failed") {
			t.Fatalf("paying gave %d to %q", status, h.Get("Location"))
		}
	}
	_, body, _ = w.browse(t, w.url+h.Get("Location"), "en", nil)
	wants(t, body, "Paid.", `href="https://shop.example/orders/1"`)
	require.Equal(t, "a paid payment can be paid on its page", strings.Contains(body, "<form"), false)
	require.Equal(t, "callbacks after two presses", len(w.callbacks(t)), 1)
}

// With Postgres away the page, a payment and the merchant API are answered 503, with what to do.
func TestBankWithoutPostgres(t *testing.T) {
	t.Parallel()
	w := setup(t, testConfig())
	_, address := w.opened(t)
	gone, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/none")
	require.NoError(t, err)
	t.Cleanup(gone.Close)
	cut := setupOn(t, gone, testConfig())
	address = strings.Replace(address, w.url, cut.url, 1)
	for _, form := range []url.Values{nil, {"action": {"pay"}}} {
		status, body, h := w.browse(t, address, "zh", form)
		if status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" || !strings.Contains(body, "刷新本页") {
			t.Errorf("%v: %d, Retry-After %q\n%s", form, status, h.Get("Retry-After"), body)
		}
	}
	if status, _, err := payAs(address, payRequest{}); status != http.StatusServiceUnavailable {
		t.Errorf("a program's payment: %d, %v", status, err)
	}
	query := `{"op":"query","nonce":"` + ids.New().String() + `","merchant":"shop-1","payment_no":"` + ids.New().String() + `"}`
	status, code := cut.post(t, "/v1/query", query, w.client.merchant.sign)
	require.Equal(t, "the merchant API", []any{status, code}, []any{http.StatusServiceUnavailable, "unavailable"})
}

func TestAPayURLIsASecret(t *testing.T) {
	t.Parallel()
	w := setup(t, testConfig())
	c, address := w.opened(t)
	plain, _, _ := strings.Cut(address, "?")
	for name, bad := range map[string]string{
		"no token": plain, "another token": plain + "?t=AAAAAAAAAAAAAAAAAAAAAA", "another number": strings.Replace(address, "/pay/0", "/pay/1", 1), "no number": w.url + Prefix + "/pay/x?t=",
	} {
		for _, form := range []url.Values{nil, {"action": {"pay"}}} {
			if status, body, _ := w.browse(t, bad, "en", form); status != http.StatusNotFound || !strings.Contains(body, "no such payment") {
				t.Errorf("%s, posted %v: %d", name, form, status)
			}
		}
	}
	_, err := w.client.Close(t.Context(), provider.Payment{No: c.PaymentNo})
	require.NoError(t, err)
	_, body, _ := w.browse(t, address, "en", nil)
	wants(t, body, "This payment is closed")
}

func TestPayRefusesNonsense(t *testing.T) {
	t.Parallel()
	w := setup(t, testConfig())
	_, address := w.opened(t)
	for body, want := range map[string]int{
		`{"action":"steal"}`: 422, `{"behaviour":"explode"}`: 422, `{"delay_seconds":-1}`: 422, `{"amount":1}`: 400, `nonsense`: 400,
	} {
		status, _, _ := send(t, http.MethodPost, address, body, http.Header{"Content-Type": {"application/json"}})
		require.Equal(t, body, status, want)
	}
}

// A link to a payment's page works in the next version, too.
func TestLinksKeepTheirTokens(t *testing.T) {
	t.Parallel()
	b := &Bank{pageKey: derive([]byte("secret"), "pay page")}
	require.Equal(t, "token", b.pageToken(ids.ID{1}), "i_JXRQk65mYCx-I-VtZpeg")
}
