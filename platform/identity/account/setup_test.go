package account_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/base/config"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/code"
	"stampede/platform/identity/account/credential"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/password"
	"stampede/platform/identity/account/staff"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/identity/humancheck"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/wechattest"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

var testKey = []byte("a signing key of thirty-two bytes")

// cheap are costs low enough for hundreds of hashes in a test.
var cheap = password.Params{MemoryKiB: 64, Passes: 1, Threads: 1}

// bundle is accounts with their dependencies.
type bundle struct {
	held    sync.Map // access token → refresh token
	t       *testing.T
	pool    *pgxpool.Pool
	accts   *account.Store
	codes   *code.Service
	logins  *login.Service
	staff   *staff.Service
	router  *httpx.Router
	tokens  *auth.Tokens
	phones  *phones
	wechat  *wechattest.Server
	revoked *revoked
	human   *human
	metrics *prometheus.Registry
	logs    *logs
}

// setup builds accounts without limits; change adjusts their configuration. At the
// end of the test the log must contain no secret.
func setup(t *testing.T, change ...func(*account.Config, *deps)) *bundle {
	t.Helper()
	key := testKey
	b := &bundle{
		t: t, pool: pgtest.DB(t), tokens: auth.NewTokens(key, time.Now), phones: &phones{}, revoked: &revoked{}, human: &human{kind: humancheck.None},
		metrics: prometheus.NewRegistry(), logs: &logs{}, wechat: wechattest.New(t),
	}
	log := slog.New(slog.NewTextHandler(b.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	limits := ratelimit.New(pgtest.Redis(t), log, b.metrics)
	cfg := defaults(t, key)
	cfg.Password, cfg.PasswordParallel, cfg.Limits = cheap, 4, account.Limits{}
	cfg.AdminWithoutTOTP = true
	d := deps{DB: b.pool, SMS: b.phones, WeChat: exchange(t, b.wechat, wechat.Official, wechat.Mini)}
	d.Redis, d.Limits, d.Human = pgtest.Redis(t), limits, b.human
	for _, c := range change {
		c(&cfg, &d)
	}
	b.accts = &account.Store{DB: d.DB, Revoke: b.revoked, SendsSMS: d.SMS != nil, Config: cfg, Log: log, Metrics: b.metrics}
	d.Store = b.accts
	g := guard.New(d.Deps)
	factors := factor.New(b.accts, g)
	b.codes, b.logins = code.New(b.accts, g, d.SMS), login.New(b.accts, g, factors, b.tokens)
	credentials := credential.New(credential.Deps{Store: b.accts, Guard: g, Codes: b.codes, Factors: factors, Logins: b.logins, WeChat: d.WeChat})
	b.staff = staff.New(credentials)
	b.router = httpx.Options{DeviceKeys: [][]byte{key}}.NewRouter(b.tokens, log, "test", prometheus.NewRegistry())
	for _, part := range []interface{ Routes(rt *httpx.Router) }{b.codes, b.logins, credentials, credential.NewErasure(credentials, d.erase...), b.staff} {
		part.Routes(b.router)
	}
	t.Cleanup(func() { b.logs.check(t) })
	return b
}

// exchange is a client of a fake WeChat, for some of its apps.
func exchange(t *testing.T, at *wechattest.Server, kinds ...wechat.Kind) *wechat.Client {
	t.Helper()
	cfg := wechat.DefaultConfig()
	cfg.BaseURL, cfg.Apps = at.URL, map[wechat.Kind]wechat.App{}
	for _, kind := range kinds {
		cfg.Apps[kind] = wechat.App{ID: map[wechat.Kind]string{wechat.Official: at.AppID, wechat.Mini: at.MiniAppID}[kind], Secret: at.Secret}
	}
	client := wechat.New(cfg)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// deps are what a test may replace.
type deps struct {
	guard.Deps
	DB     *pgxpool.Pool
	SMS    sms.Sender
	WeChat *wechat.Client
	erase  []func(ctx context.Context, tx pgx.Tx, user int64) error // what other modules erase
}

// defaults are the configuration when nothing is set but the shop's name.
func defaults(t *testing.T, key []byte) account.Config {
	t.Helper()
	texts := config.Defaults[sms.Settings]()
	texts.SMSSignature = "Stampede"
	cfg, err := account.NewConfig(config.Defaults[account.Settings](), texts, key)
	require.NoError(t, err)
	return cfg
}

// answer is the answer to a call.
type answer struct {
	status int
	doc    map[string]any
	raw    string
	header http.Header
}

// str returns a member of the answer as a string, "" when it is not one.
func (a answer) str(name string) string {
	s, _ := a.doc[name].(string)
	return s
}

// list returns a member of the answer as texts.
func (a answer) list(name string) (texts []string) {
	members, _ := a.doc[name].([]any)
	for _, m := range members {
		texts = append(texts, fmt.Sprint(m))
	}
	return texts
}

// is reports whether the answer has a status and, unless want is empty, a code.
func (a answer) is(status int, code string) bool {
	return a.status == status && (code == "" || a.str("code") == code)
}

// want reports an answer with another status, or with another code unless that is empty.
func (a answer) want(t *testing.T, what string, status int, code string) {
	t.Helper()
	if !a.is(status, code) {
		t.Errorf("%s: %d %s, want %d %s", what, a.status, a.raw, status, code)
	}
}

// must is want for what the rest of a test needs.
func (a answer) must(t *testing.T, what string, status int, code string) {
	t.Helper()
	if a.want(t, what, status, code); !a.is(status, code) {
		t.FailNow()
	}
}

type option func(*http.Request)

// from sets the address that a request comes from.
func from(addr string) option { return func(r *http.Request) { r.RemoteAddr = addr + ":40000" } }

// on sends the cookie of the device that another answer has made known.
func on(a answer) option {
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return header("Cookie", cookie)
}

func header(name, value string) option { return func(r *http.Request) { r.Header.Set(name, value) } }

// call makes a request. Every secret in it or in its answer must not be logged.
func (b *bundle) call(method, path, token string, body any, opts ...option) answer {
	b.t.Helper()
	if members, ok := body.(map[string]any); ok && strings.HasSuffix(path, "/wechat") && members["state"] == nil {
		state, cookie := b.state(token)
		members["state"] = state
		opts = append(opts, header("Cookie", cookie))
	}
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			b.t.Fatal(err)
		}
	}
	req := httptest.NewRequestWithContext(b.t.Context(), method, path, bytes.NewReader(raw))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, o := range opts {
		o(req)
	}
	rec := httptest.NewRecorder()
	b.router.ServeHTTP(rec, req)
	a := answer{status: rec.Code, raw: rec.Body.String(), header: rec.Header()}
	if a.raw != "" {
		if err := json.Unmarshal([]byte(a.raw), &a.doc); err != nil {
			b.t.Errorf("%s %s: %s", method, path, a.raw)
		}
	}
	b.logs.secret(string(raw), a.raw)
	if a.str("refresh_token") != "" {
		b.held.Store(a.str("access_token"), a.str("refresh_token"))
	}
	return a
}

func (b *bundle) post(path string, body any, opts ...option) answer {
	b.t.Helper()
	return b.call(http.MethodPost, "/api/v1/auth/"+path, "", body, opts...)
}

// state begins a WeChat login, or the linking of the token's account.
func (b *bundle) state(token string) (state, cookie string) {
	b.t.Helper()
	a := b.call(http.MethodPost, "/api/v1/auth/wechat/state", token, nil)
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return a.str("state"), cookie
}

// code requests a code and reads it from the phone.
func (b *bundle) code(phone, purpose string, opts ...option) string {
	b.t.Helper()
	b.post("sms-codes", map[string]any{"phone": phone, "purpose": purpose}, opts...).must(b.t, "sms-codes", http.StatusAccepted, "")
	return b.phones.code(b.t, phone)
}

// register makes an account and returns the tokens of its login.
func (b *bundle) register(phone, secret string) answer {
	b.t.Helper()
	a := b.post("register", map[string]any{"phone": phone, "code": b.code(phone, "register"), "password": secret, "name": "Li Wei"})
	a.must(b.t, "register", http.StatusCreated, "")
	return a
}

// login logs in by password and returns the tokens.
func (b *bundle) login(phone, secret string) answer {
	b.t.Helper()
	a := b.post("login", map[string]any{"phone": phone, "password": secret, "device": map[string]any{"kind": "web"}})
	a.must(b.t, "login", http.StatusOK, "")
	return a
}

// mint makes a token for a user with a role, as the operator of a shop can.
func (b *bundle) mint(user int64, role auth.Role) string {
	b.t.Helper()
	return httpxtest.Token(b.t, b.tokens, auth.Principal{UserID: user, Role: role})
}

// count queries the database for one number.
func (b *bundle) count(sql string, args ...any) int {
	b.t.Helper()
	return pgtest.Read[int](b.t, b.pool, sql, args...)
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	pgtest.Exec(b.t, b.pool, sql, args...)
}

// figure reads a counter without labels.
func (b *bundle) figure(name string) float64 {
	b.t.Helper()
	families, err := b.metrics.Gather()
	require.NoError(b.t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	b.t.Fatalf("no metric %s", name)
	return 0
}

// phones record what is sent to them.
type phones struct {
	mu   sync.Mutex
	sent []sms.Message
	fail func() error
}

func (p *phones) Send(_ context.Context, m sms.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		if err := p.fail(); err != nil {
			return err
		}
	}
	p.sent = append(p.sent, m)
	return nil
}

// all returns what was sent so far.
func (p *phones) all() []sms.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

// breaks makes the gateway answer what fail returns.
func (p *phones) breaks(fail func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

// code returns the last code that was sent to a phone.
func (p *phones) code(t *testing.T, phone string) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range slices.Backward(p.sent) {
		if strings.HasSuffix(m.Phone, phone) {
			return sixDigits.FindString(m.Text)
		}
	}
	t.Fatalf("nothing was sent to %s", phone)
	return ""
}

// other returns a wrong code.
func other(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}

// all runs f n times concurrently and returns the results.
func all[T any](n int, f func(i int) T) []T {
	out := make([]T, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			out[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return out
}

func id(t *testing.T, text string) (n int64) {
	t.Helper()
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatalf("%q is no id", text)
	}
	return n
}
