package account_test

import (
	"net/http"
	"strings"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// A WeChat user adds a phone and logs in as the same user with it.
func TestBindPhone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	li, wang := b.loginWeChat("open-li", ""), b.loginWeChat("open-wang", "")
	const taken, free = "13900139000", "13700137000"
	b.register(taken, secret)
	bind := func(token, phone, code string) answer {
		t.Helper()
		return b.me(http.MethodPost, "/phone", token, map[string]any{"phone": phone, "code": code})
	}
	code, login, refused := b.code(phone, "bind"), b.code(free, "login"), b.code(taken, "bind")
	for _, c := range []struct {
		name, token, phone, code string // no code: one that is sent now
		status                   int
		want                     string
	}{
		{"no token", "", phone, code, 401, "no-token"},
		{"a minted token", b.mint(42, auth.Shopper), free, "", 403, "proof-required"},
		{"no phone", li.str("access_token"), "110", code, 422, "invalid"},
		{"a wrong code", li.str("access_token"), phone, other(code), 401, "wrong-code"},
		{"a code for another phone", li.str("access_token"), "13600136000", code, 401, "wrong-code"},
		{"a code for another purpose", li.str("access_token"), free, login, 401, "wrong-code"},
		{"bound", li.str("access_token"), phone, code, 204, ""},
		{"the code again", li.str("access_token"), phone, code, 401, "wrong-code"},
		{"once more", li.str("access_token"), phone, "", 204, ""},
		{"a second one", li.str("access_token"), free, "", 409, "phone-linked"},
		{"another's", wang.str("access_token"), phone, "", 409, "phone-taken"},
		{"a registered one", wang.str("access_token"), taken, refused, 409, "phone-taken"},
		{"a code that was refused", wang.str("access_token"), taken, refused, 401, "wrong-code"},
	} {
		if c.code == "" {
			c.code = b.code(c.phone, "bind")
		}
		bind(c.token, c.phone, c.code).want(t, c.name, c.status, c.want)
	}
	if a := b.me(http.MethodGet, "", li.str("access_token"), nil); a.str("phone") != "138****8000" || a.doc["has_wechat"] != true {
		t.Errorf("me: %s", a.raw)
	}
	notices := string(b.me(http.MethodGet, "/notices", li.str("access_token"), nil).raw)
	require.Equal(t, "notices of a new way in", strings.Count(notices, `"access"`), 1)
	a := b.post("login/sms", map[string]any{"phone": phone, "code": b.code(phone, "login")})
	require.Equal(t, "the user of a login by the phone", a.str("user_id"), li.str("user_id"))
	b.post("password/reset", map[string]any{"phone": phone, "code": b.code(phone, "reset"), "password": secret}).want(t, "the first password", 204, "")
	require.Equal(t, "the user of a login by password", b.login(phone, secret).str("user_id"), li.str("user_id"))
	require.Equal(t, "a refused user's phone", b.me(http.MethodGet, "", wang.str("access_token"), nil).str("phone"), "")
}

// TestAttackStolenTokenAddsAWayIn: a copied access token adds neither the thief's
// phone nor the thief's WeChat account as a way to log in.
func TestAttackStolenTokenAddsAWayIn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	li, thief := b.loginWeChat("open-li", ""), b.loginWeChat("open-thief", "")
	stolen := li.str("access_token")
	const phone = "13700137000"
	for _, refresh := range []string{"", "rt_made-up", stolen, thief.str("refresh_token")} {
		add := map[string]any{"phone": phone, "code": "123456", "refresh_token": refresh}
		b.me(http.MethodPost, "/phone", stolen, add).want(t, "phone with "+refresh, 403, "proof-required")
		add = map[string]any{"code": b.wechat.Code("open-other", ""), "refresh_token": refresh}
		b.me(http.MethodPost, "/wechat", stolen, add).want(t, "wechat with "+refresh, 403, "proof-required")
	}

	proves := func(when, refresh string, status int, code string) {
		t.Helper()
		b.me(http.MethodPost, "/phone", stolen, map[string]any{"phone": phone, "code": "123456", "refresh_token": refresh}).want(t, when, status, code)
	}
	used := li.str("refresh_token")
	proves("the login's token", used, 401, "wrong-code")
	next := b.refresh(used).str("refresh_token")
	proves("a repeat", used, 401, "wrong-code")
	proves("the new token", next, 401, "wrong-code")
	b.exec(`UPDATE account.logins SET rotated_at = rotated_at - interval '11 s'`)
	proves("a used token", used, 403, "proof-required")
	b.exec(`UPDATE account.logins SET expires_at = now()`)
	proves("the token of an expired login", next, 403, "proof-required")
	b.exec(`UPDATE account.logins SET expires_at = now() + interval '1 h', salt = substr(sha256('another'), 1, 16)`)
	proves("the token of another database", next, 403, "proof-required")
}
