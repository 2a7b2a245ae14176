package account_test

import (
	"net/http"
	"testing"

	"stampede/platform/identity/account"
	"stampede/platform/identity/account/qrlogin"
	"stampede/platform/workshop/require"
)

// Where the shop's own system has the accounts (--login-url), no way in here makes or opens
// one for a shopper, and each says where to log in. Staff and the first admin come in.
func TestShoppersLogInElsewhere(t *testing.T) {
	t.Parallel()
	const at, other = "https://shop.example/login", "13900139000"
	before := setup(t)
	shopper, staff := before.register(phone, secret), before.register(other, secret)
	b := setup(t, func(c *account.Config, d *deps) { c.LoginURL, d.DB = at, before.pool })
	qrlogin.New(qrlogin.Config{}, qrlogin.Deps{Store: b.accts}).Routes(b.router)
	before.exec(`UPDATE account.users SET role = 'operator' WHERE id = $1`, id(t, staff.str("user_id")))

	users := before.count(`SELECT count(*) FROM account.users`)
	for name, a := range map[string]answer{
		"a code for a registration": b.post("sms-codes", map[string]any{"phone": "13700137000", "purpose": "register"}),
		"a registration":            b.post("register", map[string]any{"phone": "13700137000", "code": "123456", "password": secret}),
		"a shopper's password":      b.post("login", map[string]any{"phone": phone, "password": secret}),
		"a shopper's code":          b.post("login/sms", map[string]any{"phone": phone, "code": b.code(phone, "login")}),
		"a stranger's code":         b.post("login/sms", map[string]any{"phone": "13700137000", "code": b.code("13700137000", "login")}),
		"WeChat's page":             b.post("wechat/state", nil),
		"WeChat":                    b.loginMini("open-li", ""),
		"a QR code":                 b.post("qr", map[string]any{"device": map[string]any{"kind": "web"}}),
	} {
		a.want(t, name, http.StatusForbidden, "login-elsewhere")
		require.Equal(t, name+" says where to log in", a.str("login_url"), at)
	}
	wrong := b.post("login", map[string]any{"phone": other, "password": "not the password"})
	wrong.want(t, "a wrong password", http.StatusUnauthorized, "wrong-login")
	require.Equal(t, "a wrong password says where shoppers log in", wrong.str("login_url"), at)
	require.Equal(t, "users", before.count(`SELECT count(*) FROM account.users`), users)

	b.login(other, secret)
	b.post("login/sms", map[string]any{"phone": other, "code": b.code(other, "login")}).want(t, "the staff's code", http.StatusOK, "")
	link, err := b.staff.InviteFirstAdmin(t.Context())
	require.NoError(t, err)
	b.post("first-admin", map[string]any{"link": link, "phone": "13700137000", "password": secret}).want(t, "the first admin", http.StatusCreated, "")
	b.login("13700137000", secret)

	// A shopper who is logged in, by exchange or from before, adds WeChat to pay there.
	b.me(http.MethodPost, "/wechat", shopper.str("access_token"), map[string]any{"code": b.wechat.Code("open-li", ""), "refresh_token": shopper.str("refresh_token")}).
		want(t, "link WeChat", http.StatusNoContent, "")
}
