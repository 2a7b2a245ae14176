package account_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/sms"
	"stampede/platform/edge/sms/sandbox"
	"stampede/platform/identity/account"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/require"
)

func (b *bundle) admin(role auth.Role, method, path string, body any) answer {
	b.t.Helper()
	token := ""
	if role != "" {
		token = b.mint(7, role)
	}
	return b.call(method, "/api/v1/admin/users"+path, token, body)
}

// role gives the user of a login a role.
func (b *bundle) role(of answer, role auth.Role) {
	b.t.Helper()
	b.admin(auth.Admin, "POST", "/"+of.str("user_id")+"/role", map[string]any{"role": role}).must(b.t, "set the role", 204, "")
}

// What each role may see and do, every answer, and what was audited.
func TestAdminRoutes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	li := b.register(phone, secret)
	b.register("13900139000", secret)
	user := li.str("user_id")
	role := func(r string) map[string]any { return map[string]any{"role": r} }
	why := map[string]any{"reason": "fraud"}
	for _, c := range []struct {
		name         string
		role         auth.Role
		method, path string
		body         any
		status       int
		want         string // the code of a problem, or the phones listed
	}{
		{"no token", "", "GET", "", nil, 401, "no-token"},
		{"a shopper", auth.Shopper, "GET", "", nil, 403, "forbidden"},
		{"a viewer", auth.Viewer, "GET", "", nil, 200, "139****9000,138****8000"},
		{"an operator", auth.Operator, "GET", "", nil, 200, "+8613900139000,+8613800138000"},
		{"by phone", auth.Operator, "GET", "?phone=13800138000", nil, 200, "+8613800138000"},
		{"by phone in E.164", auth.Operator, "GET", "?phone=%2B8613800138000", nil, 200, "+8613800138000"},
		{"a viewer by phone", auth.Viewer, "GET", "?phone=13800138000", nil, 403, "forbidden"},
		{"by half a phone", auth.Operator, "GET", "?phone=1380013", nil, 422, "invalid"},
		{"by id", auth.Operator, "GET", "?id=" + user, nil, 200, "+8613800138000"},
		{"by role", auth.Operator, "GET", "?role=admin", nil, 200, ""},
		{"by an unknown role", auth.Operator, "GET", "?role=root", nil, 422, "invalid"},
		{"a page", auth.Operator, "GET", "?limit=1", nil, 200, "+8613900139000"},
		{"the next page", auth.Operator, "GET", "?limit=1&cursor=1000001", nil, 200, "+8613800138000"},
		{"a bad cursor", auth.Operator, "GET", "?cursor=x", nil, 422, "invalid"},
		{"one", auth.Viewer, "GET", "/" + user, nil, 200, "138****8000"},
		{"none", auth.Viewer, "GET", "/5", nil, 404, "not-found"},
		{"no id", auth.Viewer, "GET", "/x", nil, 404, "not-found"},
		{"an operator changes a role", auth.Operator, "POST", "/" + user + "/role", role("admin"), 403, "forbidden"},
		{"an operator disables", auth.Operator, "POST", "/" + user + "/disable", why, 403, "forbidden"},
		{"an operator enables", auth.Operator, "POST", "/" + user + "/enable", nil, 403, "forbidden"},
		{"an operator ends logins", auth.Operator, "POST", "/" + user + "/end-logins", nil, 403, "forbidden"},
		{"an unknown role", auth.Admin, "POST", "/" + user + "/role", role("root"), 422, "invalid"},
		{"a role for an unknown user", auth.Admin, "POST", "/5/role", role("viewer"), 404, "not-found"},
		{"a role", auth.Admin, "POST", "/" + user + "/role", role("operator"), 204, ""},
		{"disabled without a reason", auth.Admin, "POST", "/" + user + "/disable", map[string]any{"reason": ""}, 422, "invalid"},
		{"disabled", auth.Admin, "POST", "/" + user + "/disable", why, 204, ""},
		{"by status", auth.Operator, "GET", "?status=disabled", nil, 200, "+8613800138000"},
		{"disabled again", auth.Admin, "POST", "/" + user + "/disable", why, 204, ""},
	} {
		a := b.admin(c.role, c.method, c.path, c.body)
		got := a.str("code")
		if data, ok := a.doc["data"].([]any); ok {
			var phones []string
			for _, u := range data {
				phones = append(phones, u.(map[string]any)["phone"].(string))
			}
			got = strings.Join(phones, ",")
		} else if u, ok := a.doc["user"].(map[string]any); ok {
			got, _ = u["phone"].(string)
		}
		if a.status != c.status || got != c.want {
			t.Errorf("%s: %d %q, want %d %q: %s", c.name, a.status, got, c.status, c.want, a.raw)
		}
	}
	// A disabled account cannot log in, and nothing of it stays open.
	b.refresh(li.str("refresh_token")).want(t, "refresh", 401, "bad-refresh-token")
	b.post("login", map[string]any{"phone": phone, "password": secret}).want(t, "login", 403, "account-disabled")
	b.post("login", map[string]any{"phone": phone, "password": "a wrong password"}).want(t, "login with a wrong password", 401, "wrong-login")
	b.post("login/sms", map[string]any{"phone": phone, "code": b.code(phone, "login")}).want(t, "login by code", 403, "account-disabled")
	if b.revoked.why(b.principal(li).Login) != "account disabled" || b.revoked.whyUser(b.principal(li).UserID) != "account disabled" {
		t.Errorf("revoked %v, %v", b.revoked.logins, b.revoked.users)
	}
	b.admin(auth.Admin, "POST", "/"+user+"/enable", nil).want(t, "enable", 204, "")
	back := b.login(phone, secret)
	require.Equal(t, "the role of the next login", b.principal(back).Role, auth.Operator)
	b.admin(auth.Admin, "POST", "/"+user+"/end-logins", nil).want(t, "end logins", 204, "")
	b.refresh(back.str("refresh_token")).want(t, "refresh", 401, "bad-refresh-token")
	entries, err := audit.List(t.Context(), b.pool, audit.Filter{Subject: "user " + user})
	require.NoError(t, err)
	var actions []string
	for _, e := range entries {
		actions = append(actions, e.Action)
		if strings.Contains(string(e.Detail), phone) || e.Actor != 7 {
			t.Errorf("audited %+v", e)
		}
	}
	require.Equal(t, "what was audited", strings.Join(actions, ","), "user.end-logins,user.enable,user.disable,user.role")
}

// A new role is in the next access token, and the old token is revoked.
func TestRoleReachesTheNextToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	login := b.register(phone, secret)
	b.role(login, auth.Operator)
	require.Equal(t, "why the user's tokens are revoked", b.revoked.whyUser(b.principal(login).UserID), "role changed")
	require.Equal(t, "the next token's role", b.principal(b.refresh(login.str("refresh_token"))).Role, auth.Operator)
}

// When admins remove each other concurrently, one remains.
func TestAnAdminRemains(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ways := []func(user string) answer{
		func(user string) answer {
			return b.admin(auth.Admin, "POST", "/"+user+"/role", map[string]any{"role": "shopper"})
		},
		func(user string) answer {
			return b.admin(auth.Admin, "POST", "/"+user+"/disable", map[string]any{"reason": "test"})
		},
		nil, // they delete their own account
	}
	var logins []answer
	for i := range 12 {
		login := b.register(phoneNo(i), secret)
		logins = append(logins, login)
		b.role(login, auth.Admin)
	}
	refused := 0
	for i, a := range all(len(logins), func(i int) answer {
		if way := ways[i%len(ways)]; way != nil {
			return way(logins[i].str("user_id"))
		}
		return b.me(http.MethodDelete, "", logins[i].str("access_token"), map[string]any{"password": secret})
	}) {
		switch {
		case a.is(409, "last-admin"):
			refused++
		case a.status != 204:
			t.Errorf("%d: %d %s", i, a.status, a.raw)
		}
	}
	if n := b.count(`SELECT count(*) FROM account.users WHERE role = 'admin' AND status = 'active'`); n != 1 || refused != 1 {
		t.Errorf("%d admins are left, %d refusals", n, refused)
	}
}

// Disabling an account while it logs in leaves nothing open.
func TestDisablingMeetsLogins(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, _ *deps) { c.PasswordParallel = 16 })
	login := b.register(phone, secret)
	all(20, func(i int) answer {
		if i == 10 {
			return b.admin(auth.Admin, "POST", "/"+login.str("user_id")+"/disable", map[string]any{"reason": "test"})
		}
		return b.post("login", map[string]any{"phone": phone, "password": secret})
	})
	require.Equal(t, "open logins", b.count(`SELECT count(*) FROM account.logins WHERE ended_at IS NULL`), 0)
}

// The phone in the settings becomes the first admin, once.
func TestFirstAdmin(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, _ *deps) { c.FirstAdmin = "+86" + phone })
	require.Equal(t, "a phone that is not in the settings", b.principal(b.register("13900139000", secret)).Role, auth.Shopper)
	first := b.register(phone, secret)
	require.Equal(t, "the phone in the settings", b.principal(first).Role, auth.Admin)
	entries, err := audit.List(t.Context(), b.pool, audit.Filter{Action: "user.first-admin"})
	if err != nil || len(entries) != 1 {
		t.Errorf("audited %+v, %v", entries, err)
	}
	other := b.login("13900139000", secret)
	b.role(other, auth.Admin)
	b.role(first, auth.Viewer)
	require.Equal(t, "an admin who was demoted", b.principal(b.login(phone, secret)).Role, auth.Viewer)
}

// TestAttackSandboxShowsNoCodeOfStaff: the page of a practice server is open to
// all, and a code is a login. It hides staff also after a promotion.
func TestAttackSandboxShowsNoCodeOfStaff(t *testing.T) {
	t.Parallel()
	const first, colleague, shopper = "13800138009", "13900139000", "13700137000"
	b := setup(t)
	gateway := sandbox.New(time.Now, (&account.Store{DB: b.pool, Config: account.Config{FirstAdmin: "+86" + first}}).StaffPhones)
	for _, phone := range []string{first, colleague, shopper} {
		require.NoError(t, gateway.Send(t.Context(), sms.Message{ID: phone, Phone: "+86" + phone, Text: "code 123456", Params: []sms.Param{{Name: "code", Value: "123456"}}}))
	}
	mux := chi.NewRouter()
	gateway.Routes(mux)
	shows := func(phone string) bool {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, sandbox.Prefix+"?format=json&phone=%2B86"+phone, nil))
		return strings.Contains(w.Body.String(), "123456")
	}
	user := b.register(colleague, secret)
	if shows(first) || !shows(colleague) || !shows(shopper) {
		t.Errorf("first admin %v, shoppers %v, %v", shows(first), shows(colleague), shows(shopper))
	}
	b.role(user, auth.Viewer)
	if shows(colleague) || !shows(shopper) {
		t.Errorf("staff %v, shopper %v", shows(colleague), shows(shopper))
	}
}

// TestAttackUnmaskingPhones: a viewer completes no masked phone by searching, and an
// operator's searches are bounded and recorded.
func TestAttackUnmaskingPhones(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(phone, secret)
	for n := range 20 {
		b.admin(auth.Viewer, "GET", fmt.Sprintf("?phone=1380013%04d", 7990+n), nil).must(t, "a viewer's search", 403, "forbidden")
	}
	refused := 0
	for n := range 130 {
		if a := b.admin(auth.Operator, "GET", fmt.Sprintf("?phone=1380013%04d", 7900+n), nil); a.is(429, "rate-limited") {
			refused++
		}
	}
	require.Equal(t, "refused of 130 searches in an hour", refused, 10)
	entries, err := audit.List(t.Context(), b.pool, audit.Filter{Action: "user.search"})
	if err != nil || len(entries) != 120 || strings.Contains(string(entries[0].Detail), "13800137900") {
		t.Errorf("%d searches are recorded, %v; want 120 without the phones", len(entries), err)
	}
}
