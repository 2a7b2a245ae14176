package exchange_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/config"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/exchange"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/sms"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// issuer is the shop's login: discovery, keys and tokens.
type issuer struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	keys    map[string]crypto.Signer
	fetches int
	away    bool
	hold    chan struct{} // answers wait for it; nil does not
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, keys: map[string]crypto.Signer{}}
	i.add("first")
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) add(id string) {
	i.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(i.t, err)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[id] = key
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	hold, away := i.hold, i.away
	keys := maps.Clone(i.keys)
	if r.URL.Path == "/keys" {
		i.fetches++
	}
	i.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	switch {
	case away:
		w.WriteHeader(http.StatusBadGateway)
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	default:
		var set jose.JSONWebKeySet
		for id, key := range keys {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"})
		}
		_ = json.NewEncoder(w).Encode(set)
	}
}

// token is one of the issuer's for the shop, changed as the test says.
func (i *issuer) token(subject string, change func(*jwt.Token, jwt.MapClaims)) string {
	i.t.Helper()
	claims := jwt.MapClaims{
		"iss": i.URL, "aud": "stampede", "sub": subject, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"phone_number": "13800138000", "phone_number_verified": true, "nickname": "Li",
	}
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	token.Header["kid"] = "first"
	if change != nil {
		change(token, claims)
	}
	i.mu.Lock()
	var key any = i.keys["first"]
	if own, ok := i.keys[token.Header["kid"].(string)]; ok {
		key = own
	}
	i.mu.Unlock()
	if given, ok := token.Header["sign"]; ok {
		delete(token.Header, "sign")
		key = given
	}
	signed, err := token.SignedString(key)
	require.NoError(i.t, err)
	return signed
}

type revoked struct{}

func (revoked) Logins(context.Context, pgx.Tx, string, ...int64) error { return nil }
func (revoked) User(context.Context, pgx.Tx, string, int64) error      { return nil }
func (revoked) Tell(context.Context)                                   {}

const firstAdmin = "13700137000"

type bundle struct {
	*issuer
	db     *pgxpool.Pool
	router *httpx.Router
}

func setup(t *testing.T, change ...func(*exchange.Settings)) *bundle {
	t.Helper()
	b := &bundle{issuer: newIssuer(t), db: pgtest.DB(t)}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	texts := config.Defaults[sms.Settings]()
	texts.SMSSignature = "Stampede"
	key := []byte("a signing key of thirty-two bytes")
	accounts := config.Defaults[account.Settings]()
	accounts.FirstAdminPhone = firstAdmin
	cfg, err := account.NewConfig(accounts, texts, key)
	require.NoError(t, err)
	store := &account.Store{DB: b.db, Revoke: revoked{}, Config: cfg, Log: log, Metrics: prometheus.NewRegistry()}
	redis := pgtest.Redis(t)
	g := guard.New(guard.Deps{Store: store, Redis: redis, Limits: ratelimit.New(redis, log, prometheus.NewRegistry())})
	tokens := auth.NewTokens(key, time.Now)
	set := config.Defaults[exchange.Settings]()
	set.Issuer, set.Audience, set.Phone, set.Nickname = b.URL, "stampede", "phone_number", "nickname"
	for _, c := range change {
		c(&set)
	}
	require.NoError(t, set.Check())
	b.router = httpx.Options{Keys: func(key string) (auth.Principal, error) {
		return auth.Principal{UserID: 5, Role: auth.Viewer, Scopes: strings.TrimPrefix(key, "stpk_")}, nil
	}}.NewRouter(tokens, log, "test", prometheus.NewRegistry())
	logins := login.New(store, g, factor.New(store, g), tokens)
	logins.Routes(b.router)
	exchange.New(set, exchange.Deps{Store: store, Guard: g, Logins: logins, Log: log}).Routes(b.router)
	return b
}

func (b *bundle) exchange(token string) httpxtest.Answer {
	return httpxtest.Ask(b.t, b.router, "", http.MethodPost, "/api/v1/auth/exchange", map[string]any{"token": token})
}

func TestSubjectIsOneUser(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var all sync.WaitGroup
	users := make([]string, 8)
	for n := range users {
		all.Go(func() { users[n] = b.exchange(b.token("u-1", nil)).Want(t, "exchange", 200, "").Text("user_id") })
	}
	all.Wait()
	for _, user := range users {
		require.Equal(t, "user", user, users[0])
	}
	require.Equal(t, "looks at the issuer's keys", b.fetches, 1)
	// Another subject with the same phone does not get that account.
	other := b.exchange(b.token("u-2", func(_ *jwt.Token, c jwt.MapClaims) { c["nickname"] = "Wang" })).Want(t, "another", 200, "")
	require.Equal(t, "the same user", other.Text("user_id") == users[0], false)
	phones := pgtest.Read[string](t, b.db, `SELECT string_agg(coalesce(phone, '-') || ' ' || name, ', ' ORDER BY id) FROM account.users`)
	require.Equal(t, "phones and names", phones, "+8613800138000 Li, - Wang")
	b.exchange(b.token("u-1", func(_ *jwt.Token, c jwt.MapClaims) { c["nickname"] = "Li 2" })).Want(t, "with another name", 200, "")
	require.Equal(t, "name", pgtest.Read[string](t, b.db, `SELECT name FROM account.users ORDER BY id LIMIT 1`), "Li 2")

	refresh := func(a httpxtest.Answer) httpxtest.Answer {
		return httpxtest.Ask(t, b.router, "", http.MethodPost, "/api/v1/auth/refresh", map[string]any{"refresh_token": a.Text("refresh_token")})
	}
	other = refresh(other).Want(t, "a shopper's refresh", 200, "")
	pgtest.Exec(t, b.db, `UPDATE account.users SET role = 'operator' WHERE name = 'Wang'`)
	b.exchange(b.token("u-2", nil)).Want(t, "staff", 403, "forbidden")
	refresh(other).Want(t, "the refresh of one who became staff", 401, "")
	pgtest.Exec(t, b.db, `UPDATE account.users SET status = 'disabled'`)
	b.exchange(b.token("u-1", nil)).Want(t, "a disabled user", 403, "")
}

// Who logs in by SMS shares the account of the phone: an issuer that lets its users type any phone must hand over none,
// least of all the first admin's.
func TestAttackPhoneClaims(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, verified := range []any{false, "true", nil} {
		b.exchange(b.token("u-1", func(_ *jwt.Token, c jwt.MapClaims) { c["phone_number_verified"] = verified })).Want(t, "exchange", 200, "")
	}
	require.Equal(t, "phones", pgtest.Read[int](t, b.db, `SELECT count(phone)::int FROM account.users`), 0)
	b.exchange(b.token("u-2", func(_ *jwt.Token, c jwt.MapClaims) { c["phone_number"] = firstAdmin })).Want(t, "the first admin's phone", 200, "")
	require.Equal(t, "roles", pgtest.Read[string](t, b.db, `SELECT string_agg(role, ' ') FROM account.users`), "shopper shopper")
}

func TestAttackForeignTokens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exchange(b.token("u-1", nil)).Want(t, "a good one", 200, "")
	b.mu.Lock()
	public, err := x509.MarshalPKIXPublicKey(b.keys["first"].Public())
	b.mu.Unlock()
	require.NoError(t, err)
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	for name, change := range map[string]func(*jwt.Token, jwt.MapClaims){
		"another audience": func(_ *jwt.Token, c jwt.MapClaims) { c["aud"] = "another" },
		"another issuer":   func(_ *jwt.Token, c jwt.MapClaims) { c["iss"] = "https://evil.example" },
		"expired":          func(_ *jwt.Token, c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Minute).Unix() },
		"not yet valid":    func(_ *jwt.Token, c jwt.MapClaims) { c["nbf"] = time.Now().Add(time.Hour).Unix() },
		"no subject":       func(_ *jwt.Token, c jwt.MapClaims) { delete(c, "sub") },
		"no expiry":        func(_ *jwt.Token, c jwt.MapClaims) { delete(c, "exp") },
		"a stranger's key": func(t *jwt.Token, _ jwt.MapClaims) { t.Header["sign"] = stranger },
		"a stranger's key of another kind": func(t *jwt.Token, _ jwt.MapClaims) {
			t.Header["sign"] = ec
			t.Method = jwt.SigningMethodES256
			t.Header["alg"] = "ES256"
		},
		"no algorithm": func(t *jwt.Token, _ jwt.MapClaims) {
			t.Header["sign"] = jwt.UnsafeAllowNoneSignatureType
			t.Method = jwt.SigningMethodNone
			t.Header["alg"] = "none"
		},
		"the public key as a secret": func(t *jwt.Token, _ jwt.MapClaims) {
			t.Header["sign"] = public
			t.Method = jwt.SigningMethodHS256
			t.Header["alg"] = "HS256"
		},
		"the public key's PEM as a secret": func(t *jwt.Token, _ jwt.MapClaims) {
			t.Header["sign"] = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
			t.Method = jwt.SigningMethodHS256
			t.Header["alg"] = "HS256"
		},
		"an algorithm that is not expected": func(t *jwt.Token, _ jwt.MapClaims) { t.Method = jwt.SigningMethodPS256; t.Header["alg"] = "PS256" },
	} {
		b.exchange(b.token("u-1", change)).Want(t, name, 401, "bad-external-token")
	}
	b.exchange("garbage").Want(t, "garbage", 401, "bad-external-token")
	b.exchange(b.token("u-1", func(_ *jwt.Token, c jwt.MapClaims) { c["exp"] = time.Now().Add(-20 * time.Second).Unix() })).Want(t, "within the clocks' skew", 200, "")

	// Made-up key ids do not flood the issuer, and those who have a good token go on.
	for n := range 50 {
		b.exchange(b.token("u-1", func(t *jwt.Token, _ jwt.MapClaims) { t.Header["kid"] = "made-up-" + string(rune('a'+n%26)) })).Want(t, "a made-up key id", 401, "")
	}
	require.Equal(t, "looks at the issuer's keys", b.fetches, 1)
}

// An issuer that is away stops nobody whose key is known; without any key, logins wait.
func TestAttackSlowIssuer(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *exchange.Settings) { s.JWKSURL = s.Issuer + "/keys" })
	b.mu.Lock()
	b.away = true
	b.mu.Unlock()
	b.exchange(b.token("u-1", nil)).Want(t, "no key yet", 503, "issuer-away")
	b.exchange(b.token("u-1", nil)).Want(t, "again", 503, "issuer-away")
	require.Equal(t, "looks at the issuer's keys", b.fetches, 1)

	c := setup(t)
	c.exchange(c.token("u-1", nil)).Want(t, "a good one", 200, "")
	c.mu.Lock()
	c.away, c.hold = true, make(chan struct{}) // it hangs from now on
	c.mu.Unlock()
	t.Cleanup(func() { close(c.hold) })
	c.exchange(c.token("u-2", nil)).Want(t, "a known key", 200, "")
}

func TestBackendNamesItsUsers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	by := func(key string, body map[string]any) httpxtest.Answer {
		return httpxtest.Ask(t, b.router, key, http.MethodPost, "/api/v1/auth/exchange-user", body)
	}
	first := by("stpk_users:exchange", map[string]any{"subject": "u-1", "nickname": "Li", "phone": "13900139000"}).Want(t, "exchange", 200, "")
	again := by("stpk_users:exchange", map[string]any{"subject": "u-1"}).Want(t, "again", 200, "")
	require.Equal(t, "the same user", again.Text("user_id"), first.Text("user_id"))
	token := b.exchange(b.token("u-1", nil)).Want(t, "the issuer's u-1", 200, "")
	require.Equal(t, "subjects of two issuers are one user", token.Text("user_id") == first.Text("user_id"), false)
	by("stpk_orders:read", map[string]any{"subject": "u-1"}).Want(t, "another scope", 403, "key-scope")
	admin := httpxtest.Token(t, auth.NewTokens([]byte("a signing key of thirty-two bytes"), time.Now), auth.Principal{UserID: 7, Role: auth.Admin})
	by(admin, map[string]any{"subject": "u-1"}).Want(t, "an admin", 403, "forbidden")
	by("", map[string]any{"subject": "u-1"}).Want(t, "a stranger", 401, "no-token")
	by("stpk_users:exchange", map[string]any{"subject": "u\u202e1"}).Want(t, "an invisible character", 401, "")
	none := setup(t, func(s *exchange.Settings) { *s = config.Defaults[exchange.Settings]() })
	none.exchange("x").Want(t, "no issuer", 404, "no-issuer")
}

func TestSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	good := exchange.Settings{Issuer: "https://login.example", Audience: "a", Algorithms: []string{"RS256"}}
	require.NoError(t, good.Check())
	for says, change := range map[string]func(*exchange.Settings){
		"--oidc-audience":      func(s *exchange.Settings) { s.Audience = "" },
		`"HS256" is none of`:   func(s *exchange.Settings) { s.Algorithms = []string{"RS256", "HS256"} },
		`"none" is none of`:    func(s *exchange.Settings) { s.Algorithms = []string{"none"} },
		"at least one":         func(s *exchange.Settings) { s.Algorithms = nil },
		"--oidc-issuer must":   func(s *exchange.Settings) { s.Issuer = "http://login.example" },
		"--oidc-jwks-url must": func(s *exchange.Settings) { s.JWKSURL = "ftp://login.example/keys" },
		"set --oidc-issuer":    func(s *exchange.Settings) { s.Issuer = "" },
	} {
		set := good
		change(&set)
		err := set.Check()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
