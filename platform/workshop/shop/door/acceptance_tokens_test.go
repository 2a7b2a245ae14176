package door

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// forge signs a token that looks like an access token; change makes it invalid.
func (d *frontDoor) forge(t *testing.T, method jwt.SigningMethod, key any, change func(claims, header map[string]any)) string {
	t.Helper()
	now := time.Now()
	claims := jwt.MapClaims{
		"iss": "stampede", "aud": "stampede-api", "sub": "9001", "role": "shopper",
		"iat": now.Unix(), "iat_us": now.UnixMicro(), "exp": now.Add(time.Hour).Unix(),
	}
	token := jwt.NewWithClaims(method, claims)
	token.Header["typ"] = "at+jwt"
	header := maps.Clone(token.Header)
	if change != nil {
		change(claims, header)
	}
	token.Header = header
	signed, err := token.SignedString(key)
	require.NoError(t, err)
	d.told = append(d.told, signed)
	return signed
}

// tokenRows are access tokens that are no longer valid, or never were.
func (d *frontDoor) tokenRows(t *testing.T) []row {
	t.Helper()
	key, none := auth.Derive([]byte(shop.Key), "access-token"), jwt.UnsafeAllowNoneSignatureType
	hs256 := jwt.SigningMethodHS256
	claim := func(name string, value any) func(claims, header map[string]any) {
		return func(claims, _ map[string]any) { claims[name] = value }
	}
	rows := []row{{name: "no token", try: d.get("/api/v1/orders", ""), want: "401 no-token"}}
	for _, c := range []struct {
		name  string
		token string
		want  string
	}{
		{"a valid token", d.forge(t, hs256, key, nil), "200"},
		{"not signed, alg none", d.forge(t, jwt.SigningMethodNone, none, nil), "401 bad-token"},
		{"signed, and says alg none", d.forge(t, hs256, key, func(_, header map[string]any) { header["alg"] = "none" }), "401 bad-token"},
		{"HS256 with another key", d.forge(t, hs256, []byte("another key of more than 32 bytes"), nil), "401 bad-token"},
		{"HS256 with the signing key itself", d.forge(t, hs256, []byte(shop.Key), nil), "401 bad-token"},
		{"HS256 with the key of rush paths", d.forge(t, hs256, auth.Derive([]byte(shop.Key), "rush-path"), nil), "401 bad-token"},
		{"HS512 with the right key", d.forge(t, jwt.SigningMethodHS512, key, nil), "401 bad-token"},
		{"expired", d.forge(t, hs256, key, claim("exp", time.Now().Add(-time.Minute).Unix())), "401 bad-token"},
		{"another audience", d.forge(t, hs256, key, claim("aud", "stampede-admin")), "401 bad-token"},
		{"another issuer", d.forge(t, hs256, key, claim("iss", "another-issuer")), "401 bad-token"},
		{"an unknown role", d.forge(t, hs256, key, claim("role", "root")), "401 bad-token"},
		{"a rush path", d.path, "401 bad-token"},
		{"text", "let-me-in", "401 bad-token"},
	} {
		rows = append(rows, row{name: "a token: " + c.name, try: d.get("/api/v1/orders", c.token), want: c.want})
	}
	return rows
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
