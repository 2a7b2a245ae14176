package account_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/account"
	"stampede/platform/workshop/require"
)

// app is an authenticator app. Each call returns a code that was not used before, as
// far as the tolerated skew reaches: two in a row.
type app struct {
	t      *testing.T
	secret string
	at     time.Time
}

func (a *app) code() string {
	a.t.Helper()
	code, err := totp.GenerateCode(a.secret, a.at)
	require.NoError(a.t, err)
	a.at = a.at.Add(30 * time.Second)
	return code
}

// startFactor starts a second factor of a login's user and returns the app that has it.
func (b *bundle) startFactor(li answer) *app {
	b.t.Helper()
	begun := b.me(http.MethodPost, "/totp", li.str("access_token"), map[string]any{"refresh_token": li.str("refresh_token")})
	begun.must(b.t, "start", 201, "")
	return &app{b.t, begun.str("secret"), time.Now()}
}

// confirmFactor puts it into force and returns the recovery codes.
func (b *bundle) confirmFactor(li answer, code string) []string {
	b.t.Helper()
	a := b.me(http.MethodPost, "/totp/confirm", li.str("access_token"), map[string]any{"code": code})
	if codes := a.list("recovery_codes"); a.status == 200 && len(codes) == 8 {
		return codes
	}
	b.t.Fatalf("confirm: %d %s", a.status, a.raw)
	return nil
}

// TestAttackStolenAdminPassword: a password alone gives no admin's token, before the
// admin has a second factor nor afterwards.
func TestAttackStolenAdminPassword(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, _ *deps) { c.AdminWithoutTOTP = false })
	user := b.register(phone, secret).str("user_id")
	b.exec(`UPDATE account.users SET role = 'admin'`)
	admin, thief := b.login(phone, secret), b.login(phone, secret)
	require.Equal(t, "an admin without a second factor", b.principal(admin).Role, auth.Shopper)

	// The access token alone adds no second factor.
	token := admin.str("access_token")
	b.me(http.MethodPost, "/totp", token, map[string]any{"refresh_token": token}).want(t, "start with an access token", 403, "proof-required")
	phoneApp := b.startFactor(admin)
	require.Equal(t, "a login before the confirmation", b.principal(b.login(phone, secret)).Role, auth.Shopper)
	b.me(http.MethodPost, "/totp/confirm", token, map[string]any{"code": "000000"}).want(t, "a wrong code", 401, "wrong-totp")
	first := phoneApp.code()
	b.confirmFactor(admin, first)
	b.refresh(thief.str("refresh_token")).want(t, "a login from before", 401, "bad-refresh-token")
	admin = b.refresh(admin.str("refresh_token"))
	require.Equal(t, "the admin after the refresh", b.principal(admin).Role, auth.Admin)
	b.me(http.MethodPost, "/totp", token, map[string]any{"refresh_token": admin.str("refresh_token")}).want(t, "a second one", 409, "totp-set")
	b.me(http.MethodPost, "/totp/confirm", token, map[string]any{"code": first}).want(t, "a second confirmation", 409, "totp-set")

	with := func(code string) answer {
		return b.post("login", map[string]any{"phone": phone, "password": secret, "totp": code})
	}
	with("").want(t, "the password alone", 403, "totp-required")
	with(first).want(t, "a code that was used", 401, "wrong-totp")
	sms := b.code(phone, "login")
	b.post("login/sms", map[string]any{"phone": phone, "code": sms}).want(t, "the SMS code alone", 403, "totp-required")
	both := map[string]any{"phone": phone, "code": sms, "totp": phoneApp.code()}
	require.Equal(t, "a login with both", b.principal(b.post("login/sms", both)).Role, auth.Admin)
	for range 2 {
		with("000000")
	}
	with(phoneApp.code()).want(t, "after five attempts", 429, "rate-limited")

	// The lost phone.
	b.admin(auth.Operator, http.MethodDelete, "/"+user+"/totp", nil).want(t, "reset by an operator", 403, "forbidden")
	b.admin(auth.Admin, http.MethodDelete, "/"+user+"/totp", nil).want(t, "reset", 204, "")
	if a := b.refresh(admin.str("refresh_token")); !a.is(401, "bad-refresh-token") || b.revoked.whyUser(b.principal(admin).UserID) == "" {
		t.Errorf("a login from before the reset: %d %s", a.status, a.raw)
	}
	require.Equal(t, "a login after the reset", b.principal(with("")).Role, auth.Shopper)
}

// A user removes a second factor with its code, and shoppers may have one too.
func TestSecondFactorIsRemovedWithItsCode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	li := b.register(phone, secret)
	token := li.str("access_token")
	phoneApp := b.startFactor(li)
	b.me(http.MethodDelete, "/totp", b.mint(42, auth.Shopper), map[string]any{"code": "000000"}).want(t, "none to remove", 404, "not-found")
	codes := b.confirmFactor(li, phoneApp.code())
	b.me(http.MethodDelete, "/totp", token, map[string]any{"code": codes[0]}).want(t, "remove", 204, "")
	if b.revoked.whyUser(b.principal(li).UserID) == "" {
		t.Error("the access tokens of before the removal are valid")
	}
	b.login(phone, secret).want(t, "login without", 200, "")
}

// TestRecoveryCodes: each code that the confirmation shows stands in for the app once; new
// ones need password and app, and end those before. Guesses count as the app's do.
func TestRecoveryCodes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	li := b.register(phone, secret)
	token := li.str("access_token")
	phoneApp := b.startFactor(li)
	old := b.confirmFactor(li, phoneApp.code())
	require.Equal(t, "hashes", b.count(`SELECT count(*) FROM account.totp, unnest(recovery_hashes) h WHERE octet_length(h) = 32`), 8)
	with := func(code string) answer {
		return b.post("login", map[string]any{"phone": phone, "password": secret, "totp": code})
	}
	with(strings.ToUpper(strings.ReplaceAll(old[0], "-", " "))).want(t, "a recovery code", 200, "")
	with(old[0]).want(t, "a code that was used", 401, "wrong-totp")
	require.Equal(t, "records of its use", b.count(`SELECT count(*) FROM platform.audit
		WHERE action = 'user.recovery-code' AND subject LIKE 'user %' AND detail->'after'->>'recovery_codes' = '7'`), 1)
	if a := b.me(http.MethodGet, "", token, nil); a.doc["recovery_codes_left"] != 7.0 || a.doc["has_totp"] != true {
		t.Errorf("me: %s", a.raw)
	}
	renew := func(password string) answer {
		return b.me(http.MethodPost, "/totp/recovery-codes", token, map[string]any{"password": password, "code": phoneApp.code()})
	}
	renew("not "+secret).want(t, "new codes with a wrong password", 403, "wrong-password")
	phoneApp.at = phoneApp.at.Add(-30 * time.Second) // it was not looked at
	fresh := renew(secret)
	if fresh.status != 201 || len(fresh.list("recovery_codes")) != 8 {
		t.Fatalf("new codes: %d %s", fresh.status, fresh.raw)
	}
	with(old[1]).want(t, "a code from before", 401, "wrong-totp")
	b.me(http.MethodDelete, "/totp", token, map[string]any{"code": fresh.list("recovery_codes")[7]}).want(t, "the sixth attempt", 429, "rate-limited")
}
