package account_test

import (
	"fmt"
	"net/http"
	"testing"

	"stampede/platform/identity/account"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func (b *bundle) loginWeChat(openID, unionID string) answer {
	b.t.Helper()
	return b.post("login/wechat", map[string]any{"code": b.wechat.Code(openID, unionID), "device": map[string]any{"kind": "wechat"}})
}

// One WeChat person is one user, also when the first logins are concurrent, and the
// openid is available for payments.
func TestWeChatLogin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	users := map[string]bool{}
	for _, a := range all(20, func(int) answer { return b.loginWeChat("open-li", "") }) {
		a.want(t, "login", 200, "")
		users[a.str("user_id")] = true
	}
	if len(users) != 1 || b.count(`SELECT count(*) FROM account.users`) != 1 || b.count(`SELECT count(*) FROM platform.outbox WHERE subject = 'events.account.registered'`) != 1 {
		t.Fatalf("one person became the users %v", users)
	}
	for user := range users {
		if got, err := b.accts.OpenIDOf(t.Context(), id(t, user), b.wechat.AppID); got != "open-li" || err != nil {
			t.Errorf("OpenIDOf = %q, %v", got, err)
		}
		if got, err := b.accts.OpenIDOf(t.Context(), id(t, user), "another app"); got != "" || err != nil {
			t.Errorf("OpenIDOf in another app = %q, %v", got, err)
		}
	}
	code := b.wechat.Code("open-wang", "")
	if a := b.post("login/wechat", map[string]any{"code": code}); a.status != 200 || users[a.str("user_id")] {
		t.Errorf("another user: %d %s", a.status, a.raw)
	}
	b.post("login/wechat", map[string]any{"code": code}).want(t, "a code that was used", 401, "wechat-bad-code")
	b.wechat.FallIll(45011)
	if a := b.loginWeChat("open-li", ""); !a.is(503, "wechat-unavailable") || a.header.Get("Retry-After") == "" {
		t.Errorf("WeChat is busy: %d %s", a.status, a.raw)
	}
	without := setup(t, func(_ *account.Config, d *deps) { d.WeChat = nil })
	without.loginWeChat("open-li", "").want(t, "without an app", 503, "wechat-unavailable")
}

// loginMini logs in from the shop's mini program, which has no state.
func (b *bundle) loginMini(openID, unionID string) answer {
	b.t.Helper()
	return b.post("login/wechat", map[string]any{"code": b.wechat.Code(openID, unionID), "app": "mini", "state": ""})
}

// A union id makes one user of a person in the shop's official account and its mini
// program.
func TestUnionIDIsOnePerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.loginWeChat("open-li", "")
	later := b.loginWeChat("open-li", "union-li") // the app has joined others meanwhile
	require.Equal(t, "the user with a union id", later.str("user_id"), first.str("user_id"))
	for _, a := range all(10, func(int) answer { return b.loginMini("mini-li", "union-li") }) {
		require.Equal(t, "the same person's user in the mini program", a.str("user_id"), first.str("user_id"))
	}
	apps := pgtest.Read[string](t, b.pool, `SELECT string_agg(app_id || ' ' || open_id, ', ' ORDER BY app_id) FROM account.wechat_identities`)
	require.Equal(t, "identities", apps, b.wechat.AppID+" open-li, "+b.wechat.MiniAppID+" mini-li")
	page := map[string]any{"code": b.wechat.Code("open-li", ""), "app": "official", "state": ""}
	b.post("login/wechat", page).want(t, "a page's code without a state", 403, "wechat-state")

	without := setup(t, func(_ *account.Config, d *deps) { d.WeChat = exchange(t, b.wechat, wechat.Official) })
	without.loginMini("mini-li", "").want(t, "without a mini program", 503, "wechat-unavailable")
}

// A person who first logs in through two of the shop's apps concurrently is one
// user.
func TestTwoAppsAtOnceAreOnePerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for round := range 10 {
		union, users := fmt.Sprint("union-", round), map[string]bool{}
		for _, got := range all(4, func(i int) answer {
			if i%2 == 0 {
				return b.loginWeChat(fmt.Sprint("open-", round), union)
			}
			return b.loginMini(fmt.Sprint("mini-", round), union)
		}) {
			got.must(t, union, 200, "")
			users[got.str("user_id")] = true
		}
		if len(users) != 1 {
			t.Errorf("%s became the users %v", union, users)
		}
	}
}

// A WeChat account belongs to one user, and a user has one per app.
func TestLinkWeChat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	li, wang := b.register(phone, secret), b.register("13900139000", secret)
	link := func(a answer, code string) answer {
		return b.me(http.MethodPost, "/wechat", a.str("access_token"), map[string]any{"code": code})
	}
	for _, c := range []struct {
		name   string
		who    answer
		code   string
		status int
		want   string
	}{
		{"linked", li, b.wechat.Code("open-li", ""), 204, ""},
		{"once more", li, b.wechat.Code("open-li", ""), 204, ""},
		{"a second one", li, b.wechat.Code("open-li-2", ""), 409, "wechat-linked"},
		{"another user's", wang, b.wechat.Code("open-li", ""), 409, "wechat-taken"},
		{"an unknown code", wang, "made-up", 401, "wechat-bad-code"},
	} {
		link(c.who, c.code).want(t, c.name, c.status, c.want)
	}
	require.Equal(t, "the user of the linked one", b.loginWeChat("open-li", "").str("user_id"), li.str("user_id"))
	require.Equal(t, "has_wechat", b.me(http.MethodGet, "", li.str("access_token"), nil).doc["has_wechat"], any(true))
}
