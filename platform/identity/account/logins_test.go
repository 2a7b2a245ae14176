package account_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/account"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// me makes a request of a logged-in user. What adds a way to log in gets the refresh
// token of the login, unless the test gives one.
func (b *bundle) me(method, path, token string, body any) answer {
	b.t.Helper()
	if members, ok := body.(map[string]any); ok && (path == "/phone" || path == "/wechat") && members["refresh_token"] == nil {
		members["refresh_token"] = ""
		if held, ok := b.held.Load(token); ok {
			members["refresh_token"] = held
		}
	}
	return b.call(method, "/api/v1/me"+path, token, body)
}

func (b *bundle) principal(a answer) auth.Principal {
	b.t.Helper()
	p, err := b.tokens.Verify(a.str("access_token"))
	if err != nil {
		b.t.Fatalf("%d %s: %v", a.status, a.raw, err)
	}
	return p
}

// ended requires that a login is over, and revoked for a reason.
func (b *bundle) ended(login answer, why string) {
	b.t.Helper()
	b.refresh(login.str("refresh_token")).want(b.t, why, 401, "bad-refresh-token")
	require.Equal(b.t, "why the login is revoked", b.revoked.why(b.principal(login).Login), why)
}

// A password change ends the other logins but not the current one.
func TestPasswordChangeEndsOtherLogins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	there := b.register(phone, secret)
	here := b.login(phone, secret)
	change := func(old, fresh string) answer {
		return b.me(http.MethodPost, "/password", here.str("access_token"), map[string]any{"old_password": old, "new_password": fresh})
	}
	const fresh = "battery staple, correct"
	for _, c := range []struct {
		name, old, fresh string
		status           int
		code             string
	}{
		{"a wrong old one", "wrong horse battery", fresh, 403, "wrong-password"},
		{"a weak new one", secret, "12345678", 422, "weak-password"},
		{"the name", secret, "Li Wei", 422, "weak-password"},
		{"changed", secret, fresh, 204, ""},
		{"the old one no longer works", secret, fresh, 403, "wrong-password"},
	} {
		change(c.old, c.fresh).want(t, c.name, c.status, c.code)
	}
	b.ended(there, account.EndedByPassword)
	require.Equal(t, "why the login that changed it is revoked", b.revoked.why(b.principal(here).Login), "")
	b.refresh(here.str("refresh_token")).want(t, "the login that changed it", 200, "")
	b.post("login", map[string]any{"phone": phone, "password": secret}).want(t, "login with the old one", 401, "wrong-login")
	b.login(phone, fresh)
}

// A reset by code ends all logins.
func TestPasswordReset(t *testing.T) {
	t.Parallel()
	b := setup(t)
	login := b.register(phone, secret)
	const fresh = "battery staple, correct"
	reset := func(phone, code string) answer {
		return b.post("password/reset", map[string]any{"phone": phone, "code": code, "password": fresh})
	}
	code := b.code(phone, "reset")
	reset(phone, other(code)).want(t, "a wrong code", 401, "wrong-code")
	reset(phone, code).want(t, "reset", 204, "")
	b.ended(login, account.EndedByReset)
	b.login(phone, fresh)
	const unknown = "13900139000"
	reset(unknown, b.code(unknown, "reset")).want(t, "a phone without an account", 404, "phone-unknown")
	// A user without a password sets the first one the same way.
	a := b.post("login/sms", map[string]any{"phone": unknown, "code": b.code(unknown, "login")})
	a.must(t, "login by code", 200, "")
	a = b.me(http.MethodPost, "/password", a.str("access_token"), map[string]any{"old_password": "", "new_password": fresh})
	a.want(t, "changing a password that is not there", 409, "no-password")
	reset(unknown, b.code(unknown, "reset")).want(t, "the first password", 204, "")
	b.login(unknown, fresh)
}

// A user sees and ends the logins of each device, but not another user's.
func TestLoginsAreListedAndEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.register(phone, secret)
	second := b.post("login", map[string]any{"phone": phone, "password": secret, "device": map[string]any{"kind": "ios", "name": "Li's\u0007 phone"}}, from("203.0.113.7"))
	stranger := b.register("13900139000", secret)
	list := func(token string) (ids []string, current string) {
		a := b.me(http.MethodGet, "/logins", token, nil)
		for _, l := range a.doc["data"].([]any) {
			m := l.(map[string]any)
			if ids = append(ids, m["id"].(string)); m["current"] == true {
				current = m["id"].(string)
			}
		}
		return ids, current
	}
	ids, current := list(second.str("access_token"))
	if len(ids) != 2 || ids[0] != current || id(t, current) != b.principal(second).Login {
		t.Fatalf("logins %v, current %s", ids, current)
	}
	newest := b.me(http.MethodGet, "/logins", second.str("access_token"), nil).doc["data"].([]any)[0].(map[string]any)
	if newest["device_kind"] != "ios" || newest["device_name"] != "Li's phone" || newest["address"] != "203.0.113.7" || newest["how"] != "password" {
		t.Errorf("login %v", newest)
	}
	end := func(token, id string) answer { return b.me(http.MethodDelete, "/logins/"+id, token, nil) }
	end(stranger.str("access_token"), ids[1]).want(t, "a stranger's", 404, "not-found")
	end(second.str("access_token"), ids[1]).want(t, "ended", 204, "")
	end(second.str("access_token"), ids[1]).want(t, "ended twice", 404, "not-found")
	b.ended(first, account.EndedByUser)
	third := b.login(phone, secret)
	b.me(http.MethodPost, "/logout-others", third.str("access_token"), nil).want(t, "logout-others", 204, "")
	if ids, current := list(third.str("access_token")); len(ids) != 1 || ids[0] != current {
		t.Errorf("left %v", ids)
	}
	logout := func(token string) answer { return b.call(http.MethodPost, "/api/v1/auth/logout", token, nil) }
	for range 2 { // the token itself is refused by the revocations, which are not here
		logout(third.str("access_token")).want(t, "logout", 204, "")
	}
	b.ended(third, account.EndedByLogout)
	logout(b.mint(7, auth.Shopper)).want(t, "logout of a minted token", 409, "no-login")
	b.refresh(stranger.str("refresh_token")).want(t, "the stranger", 200, "")
}

// The twenty-first login ends the one that was used least recently.
func TestLoginsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	logins := []answer{b.register(phone, secret)}
	for range 19 {
		logins = append(logins, b.login(phone, secret))
	}
	logins[0] = b.refresh(logins[0].str("refresh_token")) // used just now
	b.login(phone, secret)
	b.ended(logins[1], account.EndedBySurplus) // the one used least recently
	b.refresh(logins[0].str("refresh_token")).want(t, "the one used just now", 200, "")
	require.Equal(t, "open logins", b.count(`SELECT count(*) FROM account.logins WHERE ended_at IS NULL`), 20)
}

// An erased user is anonymous; the id stays with the orders, and the phone may
// register again.
func TestErase(t *testing.T) {
	t.Parallel()
	var told []int64 // what another module erases in the same transaction
	b := setup(t, func(_ *account.Config, d *deps) {
		d.erase = append(d.erase, func(ctx context.Context, tx pgx.Tx, user int64) error {
			told = append(told, user)
			_, err := tx.Exec(ctx, `SELECT 1`)
			return err
		})
	})
	login := b.register(phone, secret)
	token := login.str("access_token")
	b.me(http.MethodPost, "/wechat", token, map[string]any{"code": b.wechat.Code("open-li", "")}).must(t, "link", 204, "")
	code := b.code(phone, "erase")
	pgtest.Exec(t, b.pool, `UPDATE account.users SET email = 'li@example.com'`) // as the shop's own login says
	for _, c := range []struct {
		name   string
		body   map[string]any
		status int
		code   string
	}{
		{"no proof", map[string]any{}, 403, "proof-required"},
		{"a wrong password", map[string]any{"password": "wrong horse battery"}, 403, "wrong-password"},
		{"a wrong code", map[string]any{"code": other(code)}, 401, "wrong-code"},
		{"another user's WeChat", map[string]any{"wechat_code": b.wechat.Code("open-wang", "")}, 403, "proof-required"},
		{"erased", map[string]any{"code": code}, 204, ""},
	} {
		b.me(http.MethodDelete, "", token, c.body).want(t, c.name, c.status, c.code)
	}
	user := b.principal(login).UserID
	require.Equal(t, "users that other modules erased", told, []int64{user})
	require.Equal(t, "erased accounts", b.count(`SELECT count(*) FROM account.users WHERE id = $1 AND status = 'erased'`, user), 1)
	for _, sql := range []string{
		`SELECT count(*) FROM account.users WHERE phone IS NOT NULL OR email IS NOT NULL OR name <> '' OR password IS NOT NULL`,
		`SELECT count(*) FROM account.logins WHERE device_id <> '' OR device_name <> '' OR address IS NOT NULL OR ended_at IS NULL`,
		`SELECT count(*) FROM account.wechat_identities`,
		`SELECT count(*) FROM account.sms_codes`,
		`SELECT count(*) FROM account.notices`,
	} {
		require.Equal(t, sql, b.count(sql), 0)
	}
	require.Equal(t, "why the user's tokens are revoked", b.revoked.whyUser(user), account.EndedByErasure)
	for name, a := range map[string]answer{
		"me":            b.me(http.MethodGet, "", token, nil),
		"erasing again": b.me(http.MethodDelete, "", token, map[string]any{"password": secret}),
	} {
		if a.status < 400 {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	b.refresh(login.str("refresh_token")).want(t, "refresh", 401, "bad-refresh-token")
	if again := b.register(phone, secret); b.principal(again).UserID == user {
		t.Error("the phone got the erased account back")
	} else if a := b.me(http.MethodDelete, "", again.str("access_token"), map[string]any{"password": secret}); a.status != 204 {
		t.Errorf("by password: %d %s", a.status, a.raw)
	}
}

// Old codes and logins are deleted; live ones stay.
func TestTidy(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, _ *deps) { c.KeepEnded = time.Hour })
	b.register(phone, secret)
	for range 3 {
		b.login(phone, secret)
	}
	b.code(phone, "login")
	b.code(phone, "reset")
	b.exec(`UPDATE account.logins SET ended_at = clock_timestamp() - interval '2 hours', ended_why = 'logout' WHERE id = 1`)
	b.exec(`UPDATE account.logins SET expires_at = clock_timestamp() - interval '2 hours' WHERE id = 2`)
	b.exec(`UPDATE account.logins SET ended_at = clock_timestamp() - interval '30 minutes', ended_why = 'logout' WHERE id = 3`)
	b.exec(`UPDATE account.sms_codes SET expires_at = clock_timestamp() - interval '1 hour' WHERE purpose <> 'reset'`)
	require.NoError(t, b.accts.Tidy(t.Context()))
	if n := b.count(`SELECT count(*) FROM account.logins WHERE id IN (3, 4)`); n != 2 || b.count(`SELECT count(*) FROM account.logins`) != 2 {
		t.Error("the wrong logins are left")
	}
	if n := b.count(`SELECT count(*) FROM account.sms_codes WHERE purpose = 'reset'`); n != 1 || b.count(`SELECT count(*) FROM account.sms_codes`) != 1 {
		t.Error("the wrong codes are left")
	}
}
