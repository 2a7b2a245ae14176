package account_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/accountevent"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/blacklist"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

var errRefusedHere = blacklist.ErrRefused.Saying(fault.T("You cannot log in here.", "您不能登录。"))

const (
	phone  = "13800138000"
	secret = "correct horse battery"
)

// Every way to log in, each answer, and what was stored.
func TestWaysIn(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, _ *deps) { c.SMSReach = sms.Reach{"+86", "+49"} })
	in := func(kv ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	code := b.code(phone, "register")
	device := map[string]any{"kind": "ios", "id": "device-1", "name": "Li's phone"}
	for _, c := range []struct {
		name, path string
		body       map[string]any
		status     int
		code       string
	}{
		{"an impossible number", "sms-codes", in("phone", "12345678901", "purpose", "login"), 422, "invalid"},
		{"a country without SMS", "sms-codes", in("phone", "+12025550123", "purpose", "login"), 422, "sms-country-refused"},
		{"an unknown purpose", "sms-codes", in("phone", phone, "purpose", "fun"), 422, "invalid"},
		{"an unknown member", "login", in("phone", phone, "password", secret, "role", "admin"), 422, "invalid"},
		{"a short password", "register", in("phone", phone, "code", code, "password", "short"), 422, "weak-password"},
		{"a common password", "register", in("phone", phone, "code", code, "password", "Password123"), 422, "weak-password"},
		{"the phone as password", "register", in("phone", phone, "code", code, "password", phone), 422, "weak-password"},
		{"a wrong code", "register", in("phone", phone, "code", other(code), "password", secret), 401, "wrong-code"},
		{"a code for another phone", "register", in("phone", "13900139000", "code", code, "password", secret), 401, "wrong-code"},
		{"a code for another purpose", "login/sms", in("phone", phone, "code", code), 401, "wrong-code"},
		{"an unknown kind of device", "register", in("phone", phone, "code", code, "password", secret, "device", in("kind", "fridge")), 422, "invalid"},
		{"registered", "register", in("phone", "+86 138-0013-8000", "code", code, "password", secret, "device", device), 201, ""},
		{"the code again", "register", in("phone", phone, "code", code, "password", secret), 401, "wrong-code"},
		{"a wrong password", "login", in("phone", phone, "password", "wrong horse battery"), 401, "wrong-login"},
		{"an unknown phone", "login", in("phone", "13900139000", "password", secret), 401, "wrong-login"},
		{"the right password", "login", in("phone", phone, "password", secret, "device", device), 200, ""},
		{"no wechat code", "login/wechat", in("code", "made-up"), 401, "wechat-bad-code"},
		{"nothing", "refresh", in("refresh_token", ""), 401, "bad-refresh-token"},
	} {
		b.post(c.path, c.body).want(t, c.name, c.status, c.code)
	}
	b.post("register", in("phone", phone, "code", b.code(phone, "register"), "password", secret)).want(t, "registered twice", 409, "phone-taken")
	a := b.post("login/sms", in("phone", phone, "code", b.code(phone, "login"), "device", device))
	p, err := b.tokens.Verify(a.str("access_token"))
	if err != nil || p.Role != auth.Shopper || p.Device != "device-1" || p.Login == 0 || p.UserID < 1_000_000 {
		t.Errorf("token %+v, %v", p, err)
	}
	if a.str("token_type") != "Bearer" || a.doc["expires_in"] != 900.0 || !strings.HasPrefix(a.str("refresh_token"), "rt_") || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("login answered %s", a.raw)
	}
	me := b.call(http.MethodGet, "/api/v1/me", a.str("access_token"), nil)
	pgtest.Exec(t, b.pool, `UPDATE account.users SET email = 'li@example.com'`) // as the shop's own login says
	for role, want := range map[auth.Role]string{auth.Viewer: "l****@example.com", auth.Operator: "li@example.com"} {
		require.Equal(t, "address", b.admin(role, http.MethodGet, "/"+a.str("user_id"), nil).doc["user"].(map[string]any)["email"], any(want))
	}
	require.Equal(t, "own address", b.me(http.MethodGet, "", a.str("access_token"), nil).str("email"), "l****@example.com")
	if me.str("id") != a.str("user_id") || me.str("phone") != "138****8000" || me.doc["has_password"] != true || me.str("role") != "shopper" {
		t.Errorf("me: %d %s", me.status, me.raw)
	}
	// An unregistered phone gets an account by its first code.
	fresh := b.post("login/sms", in("phone", "+4915112345678", "code", b.code("+4915112345678", "login")))
	if fresh.status != 200 || fresh.str("user_id") == a.str("user_id") {
		t.Errorf("first login by code: %d %s", fresh.status, fresh.raw)
	}
	require.Equal(t, "registrations that are events, of their users", b.count(`SELECT count(*) FROM platform.outbox o
		JOIN account.users u ON o.payload = convert_to(format('{"user_id":"%s"}', u.id), 'UTF8') WHERE o.subject = $1`, accountevent.SubjectRegistered), 2)
	user := id(t, fresh.str("user_id"))
	if got, err := b.accts.PhonesOf(t.Context(), []int64{42, user}); len(got) != 1 || got[user] != "+4915112345678" || err != nil {
		t.Errorf("PhonesOf this user and one without an account = %v, %v", got, err)
	}
	b.call(http.MethodGet, "/api/v1/me", b.mint(42, auth.Shopper), nil).want(t, "me of a minted token", 404, "no-account")
	plain := b.count(`SELECT count(*) FROM account.sms_codes WHERE encode(code_hash, 'escape') LIKE '%' || $1 || '%'`, code)
	require.Equal(t, "codes in plain text", plain, 0)
}

// A failed login reveals nothing about a phone, by its answer or by its work: the
// same bytes, and exactly one hash, whether there is no account, an account without
// a password, or a wrong password.
func TestUnknownPhoneTakesTheSameWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(phone, secret)
	const noPassword = "13700137000"
	b.post("login/sms", map[string]any{"phone": noPassword, "code": b.code(noPassword, "login")}).must(t, "login by code", 200, "")
	var bodies []string
	for _, p := range []string{phone, noPassword, "13600136000"} {
		before := b.figure("stampede_account_password_hashes_total")
		a := b.post("login", map[string]any{"phone": p, "password": "a wrong password"}, header("X-Request-Id", "same"))
		a.want(t, p, 401, "wrong-login")
		require.Equal(t, "hashes for "+p, b.figure("stampede_account_password_hashes_total")-before, 1)
		bodies = append(bodies, a.raw)
	}
	if bodies[0] != bodies[1] || bodies[1] != bodies[2] {
		t.Errorf("the answers differ: %q", bodies)
	}
}

// One code opens one login, however many concurrent requests carry it, and allows
// five attempts.
func TestACodeIsGoodOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	code := b.code(phone, "login")
	won := 0
	for _, a := range all(100, func(int) answer { return b.post("login/sms", map[string]any{"phone": phone, "code": code}) }) {
		switch {
		case a.status == 200:
			won++
		case !a.is(401, "wrong-code"):
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	require.Equal(t, "how many of 100 got in, and logins", [2]int{won, b.count(`SELECT count(*) FROM account.logins`)}, [2]int{1, 1})

	code = b.code(phone, "login")
	all(5, func(int) answer { return b.post("login/sms", map[string]any{"phone": phone, "code": other(code)}) })
	b.post("login/sms", map[string]any{"phone": phone, "code": code}).want(t, "the right code after five wrong ones", 401, "wrong-code")

	code = b.code(phone, "login")
	b.exec(`UPDATE account.sms_codes SET expires_at = clock_timestamp()`)
	b.post("login/sms", map[string]any{"phone": phone, "code": code}).want(t, "an expired code", 401, "wrong-code")
	first := b.code(phone, "login")
	second := b.code(phone, "login")
	if a := b.post("login/sms", map[string]any{"phone": phone, "code": first}); first != second && !a.is(401, "wrong-code") {
		t.Errorf("a code that was replaced: %d %s", a.status, a.raw)
	}
}

// strangers is a blacklist of every registered user.
type strangers struct{ guard.Blacklist }

func (strangers) Refuse(_ string, user int64, _, _ string, _ netip.Addr) error {
	if user != 0 {
		return errRefusedHere
	}
	return nil
}

// laterList is a blacklist that the test replaces; it starts empty.
type laterList struct{ guard.Blacklist }

func (l *laterList) Refuse(way string, user int64, phone, device string, from netip.Addr) error {
	if l.Blacklist == nil {
		return nil
	}
	return l.Blacklist.Refuse(way, user, phone, device, from)
}

// A refusal after the code was right, as for a user who was listed meanwhile, leaves
// no account behind, and the code is used.
func TestARefusalLeavesTheCodeUsed(t *testing.T) {
	t.Parallel()
	list := &laterList{}
	b := setup(t, func(_ *account.Config, d *deps) { d.Blacklist = list })
	for path, purpose := range map[string]string{"login/sms": "login", "register": "register"} {
		body := map[string]any{"phone": phone, "code": b.code(phone, purpose)}
		if path == "register" {
			body["password"] = secret
		}
		list.Blacklist = strangers{}
		b.post(path, body).want(t, path, 403, "login-refused")
		require.Equal(t, "accounts of a user whom "+path+" refused", b.count(`SELECT count(*) FROM account.users`), 0)
		list.Blacklist = nil
		b.post(path, body).want(t, fmt.Sprintf("%s, the code again", path), 401, "wrong-code")
	}
}

// A password stored with other costs is stored with today's at the next login, also
// when many logins run concurrently.
func TestPasswordIsHashedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, _ *deps) { c.PasswordParallel = 16 })
	b.register(phone, secret)
	old := pgtest.Read[string](t, b.pool, `SELECT password FROM account.users`)
	dearer := setup(t, func(c *account.Config, d *deps) { c.Password.Passes, c.PasswordParallel, d.DB = 2, 16, b.pool })
	for _, a := range all(10, func(int) answer { return dearer.post("login", map[string]any{"phone": phone, "password": secret}) }) {
		a.want(t, "login", 200, "")
	}
	now := pgtest.Read[string](t, b.pool, `SELECT password FROM account.users`)
	if !strings.HasPrefix(old, "$argon2id$v=19$m=64,t=1,p=1$") || !strings.HasPrefix(now, "$argon2id$v=19$m=64,t=2,p=1$") {
		t.Errorf("%s became %s", old, now)
	}
}

// A password that changes between its check and the login opens nothing, and a login
// that waits for a disabling is refused.
func TestChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		status int
		code   string
	}{
		"password changed": {`UPDATE account.users SET password = $1`, 401, "wrong-login"},
		"account disabled": {`UPDATE account.users SET status = 'disabled', name = left($1, 1)`, 403, "account-disabled"},
		"neither":          {`UPDATE account.users SET name = left($1, 1)`, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.register(phone, secret)
			b.register("13900139000", "another password")
			tx := pgtest.Begin(t, b.pool)
			other := pgtest.Read[string](t, tx, `SELECT password FROM account.users WHERE phone = '+8613900139000'`)
			pgtest.Exec(t, tx, c.change, other)
			got := make(chan answer, 1)
			go func() {
				defer close(got)
				got <- b.post("login", map[string]any{"phone": phone, "password": secret})
			}()
			pgtest.Eventually(t, 30*time.Second, func() bool {
				return b.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
			}, "a login that waits for the row")
			require.NoError(t, tx.Commit(t.Context()))
			(<-got).want(t, name, c.status, c.code)
		})
	}
}

// Without a gateway a code request fails instead of waiting.
func TestNoGateway(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *account.Config, d *deps) { d.SMS = nil })
	b.post("sms-codes", map[string]any{"phone": phone, "purpose": "login"}).want(t, "a code", 503, "sms-unavailable")
}
