package auth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

var (
	key = bytes.Repeat([]byte("k1"), 16)
	now = time.Date(2026, 11, 20, 10, 0, 0, 123_456_000, time.UTC)
)

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

func TestATokenNamesItsHolder(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens(key, at(now))
	want := auth.Principal{UserID: 1 << 60, Role: auth.Operator, Login: 12, Device: "web-1", Act: auth.ByCLI}
	s, err := tokens.Mint(want, time.Hour)
	require.NoError(t, err)
	want.IssuedAt, want.ExpiresAt = now, now.Add(time.Hour).Truncate(time.Second)
	if got, err := tokens.Verify(s); err != nil || got != want {
		t.Fatalf("Verify = %+v, %v; want %+v", got, err, want)
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens(key, at(now))
	good, err := tokens.Mint(auth.Principal{UserID: 7, Role: auth.Shopper}, time.Minute)
	require.NoError(t, err)
	signWith := func(header string, value any, method jwt.SigningMethod, signKey any, change func(jwt.MapClaims)) string {
		c := jwt.MapClaims{
			"iss": "stampede", "aud": "stampede-api", "sub": "7", "role": "shopper",
			"exp": now.Add(time.Minute).Unix(), "iat_us": now.UnixMicro(),
		}
		change(c)
		token := jwt.NewWithClaims(method, c)
		token.Header["typ"] = "at+jwt"
		token.Header[header] = value
		s, err := token.SignedString(signKey)
		require.NoError(t, err)
		return s
	}
	sign := func(method jwt.SigningMethod, signKey any, change func(jwt.MapClaims)) string {
		return signWith("typ", "at+jwt", method, signKey, change)
	}
	derived := auth.Derive(key, "access-token")
	keep := func(jwt.MapClaims) {}
	_, err = tokens.Verify(sign(jwt.SigningMethodHS256, derived, keep))
	require.NoError(t, err) // the unchanged token must pass for the rows below to be meaningful
	for name, token := range map[string]string{
		"empty":            "",
		"garbage":          "a.b.c",
		"alg none":         sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, keep),
		"signed, and none": signWith("alg", "none", jwt.SigningMethodHS256, derived, keep),
		"a rush path's":    sign(jwt.SigningMethodHS256, auth.Derive(key, "rush-path"), keep),
		"another key":      sign(jwt.SigningMethodHS256, []byte("another key of the shop next door"), keep),
		"the raw key":      sign(jwt.SigningMethodHS256, key, keep),
		"another method":   sign(jwt.SigningMethodHS512, derived, keep),
		"another audience": sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { c["aud"] = "elsewhere" }),
		"another issuer":   sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { c["iss"] = "elsewhere" }),
		"no expiry":        sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { delete(c, "exp") }),
		"expired":          sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { c["exp"] = now.Add(-time.Minute).Unix() }),
		"no user":          sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { c["sub"] = "0" }),
		"unknown role":     sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { c["role"] = "root" }),
		"no time of issue": sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { delete(c, "iat_us") }),
		"too long a life":  sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { c["exp"] = now.Add(auth.LongestLife + time.Second).Unix() }),
		"too long a login": sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) {
			c["login"], c["exp"] = 5, now.Add(auth.LongestLoginLife+time.Second).Unix()
		}),
		"a refresh token": signWith("typ", "rt+jwt", jwt.SigningMethodHS256, derived, keep),
		"of the type JWT": signWith("typ", "JWT", jwt.SigningMethodHS256, derived, keep),
		"without a type":  signWith("typ", nil, jwt.SigningMethodHS256, derived, keep),
		"altered":         strings.Replace(good, ".", ".A", 1),
	} {
		if p, err := tokens.Verify(token); !errors.Is(err, auth.ErrBadToken) {
			t.Errorf("%s: Verify = %+v, %v; want ErrBadToken", name, p, err)
		}
	}
}

func TestRolesMay(t *testing.T) {
	t.Parallel()
	for role, may := range map[auth.Role][]auth.Role{
		auth.Shopper:  {auth.Shopper},
		auth.Viewer:   {auth.Shopper, auth.Viewer},
		auth.Operator: {auth.Shopper, auth.Viewer, auth.Operator},
		auth.Admin:    {auth.Shopper, auth.Viewer, auth.Operator, auth.Admin},
		"":            {},
		"root":        {},
	} {
		allowed := map[auth.Role]bool{}
		for _, need := range may {
			allowed[need] = true
		}
		for _, need := range []auth.Role{auth.Shopper, auth.Viewer, auth.Operator, auth.Admin, "", "root"} {
			require.Equal(t, fmt.Sprintf("%q.May(%q)", role, need), role.May(need), allowed[need])
		}
	}
}

func TestMintRefusesNobody(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens(key, at(now))
	for _, p := range []auth.Principal{{}, {UserID: -1, Role: auth.Shopper}, {UserID: 1, Role: "root"}} {
		if s, err := tokens.Mint(p, time.Hour); err == nil {
			t.Errorf("Mint(%+v) = %q, want an error", p, s)
		}
	}
}

func TestAKeyIsReplacedWithoutRefusingItsTokens(t *testing.T) {
	t.Parallel()
	other := bytes.Repeat([]byte("k2"), 16)
	was, is := auth.NewTokens(key, at(now)), auth.NewTokens(other, at(now), auth.Previous(key))
	mint := func(tokens *auth.Tokens) string {
		s, err := tokens.Mint(auth.Principal{UserID: 7, Role: auth.Shopper}, time.Minute)
		require.NoError(t, err)
		return s
	}
	for name, s := range map[string]string{"the old key": mint(was), "the new key": mint(is)} {
		if p, err := is.Verify(s); err != nil || p.UserID != 7 {
			t.Errorf("a token of %s: %+v, %v", name, p, err)
		}
	}
	_, err := was.Verify(mint(is)) // which the old key did not sign
	require.ErrorIs(t, err, auth.ErrBadToken)
	_, err = is.Verify(mint(auth.NewTokens(bytes.Repeat([]byte("k3"), 16), at(now)))) // nor did either sign this
	require.ErrorIs(t, err, auth.ErrBadToken)
}

func TestNoTokenOutlivesItsRevocation(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens(key, at(now))
	for _, c := range []struct {
		login   int64
		longest time.Duration
	}{{0, auth.LongestLife}, {5, auth.LongestLoginLife}} {
		p := auth.Principal{UserID: 7, Role: auth.Shopper, Login: c.login}
		s, err := tokens.Mint(p, c.longest)
		if err == nil {
			_, err = tokens.Verify(s)
		}
		if err != nil {
			t.Errorf("login %d: a token for %s is refused: %v", c.login, c.longest, err)
		}
		if s, err := tokens.Mint(p, c.longest+time.Second); err == nil {
			t.Errorf("login %d: Mint(%s) = %q, want an error", c.login, c.longest+time.Second, s)
		}
	}
}

// ended is a list of revoked logins; login 0 returns an error.
type ended []int64

func (e ended) Revoked(_ context.Context, p auth.Principal) (bool, error) {
	if p.Login == 0 {
		return false, errTrouble
	}
	return slices.Contains(e, p.Login), nil
}
func (ended) Version() uint64 { return 1 }

var errTrouble = fault.Plain(fault.Unavailable, fault.T("Not known.", "未知。"))

func TestAdmitAsksForRevocations(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens(key, at(now))
	mint := func(login int64) string {
		s, err := tokens.Mint(auth.Principal{UserID: 7, Role: auth.Shopper, Login: login}, time.Minute)
		require.NoError(t, err)
		return s
	}
	admits := func(what string, tokens *auth.Tokens, token string, login int64, want error) {
		t.Helper()
		if p, err := tokens.Admit(t.Context(), token); !errors.Is(err, want) || p.Login != login || want != nil && p != (auth.Principal{}) {
			t.Errorf("%s: Admit = %+v, %v, want login %d, %v", what, p, err, login, want)
		}
	}
	admits("without revocations", tokens, mint(3), 3, nil)
	tokens = auth.NewTokens(key, at(now), auth.RevokedBy(ended{3}))
	admits("another login", tokens, mint(4), 4, nil)
	admits("a revoked login", tokens, mint(3), 0, auth.ErrBadToken)
	admits("an unknown state", tokens, mint(0), 0, errTrouble)
	admits("no token", tokens, "x.y.z", 0, auth.ErrBadToken)
}
