package door

import (
	"fmt"
	"net/http"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// tokenRows are the ways in which a token comes to the door; package auth tests the forged ones.
func (d *frontDoor) tokenRows(t *testing.T) []row {
	t.Helper()
	valid := shop.Mint(t, 9001, auth.Shopper)
	d.told = append(d.told, valid)
	return []row{
		{name: "no token", try: d.get("/api/v1/orders", ""), want: "401 no-token"},
		{name: "a valid token", try: d.get("/api/v1/orders", valid), want: "200"},
		{name: "a rush path as a token", try: d.get("/api/v1/orders", d.path), want: "401 bad-token"},
		{name: "text as a token", try: d.get("/api/v1/orders", "let-me-in"), want: "401 bad-token"},
	}
}

// account returns an access token of the table's account.
func (d *frontDoor) account(t *testing.T) string {
	t.Helper()
	if d.session == "" {
		d.session, _ = d.login(t)
	}
	return d.session
}

// login logs the account in and returns its tokens.
func (d *frontDoor) login(t *testing.T) (access, refresh string) {
	t.Helper()
	g := d.post("/api/v1/auth/login", "", fmt.Sprintf(`{"phone":%q,"password":%q}`, plantedPhone, plantedPassword))(t)
	return d.tokens(t, g)
}

// tokens reads the tokens of an answer.
func (d *frontDoor) tokens(t *testing.T, g got) (access, refresh string) {
	t.Helper()
	access, refresh = g.Text("access_token"), g.Text("refresh_token")
	if access == "" || refresh == "" {
		t.Fatalf("no tokens: %s %s", g, g.Raw)
	}
	d.told = append(d.told, access, refresh)
	return access, refresh
}

// accountRows register, log in and log out.
func (d *frontDoor) accountRows(t *testing.T) []row {
	t.Helper()
	var access, refresh string
	bearer := func(token *string) func(*testing.T) got {
		return func(t *testing.T) got { t.Helper(); return d.get("/api/v1/me", *token)(t) }
	}
	post := func(path string, token *string, body func() string) func(*testing.T) got {
		return func(t *testing.T) got { t.Helper(); return d.post("/api/v1/auth/"+path, *token, body())(t) }
	}
	nobody, nothing := "", func() string { return "" }
	return []row{
		{
			name: "a code is sent", want: "202",
			try: d.post("/api/v1/auth/sms-codes", "", fmt.Sprintf(`{"phone":%q,"purpose":"register"}`, plantedPhone)),
		},
		{name: "an account is made", want: "201", try: func(t *testing.T) got {
			t.Helper()
			code, err := d.phones.Code()
			require.NoError(t, err)
			g := d.post("/api/v1/auth/register", "", fmt.Sprintf(`{"phone":%q,"code":%q,"password":%q}`, plantedPhone, code, plantedPassword))(t)
			if g.Status == http.StatusCreated {
				d.session, _ = d.tokens(t, g)
				access, refresh = d.login(t)
			}
			return g
		}},
		{name: "the access token", try: bearer(&access), want: "200"},
		{name: "the refresh token as an access token", try: bearer(&refresh), want: "401 bad-token"},
		{name: "the access token as a refresh token", try: post("refresh", &nobody, func() string { return fmt.Sprintf(`{"refresh_token":%q}`, access) }), want: "401 bad-refresh-token"},
		{name: "logging out", try: post("logout", &access, nothing), want: "204"},
		{name: "the access token after logging out", try: bearer(&access), want: "401 bad-token"},
		{name: "the refresh token after logging out", try: post("refresh", &nobody, func() string { return fmt.Sprintf(`{"refresh_token":%q}`, refresh) }), want: "401 bad-refresh-token"},
		{name: "another login of the account", try: func(t *testing.T) got { t.Helper(); return d.get("/api/v1/me", d.account(t))(t) }, want: "200"},
	}
}
