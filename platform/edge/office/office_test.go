package office

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/workshop/require"
)

func TestSessionIsOneSealedCookie(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.signedInAs(t, auth.Operator)
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/admin" || strings.Contains(c.Value, "refresh") {
		t.Errorf("cookie %+v", c)
	}
	w := b.send(t, "/admin/things/7", nil, c, "Accept-Language", "zh-CN")
	has(t, w, http.StatusOK, "&lt;b&gt;Lamp", "正常", "¥19.90", "2026-11-11 20:00:00", "打碎")
	for header, want := range map[string]string{"Cache-Control": "no-store", "Content-Security-Policy": "frame-ancestors 'none'"} {
		if got := w.Header().Get(header); !strings.Contains(got, want) || strings.Contains(got, "unsafe") {
			t.Errorf("%s: %q", header, got)
		}
	}
	inline := regexp.MustCompile(`<script(?: type="module")?>| style=| on[a-z]+=`) // the policy forbids it
	require.Equal(t, "inline code", inline.FindString(w.Body.String()), "")
	if got := b.asked[0]; got.line != "GET /api/v1/things/7" || got.from != "192.0.2.1:1234" || got.language != "zh" || got.token == "" {
		t.Errorf("the API got %+v", got)
	}
	for name, cookie := range map[string]*http.Cookie{"no cookie": nil, "a made-up one": {Name: cookieName, Value: "AAAA"}} {
		if w := b.send(t, "/admin/things/7?x=1", nil, cookie); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/sign-in?next=%2Fadmin%2Fthings%2F7%3Fx%3D1" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	var shift session
	shift.take(tokens{ExpiresIn: 24 * 60 * 60}, b.now)
	require.Equal(t, "requests renew a token of a day before the session is idle", shift.Until < b.now.Add(idleFor).Unix(), true)
	b.now = b.now.Add(idleFor + time.Second)
	require.Equal(t, "the session of yesterday", b.send(t, "/admin/things/7", nil, c).Code, http.StatusSeeOther)
}

func TestViewerIsShownNoForms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.signedInAs(t, auth.Viewer)
	if w := b.send(t, "/admin/things/7", nil, c); strings.Contains(w.Body.String(), "Break") || strings.Contains(w.Body.String(), "Secrets") {
		t.Errorf("a viewer sees what only others may use:\n%s", w.Body)
	}
	asked := b.lines()
	has(t, b.send(t, "/admin/things/7/break", url.Values{"why": {"x"}, "_back": {"/admin/things/7"}}, c), http.StatusForbidden, "Ask an admin for the role: Operator")
	has(t, b.send(t, "/admin/things/7/load", url.Values{}, c), http.StatusForbidden) // the file is not read, which would be the refusal otherwise
	require.Equal(t, "what the API got after a viewer's forms", b.lines(), asked)
	has(t, b.send(t, "/admin/secrets", nil, c), http.StatusForbidden, "Your role may not open this page")
	b.answers["POST /api/v1/auth/login"] = b.tokensFor(t, auth.Shopper, 2)
	b.answer("GET /api/v1/me", http.StatusOK, `{"role":"shopper"}`)
	has(t, b.send(t, "/admin/sign-in", url.Values{"phone": {"1"}, "password": {"p"}}, nil), http.StatusForbidden, "not one of the shop")
	if !strings.Contains(b.lines(), "POST /api/v1/auth/logout") {
		t.Errorf("the shopper's login stays: %s", b.lines())
	}
	b.answer("GET /api/v1/me", http.StatusOK, `{"role":"admin"}`)
	w := b.send(t, "/admin/sign-in", url.Values{"phone": {"1"}, "password": {"p"}}, nil)
	require.Equal(t, "the page for an admin without a second factor", w.Header().Get("Location"), factorPath)
	// An admin who left that page for another one is sent back, with the session.
	session := w.Result().Cookies()[0]
	for _, page := range []string{"/admin", "/admin/things"} {
		if w := b.send(t, page, nil, session); w.Header().Get("Location") != factorPath || w.Result().Cookies()[0].Value == "" {
			t.Errorf("%s before the second factor: %d %v", page, w.Code, w.Header())
		}
	}
	// The codes for a lost phone are shown with the confirmation, and again only as new ones.
	b.answer("POST /api/v1/me/totp/confirm", http.StatusOK, `{"recovery_codes":["first-one"]}`)
	b.answers["POST /api/v1/auth/refresh"] = b.tokensFor(t, auth.Admin, 2)
	has(t, b.send(t, factorPath+"/confirm", url.Values{"code": {"123456"}}, session), http.StatusOK, "first-one", "Keep these recovery codes")
	b.answer("POST /api/v1/auth/refresh", http.StatusServiceUnavailable, `{"status":503,"code":"unavailable"}`)
	w = b.send(t, factorPath+"/confirm", url.Values{"code": {"123456"}}, session)
	has(t, w, http.StatusOK, "first-one", "Keep these recovery codes")
	require.Equal(t, "the time until which the next page asks for no new token of the admin", b.open(t, cookieOf(t, w)).Until, 0)
	b.answer("POST /api/v1/me/totp/confirm", http.StatusConflict, `{"status":409,"code":"totp-set"}`)
	w = b.send(t, factorPath+"/confirm", url.Values{"code": {"123456"}}, session)
	require.Equal(t, "the page after the one with the codes", w.Header().Get("Location"), factorPath)
	b.answer("GET /api/v1/me", http.StatusOK, `{"role":"admin","has_totp":true,"recovery_codes_left":3}`)
	has(t, b.send(t, factorPath, nil, session), http.StatusOK, "Recovery codes left: 3", "New recovery codes")
	b.answer("POST /api/v1/me/totp/recovery-codes", http.StatusCreated, `{"recovery_codes":["second-one"]}`)
	has(t, b.send(t, factorPath+"/recovery", url.Values{"password": {"p"}, "code": {"123456"}}, session), http.StatusOK, "second-one")
	b.send(t, "/admin/sign-in", url.Values{"phone": {"1"}, "password": {"p"}, "recovery": {"second-one"}}, nil)
	if last := b.asked[len(b.asked)-1]; last.body["totp"] != "second-one" && b.asked[len(b.asked)-2].body["totp"] != "second-one" {
		t.Errorf("a recovery code at the sign-in: %v", last.body)
	}
}

// The pages before the sign-in mark the field that the API refuses, in the page's language.
func TestOwnPagesMarkTheField(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, test := range []struct{ page, line, refusal, field, says string }{
		{"/admin/sign-in", "login", `"code":"invalid","errors":[{"location":"body.phone","message":"请输入正确的手机号"}]`, "phone", "请输入正确的手机号"},
		{"/admin/sign-in", "login", `"code":"wrong-totp","title":"动态验证码错误"`, "totp", "动态验证码错误"},
		{"/admin/first-admin", "first-admin", `"code":"invalid","errors":[{"location":"body.phone","message":"Enter a mobile number"}]`, "phone", "Enter a mobile number"},
		{"/admin/first-admin", "first-admin", `"code":"weak-password","title":"This password is <i>easy</i>"`, "password", "This password is &lt;i&gt;easy&lt;/i&gt;"},
		{"/admin/first-admin", "first-admin", `"code":"first-admin-link","title":"This link is over"`, "link", "This link is over"},
	} {
		b.answer("POST /api/v1/auth/"+test.line, http.StatusUnprocessableEntity, `{"status":422,`+test.refusal+`}`)
		w := b.send(t, test.page, url.Values{"phone": {"12"}, "password": {"p"}, "link": {"secret"}}, nil)
		has(t, w, http.StatusUnprocessableEntity, `aria-invalid="true" aria-describedby="`+test.field+`-flaw"`, `<p class="flaw" id="`+test.field+`-flaw">`+test.says+`</p>`)
		require.Equal(t, test.page+": fields that are marked", strings.Count(w.Body.String(), `aria-describedby="`+test.field+`-flaw"`), 1)
		if hidden := strings.Contains(w.Body.String(), `<input type="hidden" name="link" value="secret">`); hidden != (test.line == "first-admin" && test.field != "link") {
			t.Errorf("%s: the link's secret is hidden: %t, after a refusal of %s", test.page, hidden, test.field)
		}
	}
	has(t, b.send(t, "/admin/first-admin", nil, nil), http.StatusOK, `<input name="link" required`)
}

func TestFormsSpeakTheAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.signedInAs(t, auth.Operator)
	key := regexp.MustCompile(`name="_key" value="([^"]+)"`).FindStringSubmatch(b.send(t, "/admin/things/7", nil, c).Body.String())
	if key == nil {
		t.Fatal("the form has no key")
	}
	form := url.Values{"why": {" old\r\nand dusty "}, "cost": {"12.5"}, "_currency": {"CNY"}, "_key": key[1:], "_back": {"/admin/things/7?page=2"}}
	b.answer("PUT /api/v1/things/7/broken", http.StatusOK, `{}`)
	w := b.send(t, "/admin/things/7/break", form, c)
	if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != "/admin/things/7?done=%2Fadmin%2Fthings%2F%7Bid%7D%2Fbreak&page=2" {
		t.Errorf("%d to %s", w.Code, got)
	}
	has(t, b.send(t, w.Header().Get("Location"), nil, c), http.StatusOK, "It is broken.")
	last := b.asked[len(b.asked)-2]
	body, _ := json.Marshal(last.body)
	if last.key != key[1] || string(body) != `{"cost":{"amount":1250,"currency":"CNY"},"rate":null,"why":"old\nand dusty"}` {
		t.Errorf("the API got %+v %s", last, body)
	}

	b.answer("PUT /api/v1/things/7/broken", http.StatusConflict, `{"status":409,"code":"whole","title":"It cannot be broken","detail":"It is of steel.","next":"Melt it.","errors":[{"location":"body.why","message":"not a reason"}]}`)
	has(t, b.send(t, "/admin/things/7/break", form, c), http.StatusConflict, `<details class="act" open`, "It cannot be broken", "Melt it.", "not a reason", "and dusty", `value="12.5"`)
	b.answer("PUT /api/v1/things/7/broken", http.StatusServiceUnavailable, `{"status":503,"code":"unavailable","title":"Away"}`)
	has(t, b.send(t, "/admin/things/7/break", form, c), http.StatusServiceUnavailable, `value="`+key[1]+`"`) // it may have been done

	has(t, b.send(t, "/admin/things/7/break", url.Values{"why": {"x"}, "_back": {"/admin/things"}}, c), http.StatusServiceUnavailable, "Away") // of a page without the form

	b.answer("PUT /api/v1/things/7/broken", http.StatusOK, `{}`)
	if b.send(t, "/admin/things/7/break", url.Values{"why": {"x"}, "rate": {"007"}}, c); b.asked[len(b.asked)-1].body["rate"] != 7.0 {
		t.Errorf("for 007 the API got %v", b.asked[len(b.asked)-1])
	}
	// What is shown once is on no page that can be opened again.
	b.answer("POST /api/v1/things/7/key", http.StatusCreated, `{"key":"<whsec_1>"}`)
	has(t, b.send(t, "/admin/things/7/lock", url.Values{"_back": {"/admin/things/7"}}, c), http.StatusOK, "<code>&lt;whsec_1&gt;</code>", `href="/admin/things/7?done=%2Fadmin%2Fthings%2F%7Bid%7D%2Flock"`)
	asked := len(b.asked)
	for name, wrong := range map[string]url.Values{
		"a rate without an end": {"why": {"x"}, "rate": {"inf"}}, "nothing": {}, "a cost of zero": {"why": {"x"}, "cost": {"0.00"}, "_currency": {"CNY"}}, "an amount with three decimals": {"why": {"x"}, "cost": {"1.005"}, "_currency": {"CNY"}}, "a rate in words": {"why": {"x"}, "rate": {"many"}},
	} {
		wrong.Set("_back", "/admin/things/7")
		if w := b.send(t, "/admin/things/7/break", wrong, c); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `class="flaw"`) {
			t.Errorf("%s: %d\n%s", name, w.Code, w.Body)
		}
	}
	for _, a := range b.asked[asked:] {
		if strings.HasPrefix(a.line, "PUT") {
			t.Errorf("the API got %s", a.line)
		}
	}
	for from, again := range map[string]string{
		"https://example.com/admin/things/7?page=2": "/admin/things/7?page=2", "": "/admin/things", "https://example.com/admin/things/7/break": "/admin/things",
		"https://evil.example/admin/things/7": "/admin/things", "https://example.com/": "/admin/things",
	} {
		w := b.send(t, "/admin/things/7/break", url.Values{"why": {strings.Repeat("x", maxForm)}}, c, "Referer", from)
		has(t, w, http.StatusBadRequest, "could not be read", `href="`+again+`">Try again`)
	}
	before := b.lines()
	has(t, b.send(t, "/admin/things/7/break", form, c, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden, "came from another site")
	chosen := &http.Cookie{Name: languageCookie, Value: "zh"}
	has(t, b.send(t, "/admin/things/7/break", form, chosen, "Sec-Fetch-Site", "same-site"), http.StatusForbidden, "请求来自其他网站，已拒绝")
	require.Equal(t, "what the API got after a form of another site", b.lines(), before)
}

// TestRefusedFormOutlivesItsPage: a form that was refused while its page cannot be read either keeps
// what was sent, to be sent again with the same key.
func TestRefusedFormOutlivesItsPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.signedInAs(t, auth.Operator)
	b.answer("PUT /api/v1/things/7/broken", http.StatusServiceUnavailable, `{"status":503,"code":"unavailable","title":"Away"}`)
	b.answer("POST /api/v1/things/7/parts", http.StatusServiceUnavailable, `{"status":503,"code":"unavailable","title":"Away"}`)
	shown := b.answers["GET /api/v1/things/7"]
	b.answer("GET /api/v1/things/7", http.StatusServiceUnavailable, `{"status":503,"code":"unavailable","title":"No things"}`)
	form := url.Values{
		"why": {`an "old" lamp`}, "cost": {"12.5"}, "_currency": {"CNY"}, "_key": {"k-1"}, "_back": {"/admin/things/7?page=2"},
		"_password": {"secret words"}, "_totp": {"123456"},
	}
	w := b.send(t, "/admin/things/7/break", form, c)
	has(t, w, http.StatusServiceUnavailable, `action="/admin/things/7/break"`, `type="hidden" name="why" value="an &#34;old&#34; lamp"`,
		`name="cost" value="12.5"`, `name="_currency" value="CNY"`, `name="_key" value="k-1"`, `name="_back" value="/admin/things/7?page=2"`, "Send again</button>")
	require.Equal(t, "times that the refusal is said", strings.Count(w.Body.String(), "<strong>Away</strong>"), 1)
	for _, text := range []string{"No things", "secret words", "123456", "Try again"} {
		require.Equal(t, "the page has "+text, strings.Contains(w.Body.String(), text), false)
	}
	has(t, b.send(t, "/admin/things/7/break", form, c, "Accept-Language", "zh"), http.StatusServiceUnavailable, "重新提交</button>")
	w = b.send(t, "/admin/things/7/load", url.Values{"file": {"a,b"}, "_key": {"k-2"}, "_back": {"/admin/things/7"}}, c)
	has(t, w, http.StatusServiceUnavailable, `enctype="multipart/form-data"`, `<input type="file"`, `name="_key" value="k-2"`)
	require.Equal(t, "the page has the file", strings.Contains(w.Body.String(), "a,b"), false)

	// A refusal of the office itself, which the API has not seen, keeps the key of an earlier sending too.
	b.now = b.now.Add(freshFor)
	given := url.Values{"_typed": {"my thing"}, "_expected": {"my thing"}, "_key": {"k-3"}, "_back": {"/admin/things/7"}}
	w = b.send(t, "/admin/things/7/give", given, c)
	has(t, w, http.StatusUnprocessableEntity, "Type your password", `name="_password"`, `name="_typed" value="my thing"`)
	b.answers["GET /api/v1/things/7"] = shown
	has(t, b.send(t, "/admin/things/7/give", given, c), http.StatusUnprocessableEntity, "Type your password", `name="_key" value="k-3"`)
}

func TestEditsBeginWithTheDocument(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.signedInAs(t, auth.Operator)
	page := b.send(t, "/admin/things/7", nil, c)
	has(t, page, http.StatusOK, `action="/admin/things/7/edit"`, `name="price" value="19.90"`, `name="freight.fee" value="8.00"`, `name="window" value="1.5"`, `name="at" value="2026-11-11T20:00"`, `(shop)`,
		`name="open" value="true" checked`, "a\nb</textarea>", "Good enough", "Save</button>", `href="/admin/things/7/look"`)
	b.answer("PATCH /api/v1/things/7", http.StatusOK, `{"owner":"9"}`)
	w := b.send(t, "/admin/things/7/edit", url.Values{
		"price": {"0.5"}, "window": {"0.5"}, "at": {"2026-11-12T08:30:15"}, "_currency": {"CNY"}, "_back": {"/admin/things/7"}, "_key": {"k"},
	}, c)
	if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || !strings.HasPrefix(got, "/admin/things/7/of/9?done=") {
		t.Errorf("%d, then %q", w.Code, got)
	}
	want := map[string]any{"price": map[string]any{"amount": 50.0, "currency": "CNY"}, "window": 30.0, "at": "2026-11-12T08:30:15+08:00", "open": false, "pictures": []any{}, "spec": ""}
	if got := b.asked[len(b.asked)-1]; got.line != "PATCH /api/v1/things/7" || !reflect.DeepEqual(got.body, want) {
		t.Errorf("the API got %s %v, want %v", got.line, got.body, want)
	}
	b.answer("PATCH /api/v1/things/7", http.StatusUnprocessableEntity, `{"status":422,"code":"invalid","errors":[{"location":"body.price.amount","message":"Too cheap."}]}`)
	has(t, b.send(t, "/admin/things/7/edit", url.Values{"price": {"0"}, "_currency": {"CNY"}, "_back": {"/admin/things/7"}}, c), http.StatusUnprocessableEntity, `-price-flaw">Too cheap.`)

	// After a change in between, another Save is meant: it has the page's version beside what was typed.
	stale := url.Values{"version": {"2"}, "spec": {"typed"}, "_key": {"k"}, "_back": {"/admin/things/7"}}
	b.answer("PATCH /api/v1/things/7", http.StatusConflict, `{"status":409,"code":"stale-version","title":"This has changed","next":"Read it again."}`)
	w = b.send(t, "/admin/things/7/edit", stale, c)
	has(t, w, http.StatusConflict, "This has changed", "Saving again replaces the other change", `name="version" value="3"`, `name="spec" value="typed"`)
	require.Equal(t, "the page has the advice for programs", strings.Contains(w.Body.String(), "Read it again."), false)
	has(t, b.send(t, "/admin/things/7/edit", stale, c, "Accept-Language", "zh"), http.StatusConflict, "将覆盖对方的修改")
	b.answer("PATCH /api/v1/things/7", http.StatusServiceUnavailable, `{"status":503,"code":"unavailable","title":"Away"}`)
	w = b.send(t, "/admin/things/7/edit", stale, c)
	has(t, w, http.StatusServiceUnavailable, `name="version" value="2"`, `name="_key" value="k"`) // the same request, if it was done
}

func TestFilesAreRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.signedInAs(t, auth.Operator)
	has(t, b.send(t, "/admin/things/7", nil, c), http.StatusOK, `action="/admin/things/7/load" enctype="multipart/form-data"`, `<input type="file"`)
	upload := func(content string, cookie *http.Cookie) *httptest.ResponseRecorder {
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		_ = w.WriteField("_back", "/admin/things/7")
		part, _ := w.CreateFormFile("file", "parts.csv")
		_, _ = io.WriteString(part, content)
		_ = w.Close()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/admin/things/7/load", &body)
		r.Header.Set("Content-Type", w.FormDataContentType())
		if cookie != nil {
			r.AddCookie(cookie)
		}
		rec := httptest.NewRecorder()
		b.ServeHTTP(rec, r)
		return rec
	}
	has(t, upload("", c), http.StatusUnprocessableEntity, `-file-flaw">Empty.`)
	b.answer("POST /api/v1/things/7/parts", http.StatusUnprocessableEntity, `{"status":422,"code":"invalid","errors":[{"location":"body.parts[3]","message":"No such part."}]}`)
	has(t, upload("x", c), http.StatusUnprocessableEntity, "Line of body.parts[3]: No such part.")
	b.answer("POST /api/v1/things/7/parts", http.StatusCreated, `{}`)
	if w := upload("x,y", c); w.Code != http.StatusSeeOther || b.asked[len(b.asked)-1].body["parts"] != "x,y" {
		t.Errorf("%d, the API got %v", w.Code, b.asked[len(b.asked)-1])
	}
	require.Equal(t, "a file beyond the bound", upload(strings.Repeat("x", maxUpload), c).Code, http.StatusBadRequest)
	asked := len(b.asked)
	if w := upload("x,y", nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != signInPath || len(b.asked) != asked {
		t.Errorf("a stranger's file: %d %v", w.Code, w.Header())
	}
	b.out[1] = true
	b.answer("POST /api/v1/auth/refresh", http.StatusUnauthorized, `{"status":401,"code":"bad-token"}`)
	if w := upload("x,y", c); w.Header().Get("Location") != signInPath || len(b.asked) != asked+1 {
		t.Errorf("a file after the sign-out: %d %v, %s", w.Code, w.Header(), b.lines())
	}
	delete(b.out, 1)
	w := b.send(t, "/admin/things/template", nil, c)
	if has(t, w, http.StatusOK, "a,b"); !strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment; filename*=utf-8''%E6%A8%A1") {
		t.Errorf("the template is %v", w.Header())
	}
}

// sending is a body of which a test counts what was read.
type sending struct{ read int }

func (s *sending) Read(p []byte) (int, error) {
	s.read += len(p)
	return len(p), nil
}

// TestAttackOfficeByStrangers: one address gets so many pages, and a stranger's form is
// read no further than a sign-in needs.
func TestAttackOfficeByStrangers(t *testing.T) {
	t.Parallel()
	log, tokens := slog.New(slog.DiscardHandler), auth.NewTokens([]byte(testKey), time.Now)
	send := func(rt *httpx.Router, method string, body io.Reader) int {
		r := httptest.NewRequestWithContext(t.Context(), method, "/admin/sign-in", body)
		r.RemoteAddr = "203.0.113.7:1"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, r)
		return w.Code
	}
	open := func(shoppers int) *httpx.Router {
		rt := httpx.Options{Shoppers: shoppers, Limiter: ratelimit.New(nil, log, prometheus.NewRegistry())}.NewRouter(tokens, log, "test", prometheus.NewRegistry())
		require.NoError(t, Open(rt, Deps{Tokens: tokens, SigningKeys: [][]byte{[]byte(testKey)}, Zone: time.UTC, Log: log}))
		return rt
	}
	flooded := open(1)
	codes := map[int]int{}
	for range 100 {
		codes[send(flooded, http.MethodGet, nil)]++
	}
	if codes[http.StatusOK] == 0 || codes[http.StatusTooManyRequests] < 50 {
		t.Errorf("100 pages at once were answered %v", codes)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin/things", nil)
	r.RemoteAddr = "203.0.113.7:1"
	r.AddCookie(&http.Cookie{Name: cookieName, Value: newSealer([]byte(testKey)).seal(&session{Seen: time.Now().Unix()})})
	w := httptest.NewRecorder()
	flooded.ServeHTTP(w, r)
	has(t, w, http.StatusTooManyRequests, "<!doctype html>", "Try again in "+w.Header().Get("Retry-After")+" s.")
	var endless sending
	if code := send(open(1), http.MethodPost, &endless); code != http.StatusSeeOther || endless.read > 8<<10 {
		t.Errorf("a form without an end was answered %d after %d bytes", code, endless.read)
	}
}

func TestListsForwardTheirFilters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.signedInAs(t, auth.Viewer)
	w := b.send(t, "/admin/things?from=2026-11-11T20:00&sku=ab&other=1&cursor=c1", nil, c)
	has(t, w, http.StatusOK, "searched", `href="/admin/things?cursor=c2&amp;from=2026-11-11T20%3A00&amp;other=1&amp;sku=ab"`)
	require.Equal(t, "what the API got", b.lines(), "GET /api/v1/things?cursor=c1&from=2026-11-11T20%3A00%3A00%2B08%3A00&sku=ab")
	has(t, b.send(t, "/admin/things?other=1", nil, c), http.StatusOK, "whole")
	b.answers["GET /api/v1/things/export"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no")
		w.Header().Set("Set-Cookie", "a=b")
		_, _ = io.WriteString(w, "1,2\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("an event is held back: %v", err)
		}
	}
	if w := b.send(t, "/admin/things/export?format=csv&sku=x", nil, c); w.Body.String() != "1,2\n" || !w.Flushed || w.Header().Get("Content-Type") != "text/event-stream" || w.Header().Get("X-Accel-Buffering") != "no" || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("%d %v %v %s", w.Code, w.Flushed, w.Header(), w.Body)
	}
	delete(b.answers, "GET /api/v1/things/export")
	has(t, b.send(t, "/admin/things/export", nil, c), http.StatusNotFound, "Check the number.")
	b.answer("GET /api/v1/things", http.StatusServiceUnavailable, `{"status":503,"code":"unavailable","title":"Away"}`)
	has(t, b.send(t, "/admin/things", nil, c), http.StatusServiceUnavailable, "Away", `href="/admin/things">Try again`)
}

// After five minutes a form for money asks for the password, and only a right one sends
// it; the login that it opens takes the place of the session's.
func TestPasswordIsAskedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.signedInAs(t, auth.Operator)
	b.answer("POST /api/v1/things/7/given", http.StatusOK, `{}`)
	form := url.Values{"_typed": {"my thing"}, "_expected": {"my thing"}, "_back": {"/admin/things/7"}}
	if w := b.send(t, "/admin/things/7/give", form, c); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/admin/things?done=") {
		t.Errorf("moments after the sign-in: %d %v\n%s", w.Code, w.Header(), w.Body)
	}
	require.Equal(t, "the length of the API's body", b.asked[len(b.asked)-1].length, 0) // a route whose body is optional refuses null
	form.Set("_typed", "another thing")
	has(t, b.send(t, "/admin/things/7/give", form, c), http.StatusUnprocessableEntity, "Type exactly: my thing")
	form.Set("_typed", "my thing")

	b.now = b.now.Add(freshFor)
	has(t, b.send(t, "/admin/things/7", nil, c), http.StatusOK, `name="_password"`)
	b.asked = nil
	has(t, b.send(t, "/admin/things/7/give", form, c), http.StatusUnprocessableEntity, "Type your password")
	b.answer("POST /api/v1/auth/login", http.StatusUnauthorized, `{"status":401,"code":"wrong-login","title":"Phone or password is wrong"}`)
	form.Set("_password", "guess")
	has(t, b.send(t, "/admin/things/7/give", form, c), http.StatusUnauthorized, "Phone or password is wrong", `name="_password"`)
	if strings.Contains(b.lines(), "given") {
		t.Fatalf("the API got %s", b.lines())
	}
	b.asked = nil
	b.answers["POST /api/v1/auth/login"] = b.tokensFor(t, auth.Operator, 2)
	w := b.send(t, "/admin/things/7/give", form, c)
	if want := "POST /api/v1/auth/login, POST /api/v1/auth/logout, POST /api/v1/things/7/given"; w.Code != http.StatusSeeOther || b.lines() != want {
		t.Errorf("%d; the API got %s, want %s", w.Code, b.lines(), want)
	}
	if body := b.asked[0].body; body["phone"] != "13800138000" || body["password"] != "guess" {
		t.Errorf("the login is %v", body)
	}
	if s := b.open(t, cookieOf(t, w)); s.Refresh != "refresh-2" || !s.fresh(b.now) {
		t.Errorf("the session is %+v", s)
	}
}

// Two tabs need a new access token at the same moment: one refresh, and both go on.
func TestTabsRefreshOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		c := b.signedInAs(t, auth.Viewer)
		b.now = b.now.Add(15 * time.Minute)
		answer, refresh := make(chan struct{}), b.tokensFor(t, auth.Viewer, 3)
		b.answers["POST /api/v1/auth/refresh"] = func(w http.ResponseWriter, r *http.Request) { <-answer; refresh(w, r) }
		var tabs sync.WaitGroup
		for range 2 {
			tabs.Go(func() {
				w := b.send(t, "/admin/things/7", nil, c)
				if w.Code != http.StatusOK || b.open(t, cookieOf(t, w)).Refresh != "refresh-3" {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		close(answer)
		tabs.Wait()
		require.Equal(t, "refreshes in "+b.lines(), strings.Count(b.lines(), "/auth/refresh"), 1)
	})
}

// A token that was revoked, as by a change of role, is refreshed once; a login that has
// ended leads to the sign-in page.
func TestEndedTokens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.signedInAs(t, auth.Operator)
	read := b.answers["GET /api/v1/things/7"]
	b.answers["GET /api/v1/things/7"] = func(w http.ResponseWriter, r *http.Request) {
		if p, _ := b.tokens.Verify(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); p.Login == 4 {
			read(w, r)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"status":401,"code":"bad-token","title":"Please log in again"}`)
	}
	b.answers["POST /api/v1/auth/refresh"] = b.tokensFor(t, auth.Viewer, 4)
	w := b.send(t, "/admin/things/7", nil, c)
	has(t, w, http.StatusOK, "Lamp")
	require.Equal(t, "the session's token", b.open(t, cookieOf(t, w)).Refresh, "refresh-4")
	b.answers["GET /api/v1/things/export"] = b.answers["GET /api/v1/things/7"]
	w = b.send(t, "/admin/things/export", nil, c) // as the events of a page that is open for hours
	has(t, w, http.StatusOK, "Lamp")
	require.Equal(t, "the session's token after a download", b.open(t, cookieOf(t, w)).Refresh, "refresh-4")
	b.answer("POST /api/v1/auth/refresh", http.StatusUnauthorized, `{"status":401,"code":"refresh-reused","title":"Please log in again"}`)
	w = b.send(t, "/admin/things/7", nil, c)
	if w.Code != http.StatusSeeOther || cookieOf(t, w).MaxAge >= 0 || !strings.HasPrefix(w.Header().Get("Location"), "/admin/sign-in?next=") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestNextPageIsOurs(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/admin/things?a=b": "/admin/things?a=b", "/admin": "/admin", "": "/admin", "https://evil.example/admin": "/admin", "//evil.example/admin": "/admin",
		"/api/v1/me": "/admin", "/administrator": "/admin", `/admin\..\x`: "/admin", "javascript:alert(1)": "/admin",
	} {
		require.Equal(t, path, local(path), want)
	}
}

func TestMomentsThatClocksLeaveOut(t *testing.T) {
	t.Parallel()
	newYork, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	for typed, is := range map[string]bool{"2026-03-08T01:59": true, "2026-03-08T02:30": false, "2026-03-08T03:00": true, "2026-11-01T01:30": true, "tomorrow": false} {
		if at, ok := MomentIn(newYork, "2006-01-02T15:04", typed); ok != is {
			t.Errorf("%s is %s, %v", typed, at, ok)
		}
	}
}

func TestAmounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typed, code string
		minor       int64
		ok          bool
		shown       string
	}{
		{"19.90", "CNY", 1990, true, "19.90"},
		{"19.9", "CNY", 1990, true, "19.90"},
		{"0.05", "CNY", 5, true, "0.05"},
		{"1999", "JPY", 1999, true, "1999"},
		{"1.234", "KWD", 1234, true, "1.234"},
		{"15000.50", "IDR", 1500050, true, "15000.50"}, // CLDR has no decimals of these two
		{"120.05", "RSD", 12005, true, "120.05"},
		{"1.5", "JPY", 0, false, ""},
		{"1.001", "CNY", 0, false, ""},
		{"-1", "CNY", 0, false, ""},
		{"", "CNY", 0, false, ""},
		{"1e3", "CNY", 0, false, ""},
	} {
		minor, ok := MinorUnits(c.typed, c.code)
		if minor != c.minor && c.ok || ok != c.ok || ok && mainUnits(minor, c.code) != c.shown {
			t.Errorf("%s %s: %d %v %s, want %+v", c.typed, c.code, minor, ok, mainUnits(minor, c.code), c)
		}
	}
}
