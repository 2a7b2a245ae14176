package qrlogin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/base/clock"
	"stampede/platform/base/config"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/revoke"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

var testKey = bytes.Repeat([]byte("k1"), 16)

// bundle is what the instances of a test share.
type bundle struct {
	t      *testing.T
	db     *pgxpool.Pool
	tokens *auth.Tokens
	change func(*Config)
	held   *sync.Map // access token → refresh token
}

func setup(t *testing.T, change func(*Config)) bundle {
	t.Helper()
	return bundle{t: t, db: pgtest.DB(t), tokens: auth.NewTokens(testKey, time.Now), change: change, held: new(sync.Map)}
}

// instance is one process of the shop.
type instance struct {
	*Service
	revoke *revoke.Service
	acc    *login.Service
	rt     *httpx.Router
	held   *sync.Map
}

func (s bundle) start() *instance {
	s.t.Helper()
	log, metrics := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	i := &instance{held: s.held}
	i.revoke = revoke.New(revoke.Deps{DB: s.db, Log: log, Metrics: metrics, Clock: clock.System{}})
	require.NoError(s.t, i.revoke.Load(s.t.Context()))
	tokens := auth.NewTokens(testKey, time.Now, auth.RevokedBy(i.revoke))
	acc, err := account.NewConfig(config.Defaults[account.Settings](), config.Defaults[sms.Settings](), testKey)
	require.NoError(s.t, err)
	store := &account.Store{DB: s.db, Revoke: i.revoke, Config: acc, Log: log, Metrics: metrics}
	g := guard.New(guard.Deps{Store: store, Redis: pgtest.Redis(s.t), Limits: ratelimit.New(nil, log, metrics)})
	i.acc = login.New(store, g, factor.New(store, g), tokens)
	cfg := DefaultConfig("https://sale.example.com")
	cfg.PerAddress.Count, cfg.PicturesPerAddress.Count, cfg.Polls.Count = 1000, 1000, 1000 // all tests come from one address
	if s.change != nil {
		s.change(&cfg)
	}
	i.Service = New(cfg, Deps{Store: store, Guard: g, Logins: i.acc, Revocations: i.revoke})
	rt := httpx.NewRouter(tokens, log, "test", metrics)
	i.Routes(rt)
	i.rt = rt
	for _, w := range append(i.Workers(), i.revoke.Workers()...) {
		pgtest.Work(s.t, w.Run)
	}
	return i
}

// phone creates a user and returns the access token of one of their logins.
func (s bundle) phone(i *instance, role auth.Role) (user int64, token string) {
	s.t.Helper()
	err := pg.InTx(s.t.Context(), s.db, func(tx pgx.Tx) error {
		if err := tx.QueryRow(s.t.Context(), `INSERT INTO account.users (role) VALUES ($1) RETURNING id`, string(role)).Scan(&user); err != nil {
			return err
		}
		tokens, err := i.acc.Open(s.t.Context(), tx, user, login.Device{Kind: "ios", ID: "phone"}, "sms")
		token = tokens.AccessToken
		s.held.Store(token, tokens.RefreshToken)
		return err
	})
	require.NoError(s.t, err)
	return user, token
}

// one reads one value from the database.
func one[V any](s bundle, sql string, args ...any) V {
	s.t.Helper()
	return pgtest.Read[V](s.t, s.db, sql, args...)
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	raw    []byte
	body   struct {
		QRID       string `json:"qr_id"`
		PollSecret string `json:"poll_secret"`
		URL        string
		Image      string
		ExpiresAt  string `json:"expires_at"`
		AskedAt    string `json:"asked_at"`
		ScanToken  string `json:"scan_token"`
		Address    string
		Device     struct{ Kind, Name string }
		Status     any // a word in a poll, a number in a problem
		Code       string
		Number     int
		PollAfter  int64 `json:"poll_after_ms"`
		Tokens     *login.Tokens
	}
}

// call sends a request; header lists names and values alternately.
func (i *instance) call(t testing.TB, method, path, body string, header ...string) answer {
	t.Helper()
	got := httpxtest.Ask(t, i.rt, "", method, "/api/v1/auth/qr"+path, body, header...)
	a := answer{status: got.Status, header: got.Header, raw: got.Raw}
	if a.header.Get("Content-Type") != "image/png" && len(a.raw) > 0 {
		if err := json.Unmarshal(a.raw, &a.body); err != nil {
			t.Errorf("%s %s: %s: %v", method, path, a.raw, err)
		}
	}
	return a
}

const aDesktop = `{"device":{"kind":"desktop","id":"desk-1","name":"Firefox\u202E on Windows"}}`

// asks starts a QR login.
func (i *instance) asks(t testing.TB) answer {
	t.Helper()
	a := i.call(t, http.MethodPost, "", aDesktop)
	if a.status != http.StatusCreated {
		t.Fatalf("ask: %d %s", a.status, a.raw)
	}
	return a
}

func (i *instance) polled(t testing.TB, a answer) answer {
	t.Helper()
	return i.call(t, http.MethodGet, "/"+a.body.QRID, "", "QR-Secret", a.body.PollSecret)
}

// finds polls and reports another status, or tokens.
func (i *instance) finds(t testing.TB, a answer, what, status string) {
	t.Helper()
	if got := i.polled(t, a); got.body.Status != status || got.body.Tokens != nil {
		t.Errorf("%s: %s, want %s without tokens", what, got.raw, status)
	}
}

func (i *instance) scans(t testing.TB, a answer, token string) answer {
	t.Helper()
	return i.call(t, http.MethodPost, "/"+a.body.QRID+"/scan", "", "Authorization", "Bearer "+token)
}

func (i *instance) decides(t testing.TB, a answer, decision, token, scanToken string) answer {
	t.Helper()
	if decision == "confirm" {
		return i.confirmsWith(t, a, token, scanToken, i.refreshOf(token), i.shows(t, a))
	}
	return i.call(t, http.MethodPost, "/"+a.body.QRID+"/"+decision, `{"scan_token":"`+scanToken+`"}`, "Authorization", "Bearer "+token)
}

func (i *instance) confirmsWith(t testing.TB, a answer, token, scanToken, refresh string, number int) answer {
	t.Helper()
	body := fmt.Sprintf(`{"scan_token":%q,"number":%d,"refresh_token":%q}`, scanToken, number, refresh)
	return i.call(t, http.MethodPost, "/"+a.body.QRID+"/confirm", body, "Authorization", "Bearer "+token)
}

// refreshOf returns the refresh token of an access token's login, "" without one.
func (i *instance) refreshOf(token string) string {
	refresh, _ := i.held.Load(token)
	text, _ := refresh.(string)
	return text
}

// shows returns the number that the asking device shows; before the scan it shows
// none, and 10 stands in.
func (i *instance) shows(t testing.TB, a answer) (number int) {
	t.Helper()
	err := i.deps.Store.DB.QueryRow(t.Context(), `SELECT coalesce(max(number), 10) FROM auth.qr_logins WHERE replace(id::text, '-', '') = $1`, a.body.QRID).Scan(&number)
	if err != nil {
		t.Error(err)
	}
	return number
}

// confirms starts, scans and confirms a QR login.
func (i *instance) confirms(t testing.TB, token string) answer {
	t.Helper()
	a := i.asks(t)
	scan := i.scans(t, a, token)
	if got := i.decides(t, a, "confirm", token, scan.body.ScanToken); got.status != http.StatusNoContent {
		t.Fatalf("confirm: %d %s", got.status, got.raw)
	}
	return a
}

// is reports an unexpected status or code.
func (a answer) is(t testing.TB, what string, status int, code string) {
	t.Helper()
	if a.status != status || a.body.Code != code {
		t.Errorf("%s: %d %s, want %d %s", what, a.status, a.raw, status, code)
	}
}
