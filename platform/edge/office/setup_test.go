package office

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

const testKey = "a signing key of tests, long enough for all"

// bundle is an office over an API that answers what a test says.
type bundle struct {
	*Office
	tokens *auth.Tokens
	out    signedOut
	now    time.Time

	mu      sync.Mutex
	asked   []asked
	answers map[string]http.HandlerFunc // by method and path
}

// asked is a request that the API got.
type asked struct {
	line, token, key, from, language string
	body                             map[string]any
	length                           int64
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{now: time.Now(), answers: map[string]http.HandlerFunc{}, out: signedOut{}}
	b.tokens = auth.NewTokens([]byte(testKey), func() time.Time { return b.now }, auth.RevokedBy(b.out))
	pages := fstest.MapFS{
		"thing.html": {Data: []byte(`{{define "content"}}<h1>{{.Data.thing.name}}</h1>{{.Word .Data.thing.status}} {{.Money .Data.thing.price}} {{.Time .Data.thing.at}}{{range .Acts}}{{template "act" .}}{{end}}{{end}}`)},
		"list.html":  {Data: []byte(`{{define "content"}}{{template "search" .}}{{if .Searched}}searched{{else}}whole{{end}}{{with .Next .Data.things}}<a rel="next" href="{{.}}">next</a>{{end}}{{end}}`)},
	}
	var err error
	b.Office, err = New(Deps{API: fakeAPI{b}, Tokens: b.tokens, SigningKeys: [][]byte{[]byte(testKey)}, Zone: time.FixedZone("shop", 8*3600), PublicURL: "https://shop.example", Log: slog.New(slog.DiscardHandler)}, Section{
		Files: pages, Words: map[string]Text{"fine": {"Elsewhere", "别处"}}, Own: map[string]Text{"fine": {"Fine", "正常"}}, Menu: []Entry{{Path: "/admin/things", Name: Text{"Things", "东西"}, Role: auth.Viewer}, {Path: "/admin/secrets", Name: Text{"Secrets", "机密"}, Role: auth.Admin}},
		Pages: []Page{
			{Path: "/admin/things/{id}", Title: Text{"Thing", "东西"}, Role: auth.Viewer, Template: "thing.html", Reads: []Read{{Name: "thing", Path: "/api/v1/things/{id}"}}},
			{Path: "/admin/things", Title: Text{"Things", "东西"}, Role: auth.Viewer, Template: "list.html", Filters: []Field{{Name: "from", Kind: Moment}, {Name: "sku"}}, Reads: []Read{{Name: "things", Path: "/api/v1/things", Query: true}}},
			{Path: "/admin/secrets", Title: Text{"Secrets", "机密"}, Role: auth.Admin, Template: "list.html", Reads: []Read{{Name: "things", Path: "/api/v1/things"}}},
			{Path: "/admin/things/template", Role: auth.Operator, Attached: func(*Call) (string, string) { return "模板.csv", "a,b" }},
			{Path: "/admin/things/export", Role: auth.Viewer, Download: "/api/v1/things/export", Filters: []Field{{Name: "sku"}}},
		},
		Acts: []Act{
			{
				Path: "/admin/things/{id}/break", API: "PUT /api/v1/things/{id}/broken", Role: auth.Operator, Title: Text{"Break", "打碎"}, Done: Text{"It is broken.", "已打碎。"}, On: "/admin/things/{id}",
				Fields: []Field{{Name: "why", Label: Text{"Why", "原因"}, Required: true}, {Name: "cost", Kind: Price, Zero: Text{"Not for nothing.", "不能为 0。"}}, {Name: "rate", Kind: Whole, Blank: Null}},
				With:   func(map[string]any) []any { return []any{"currency", "CNY"} },
			},
			{
				Path: "/admin/things/{id}/edit", API: "PATCH /api/v1/things/{id}", Role: auth.Operator, Title: Text{"Edit", "编辑"}, Button: Text{"Save", "保存"}, Done: Text{"It is changed.", "已修改。"}, On: "/admin/things/{id}", Then: "/admin/things/{id}/of/{owner}",
				Before: Entry{Path: "/admin/things/{id}/look", Name: Text{"Look at it", "查看"}},
				Fields: []Field{
					{Name: "version", Kind: Whole, Hidden: true},
					{Name: "price", Kind: Price},
					{Name: "freight.fee", Kind: Price},
					{Name: "window", Kind: Minutes},
					{Name: "at", Kind: Moment},
					{Name: "open", Kind: Tick, Blank: false},
					{Name: "pictures", Kind: Lines, Blank: []string{}},
					{Name: "spec", Blank: ""},
					{Name: "status", Kind: Choice, Options: []string{"fine"}, Words: map[string]Text{"fine": {"Good enough", "尚可"}}},
				},
				With: func(data map[string]any) []any { return []any{"of", data["thing"]} },
			},
			{
				Path: "/admin/things/{id}/load", API: "POST /api/v1/things/{id}/parts", Role: auth.Operator, Title: Text{"Load", "导入"}, Done: Text{"It is loaded.", "已导入。"}, On: "/admin/things/{id}", Fields: []Field{{Name: "file", Kind: File}},
				Make: func(c *Call, form url.Values) (map[string]any, func(string) string, error) {
					if form.Get("file") == "" {
						return nil, nil, c.Refuse(Flaw{"file", "Empty."})
					}
					return map[string]any{"parts": form.Get("file")}, func(location string) string { return "Line of " + location + ": " }, nil
				},
			},
			{Path: "/admin/things/{id}/lock", API: "POST /api/v1/things/{id}/key", Role: auth.Operator, Title: Text{"Lock", "上锁"}, Done: Text{"It is locked.", "已上锁。"}, On: "/admin/things/{id}", Shows: "key"},
			{Path: "/admin/things/{id}/give", API: "POST /api/v1/things/{id}/given", Role: auth.Operator, Title: Text{"Give", "送出"}, Done: Text{"It is given.", "已送出。"}, On: "/admin/things/{id}", Again: true, Typed: true, With: func(map[string]any) []any { return []any{"typed", "my thing"} }, Then: "/admin/things"},
		},
	})
	require.NoError(t, err)
	b.Office.now = func() time.Time { return b.now }
	b.answer("GET /api/v1/things/7", http.StatusOK, `{"version":3,"name":"<b>Lamp</b>","status":"fine","price":{"amount":1990,"currency":"CNY"},"at":"2026-11-11T12:00:00.000Z","window":90,"open":true,"freight":{"fee":{"amount":800,"currency":"CNY"}},"pictures":["a","b"]}`)
	b.answer("GET /api/v1/things", http.StatusOK, `{"data":[],"next_cursor":"c2"}`)
	b.answer("POST /api/v1/auth/logout", http.StatusNoContent, "")
	return b
}

func (b *bundle) answer(line string, status int, body string) {
	b.answers[line] = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// signedOut are the logins that have ended.
type signedOut map[int64]bool

func (s signedOut) Revoked(_ context.Context, p auth.Principal) (bool, error) {
	return s[p.Login], nil
}
func (signedOut) Version() uint64 { return 0 }

// fakeAPI is the router of a bundle. It receives every form.
type fakeAPI struct{ *bundle }

func (f fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.api(w, r) }
func (fakeAPI) Receive(http.ResponseWriter, *http.Request, int64, bool) error {
	return nil
}

// api answers as the test says, and 404 for the rest.
func (b *bundle) api(w http.ResponseWriter, r *http.Request) {
	got := asked{line: r.Method + " " + r.URL.RequestURI(), token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), key: r.Header.Get("Idempotency-Key"), from: r.RemoteAddr, language: r.Header.Get("Accept-Language"), length: r.ContentLength}
	_ = json.NewDecoder(r.Body).Decode(&got.body)
	b.mu.Lock()
	b.asked = append(b.asked, got)
	answer := b.answers[r.Method+" "+r.URL.Path]
	b.mu.Unlock()
	if answer == nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"status":404,"code":"not-found","title":"Not found","next":"Check the number."}`)
		return
	}
	answer(w, r)
}

// tokensFor answers a login or a refresh with a login's tokens.
func (b *bundle) tokensFor(t *testing.T, role auth.Role, login int64) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, _ *http.Request) {
		access, err := b.tokens.Mint(auth.Principal{UserID: 5, Role: role, Login: login}, 15*time.Minute)
		if err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": access, "refresh_token": fmt.Sprint("refresh-", login), "expires_in": 900})
	}
}

// send makes a browser's request; a body makes it a form.
func (b *bundle) send(t *testing.T, path string, form url.Values, cookie *http.Cookie, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if form != nil {
		r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if cookie != nil {
		r.AddCookie(cookie)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

// signedInAs returns the cookie of a sign-in.
func (b *bundle) signedInAs(t *testing.T, role auth.Role) *http.Cookie {
	t.Helper()
	b.answers["POST /api/v1/auth/login"] = b.tokensFor(t, role, 1)
	w := b.send(t, "/admin/sign-in", url.Values{"phone": {"13800138000"}, "password": {"secret words"}, "next": {"/admin/things/7"}}, nil)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/things/7" {
		t.Fatalf("sign-in: %d %v", w.Code, w.Header())
	}
	b.asked = nil
	return cookieOf(t, w)
}

func cookieOf(t *testing.T, w *httptest.ResponseRecorder) *http.Cookie {
	t.Helper()
	for _, c := range w.Result().Cookies() {
		if c.Name == cookieName {
			return c
		}
	}
	t.Fatalf("no session cookie: %v", w.Header())
	return nil
}

func (b *bundle) open(t *testing.T, c *http.Cookie) *session {
	t.Helper()
	s := b.sealer.open(c.Value, b.now)
	if s == nil {
		t.Fatalf("%+v is no session", c)
	}
	return s
}

// lines are the requests that the API got.
func (b *bundle) lines() string {
	var all []string
	for _, a := range b.asked {
		all = append(all, a.line)
	}
	return strings.Join(all, ", ")
}

func has(t *testing.T, w *httptest.ResponseRecorder, status int, texts ...string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("%d, want %d", w.Code, status)
	}
	for _, text := range texts {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("the page lacks %q:\n%s", text, w.Body)
		}
	}
}
