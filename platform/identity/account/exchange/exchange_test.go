package exchange_test

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/clock"
	"stampede/platform/base/config"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/exchange"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/revoke"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/oidctest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const firstAdmin = "13700137000"

type bundle struct {
	*oidctest.Issuer
	t      *testing.T
	db     *pgxpool.Pool
	router *httpx.Router
}

func setup(t *testing.T, change ...func(*exchange.Settings)) *bundle {
	t.Helper()
	b := &bundle{Issuer: oidctest.New(t), t: t, db: pgtest.DB(t)}
	pgtest.Work(t, b.instance(change...).Workers()[0].Run)
	return b
}

// instance lets another process of the shop answer from now on, whose memory learns of no logout unless the workers run.
func (b *bundle) instance(change ...func(*exchange.Settings)) *revoke.Service {
	t := b.t
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	texts := config.Defaults[sms.Settings]()
	texts.SMSSignature = "Stampede"
	key := []byte("a signing key of thirty-two bytes")
	accounts := config.Defaults[account.Settings]()
	accounts.FirstAdminPhone = firstAdmin
	cfg, err := account.NewConfig(accounts, texts, key)
	require.NoError(t, err)
	cfg.LoginURL = "https://shop.example/login" // it refuses no exchange
	revocations := revoke.New(revoke.Deps{DB: b.db, Log: log, Metrics: prometheus.NewRegistry(), Clock: clock.System{}})
	require.NoError(t, revocations.Load(t.Context()))
	store := &account.Store{DB: b.db, Revoke: revocations, Config: cfg, Log: log, Metrics: prometheus.NewRegistry()}
	redis := pgtest.Redis(t)
	g := guard.New(guard.Deps{Store: store, Redis: redis, Limits: ratelimit.New(redis, log, prometheus.NewRegistry())})
	tokens := auth.NewTokens(key, time.Now)
	set := config.Defaults[exchange.Settings]()
	set.Issuer, set.Audience, set.Phone, set.Email, set.Nickname = b.URL, oidctest.Audience, "phone_number", "email", "nickname"
	for _, c := range change {
		c(&set)
	}
	require.NoError(t, set.Check())
	b.router = httpx.Options{Keys: func(key string) (auth.Principal, error) {
		scopes, namespace, _ := strings.Cut(strings.TrimPrefix(key, "stpk_"), "@")
		return auth.Principal{UserID: 5, Role: auth.Viewer, Scopes: scopes, Namespace: cmp.Or(namespace, "backend")}, nil
	}}.NewRouter(tokens, log, "test", prometheus.NewRegistry())
	logins := login.New(store, g, factor.New(store, g), tokens)
	logins.Routes(b.router)
	exchange.New(set, exchange.Deps{Store: store, Guard: g, Logins: logins}).Routes(b.router)
	return revocations
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
		all.Go(func() { users[n] = b.exchange(b.Token("u-1", nil)).Want(t, "exchange", 200, "").Text("user_id") })
	}
	all.Wait()
	for _, user := range users {
		require.Equal(t, "user", user, users[0])
	}
	require.Equal(t, "looks at the issuer's keys", b.Fetches(), 1)
	// Another subject with the same phone does not get that account.
	other := b.exchange(b.Token("u-2", func(_ *jwt.Token, c jwt.MapClaims) { c["nickname"] = "Wang" })).Want(t, "another", 200, "")
	require.Equal(t, "the same user", other.Text("user_id") == users[0], false)
	phones := pgtest.Read[string](t, b.db, `SELECT string_agg(coalesce(phone, '-') || ' ' || name, ', ' ORDER BY id) FROM account.users`)
	require.Equal(t, "phones and names", phones, "+8613800138000 Li, - Wang")
	b.exchange(b.Token("u-1", func(_ *jwt.Token, c jwt.MapClaims) { c["nickname"] = "Li 2" })).Want(t, "with another name", 200, "")
	require.Equal(t, "name", pgtest.Read[string](t, b.db, `SELECT name FROM account.users ORDER BY id LIMIT 1`), "Li 2")

	refresh := func(a httpxtest.Answer) httpxtest.Answer {
		return httpxtest.Ask(t, b.router, "", http.MethodPost, "/api/v1/auth/refresh", map[string]any{"refresh_token": a.Text("refresh_token")})
	}
	other = refresh(other).Want(t, "a shopper's refresh", 200, "")
	pgtest.Exec(t, b.db, `UPDATE account.users SET role = 'operator' WHERE name = 'Wang'`)
	b.exchange(b.Token("u-2", nil)).Want(t, "staff", 403, "staff-login")
	refresh(other).Want(t, "the refresh of one who became staff", 401, "")
	pgtest.Exec(t, b.db, `UPDATE account.users SET status = 'disabled'`)
	b.exchange(b.Token("u-1", nil)).Want(t, "a disabled user", 403, "")
}

// Who logs in by SMS shares the account of the phone: an issuer that lets its users type any phone must hand over none,
// least of all the first admin's.
func TestAttackPhoneClaims(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, verified := range []any{false, "true", nil} {
		b.exchange(b.Token("u-1", func(_ *jwt.Token, c jwt.MapClaims) { c["phone_number_verified"] = verified })).Want(t, "exchange", 200, "")
	}
	require.Equal(t, "phones", pgtest.Read[int](t, b.db, `SELECT count(phone)::int FROM account.users`), 0)
	b.exchange(b.Token("u-2", func(_ *jwt.Token, c jwt.MapClaims) { c["phone_number"] = firstAdmin })).Want(t, "the first admin's phone", 200, "")
	require.Equal(t, "roles", pgtest.Read[string](t, b.db, `SELECT string_agg(role, ' ') FROM account.users`), "shopper shopper")
}

// Messages go to a user's address. It follows what the issuer or the backend says: an address that is not verified, or is none,
// removes the last one, and silence keeps it. It finds no account.
func TestEmailFollowsTheClaim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		subject, email string
		verified       any
		want           string
	}{
		{"u-1", "li@example.com", "true", "-"},
		{"u-1", "li@example.com", nil, "-"},
		{"u-1", "Li <li@example.com>", true, "-"},
		{"u-1", "li@example.com\r\nBcc: all@example.com", true, "-"},
		{"u-1", strings.Repeat("l", 250) + "@example.com", true, "-"},
		{"u-1", "li\u202e@example.com", true, "-"},
		{"u-1", "li\u009b8m@example.com", true, "-"},
		{"u-1", "li@example.com", true, "li@example.com"},
		{"u-2", "li@example.com", true, "li@example.com li@example.com"},
		{"u-1", "li2@example.com", true, "li2@example.com li@example.com"},
		{"u-1", "", nil, "li2@example.com li@example.com"},
		{"u-1", "x@example.com", false, "- li@example.com"},
		{"u-1", "li2@example.com", true, "li2@example.com li@example.com"},
	} {
		b.exchange(b.Token(c.subject, func(_ *jwt.Token, claims jwt.MapClaims) {
			claims["email"], claims["email_verified"] = c.email, c.verified
			if c.email == "" {
				delete(claims, "email")
			}
		})).Want(t, "exchange", 200, "")
		require.Equal(t, "addresses", pgtest.Read[string](t, b.db, `SELECT string_agg(coalesce(email, '-'), ' ' ORDER BY id) FROM account.users`), c.want)
	}
	store := &account.Store{DB: b.db}
	users := []int64{pgtest.Read[int64](t, b.db, `SELECT min(id) FROM account.users`), pgtest.Read[int64](t, b.db, `SELECT max(id) FROM account.users`), 42}
	// As an older version erases, which knows no address.
	pgtest.Exec(t, b.db, `UPDATE account.users SET status = 'erased', phone = NULL, name = '' WHERE id = $1`, users[1])
	contacts, err := store.ContactsOf(t.Context(), users)
	require.NoError(t, err)
	require.Equal(t, "for messages", contacts, map[int64]account.Contact{users[0]: {Phone: "+8613800138000", Email: "li2@example.com"}})
	for _, c := range []struct{ body, want string }{
		{`"email":"wu@example.com"`, "wu@example.com"},
		{`"nickname":"Wu"`, "wu@example.com"},
		{`"email":"wu..wu@example.com"`, "-"},
		{`"email":"wu2@example.com"`, "wu2@example.com"},
		{`"email":""`, "-"},
		{`"email":"no address"`, "-"},
	} {
		body := json.RawMessage(`{"subject":"u-3",` + c.body + `}`)
		httpxtest.Ask(t, b.router, "stpk_users:exchange", http.MethodPost, "/api/v1/auth/exchange-user", body).Want(t, "by a backend", 200, "")
		require.Equal(t, c.body, pgtest.Read[string](t, b.db, `SELECT coalesce(email, '-') FROM account.users ORDER BY id DESC LIMIT 1`), c.want)
	}
}

func TestAttackForeignTokens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exchange(b.Token("u-1", nil)).Want(t, "a good one", 200, "")
	public, err := x509.MarshalPKIXPublicKey(b.Key("first"))
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
		b.exchange(b.Token("u-1", change)).Want(t, name, 401, "bad-external-token")
	}
	b.exchange("garbage").Want(t, "garbage", 401, "bad-external-token")
	b.exchange(b.Token("u-1", func(_ *jwt.Token, c jwt.MapClaims) { c["exp"] = time.Now().Add(-20 * time.Second).Unix() })).Want(t, "within the clocks' skew", 200, "")

	// Made-up key ids do not flood the issuer, and those who have a good token go on.
	for n := range 50 {
		b.exchange(b.Token("u-1", func(t *jwt.Token, _ jwt.MapClaims) { t.Header["kid"] = "made-up-" + string(rune('a'+n%26)) })).Want(t, "a made-up key id", 401, "")
	}
	require.Equal(t, "looks at the issuer's keys", b.Fetches(), 1)
}

// logoutToken is one about a user's logout at the issuer, changed as the test says.
func (b *bundle) logoutToken(subject string, change func(*jwt.Token, jwt.MapClaims)) string {
	return b.Token(subject, func(t *jwt.Token, c jwt.MapClaims) {
		c["jti"], c["exp"] = rand.Text(), time.Now().Add(2*time.Minute).Unix()
		c["events"] = map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}
		if change != nil {
			change(t, c)
		}
	})
}

// A logout at the shop ends the user's logins here, and nothing else that comes to the same address does.
func TestAttackLogoutTokens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	login := func(subject string) (refresh string) {
		return b.exchange(b.Token(subject, nil)).Want(t, "exchange", 200, "").Text("refresh_token")
	}
	lasts := func(what, refresh string, status int) (successor string) {
		a := httpxtest.Ask(t, b.router, "", http.MethodPost, "/api/v1/auth/refresh", map[string]any{"refresh_token": refresh})
		require.Equal(t, what, a.Status, status)
		successor, _ = a.Doc["refresh_token"].(string)
		return successor
	}
	post := func(token string) httpxtest.Answer {
		return httpxtest.Ask(t, b.router, "", http.MethodPost, "/api/v1/auth/backchannel-logout", "logout_token="+token, "Content-Type", "application/x-www-form-urlencoded")
	}
	phone, desktop, other := login("u-1"), login("u-1"), login("u-2")
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, change := range map[string]func(*jwt.Token, jwt.MapClaims){
		"another audience": func(_ *jwt.Token, c jwt.MapClaims) { c["aud"] = "another" },
		"another issuer":   func(_ *jwt.Token, c jwt.MapClaims) { c["iss"] = "https://evil.example" },
		"a stranger's key": func(t *jwt.Token, _ jwt.MapClaims) { t.Header["sign"] = stranger },
		"expired":          func(_ *jwt.Token, c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Minute).Unix() },
		"an old one":       func(_ *jwt.Token, c jwt.MapClaims) { c["iat"] = time.Now().Add(-11 * time.Minute).Unix() },
		"one of tomorrow":  func(_ *jwt.Token, c jwt.MapClaims) { c["iat"] = time.Now().Add(24 * time.Hour).Unix() },
		"no time of issue": func(_ *jwt.Token, c jwt.MapClaims) { delete(c, "iat") },
		"a nonce":          func(_ *jwt.Token, c jwt.MapClaims) { c["nonce"] = "" },
		"no events":        func(_ *jwt.Token, c jwt.MapClaims) { delete(c, "events") },
		"another event": func(_ *jwt.Token, c jwt.MapClaims) {
			c["events"] = map[string]any{"https://example.com": map[string]any{}}
		},
		"an event of no object": func(_ *jwt.Token, c jwt.MapClaims) {
			c["events"] = map[string]any{"http://schemas.openid.net/event/backchannel-logout": true}
		},
		"no jti":                 func(_ *jwt.Token, c jwt.MapClaims) { delete(c, "jti") },
		"a session without user": func(_ *jwt.Token, c jwt.MapClaims) { delete(c, "sub"); c["sid"] = "s-1" },
	} {
		post(b.logoutToken("u-1", change)).Want(t, name, 400, "bad-logout-token")
	}
	post("").Want(t, "no token", 400, "bad-logout-token")
	post(b.Token("u-1", nil)).Want(t, "an ID token", 400, "bad-logout-token")
	b.exchange(b.logoutToken("u-1", nil)).Want(t, "a login with a logout token", 401, "bad-external-token")
	phone, desktop = lasts("after tokens that are refused", phone, 200), lasts("after tokens that are refused", desktop, 200)

	token := b.logoutToken("u-1", nil)
	require.Equal(t, "a logout", post(token).Status, 200)
	lasts("on the phone after the logout", phone, 401)
	lasts("on the desktop after the logout", desktop, 401)
	lasts("of another user", other, 200)
	again := login("u-1")
	require.Equal(t, "the same token again", post(token).Status, 200)
	lasts("opened after the logout", again, 200)
	require.Equal(t, "a subject that has never been here", post(b.logoutToken("u-9", nil)).Status, 200)
}

// A token that was issued before its user logged out at the shop opens no login afterwards, nor does one that arrives late.
func TestAttackTokenThatOutlivesTheLogout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	issued := func(subject string, ago time.Duration) string {
		return b.Token(subject, func(_ *jwt.Token, c jwt.MapClaims) { c["iat"] = time.Now().Add(-ago).Unix() })
	}
	logout := func(subject string) {
		a := httpxtest.Ask(t, b.router, "", http.MethodPost, "/api/v1/auth/backchannel-logout", "logout_token="+b.logoutToken(subject, nil), "Content-Type", "application/x-www-form-urlencoded")
		require.Equal(t, "a logout", a.Status, 200)
	}
	kept := issued("u-1", time.Minute)
	b.exchange(kept).Want(t, "before the logout", 200, "")
	elsewhere := *b
	elsewhere.instance()
	logout("u-1")
	b.exchange(kept).Want(t, "after it", 401, "bad-external-token")
	elsewhere.exchange(kept).Want(t, "at an instance that has not read of it", 401, "bad-external-token")
	b.exchange(issued("u-1", 2*time.Second)).Want(t, "a login of now, at an issuer whose clock is behind", 200, "")
	b.exchange(issued("u-1", -20*time.Second)).Want(t, "and ahead", 200, "")
	b.exchange(issued("u-2", time.Hour)).Want(t, "of another user", 200, "")
	b.exchange(b.Token("u-1", func(_ *jwt.Token, c jwt.MapClaims) { delete(c, "iat") })).Want(t, "of an issuer that does not say when", 200, "")
	httpxtest.Ask(t, b.router, "stpk_users:exchange", http.MethodPost, "/api/v1/auth/exchange-user", map[string]any{"subject": "u-1"}).Want(t, "by a backend", 200, "")
}

// An issuer that is away stops nobody whose key is known; without any key, logins wait.
func TestAttackSlowIssuer(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *exchange.Settings) { s.JWKSURL = s.Issuer + "/keys" })
	b.GoAway(nil)
	b.exchange(b.Token("u-1", nil)).Want(t, "no key yet", 503, "issuer-away")
	b.exchange(b.Token("u-1", nil)).Want(t, "again", 503, "issuer-away")
	require.Equal(t, "looks at the issuer's keys", b.Fetches(), 1)

	c := setup(t)
	c.exchange(c.Token("u-1", nil)).Want(t, "a good one", 200, "")
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	c.GoAway(hold)
	c.exchange(c.Token("u-2", nil)).Want(t, "a known key", 200, "")
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
	token := b.exchange(b.Token("u-1", nil)).Want(t, "the issuer's u-1", 200, "")
	require.Equal(t, "subjects of two issuers are one user", token.Text("user_id") == first.Text("user_id"), false)
	app := by("stpk_users:exchange@app", map[string]any{"subject": "u-1"}).Want(t, "by another system", 200, "")
	require.Equal(t, "subjects of two systems are one user", app.Text("user_id") == first.Text("user_id"), false)
	require.Equal(t, "namespaces", pgtest.Read[string](t, b.db, `SELECT string_agg(issuer, ' ' ORDER BY issuer) FROM account.external_users WHERE issuer NOT LIKE 'http%'`), "app backend")
	by("stpk_orders:read", map[string]any{"subject": "u-1"}).Want(t, "another scope", 403, "key-scope")
	admin := httpxtest.Token(t, auth.NewTokens([]byte("a signing key of thirty-two bytes"), time.Now), auth.Principal{UserID: 7, Role: auth.Admin})
	by(admin, map[string]any{"subject": "u-1"}).Want(t, "an admin", 403, "forbidden")
	by("", map[string]any{"subject": "u-1"}).Want(t, "a stranger", 401, "no-token")
	by("stpk_users:exchange", map[string]any{"subject": "u\u202e1"}).Want(t, "an invisible character", 401, "")
	// A user who has added an authenticator app shows its code also here.
	pgtest.Exec(t, b.db, `INSERT INTO account.totp (user_id, secret, confirmed_at) SELECT id, decode(repeat('00', 48), 'hex'), now() FROM account.users`)
	made := strings.Repeat("a", 26)
	withToken := func(code string) httpxtest.Answer {
		return httpxtest.Ask(t, b.router, "", http.MethodPost, "/api/v1/auth/exchange", map[string]any{"token": b.Token("u-1", nil), "totp": code})
	}
	by("stpk_users:exchange", map[string]any{"subject": "u-1"}).Want(t, "the backend alone", 403, "totp-required")
	by("stpk_users:exchange", map[string]any{"subject": "u-1", "totp": made}).Want(t, "a made-up recovery code", 401, "wrong-totp")
	withToken("").Want(t, "the token alone", 403, "totp-required")
	withToken(made).Want(t, "a made-up recovery code", 401, "wrong-totp")
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
		"--login-url must":     func(s *exchange.Settings) { s.LoginURL = "javascript:alert(1)" },
		"--login-url brings":   func(s *exchange.Settings) { *s = exchange.Settings{LoginURL: "https://shop.example/login"} },
	} {
		set := good
		change(&set)
		err := set.Check()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
