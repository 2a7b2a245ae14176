package auth_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stampede/platform/auth"
)

var (
	key = bytes.Repeat([]byte("k1"), 16)
	now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
)

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

func TestATokenNamesItsHolder(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens(key, at(now))
	want := auth.Principal{UserID: 1 << 60, Role: auth.Operator}
	s, err := tokens.Mint(want, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tokens.Verify(s); err != nil || got != want {
		t.Fatalf("Verify = %+v, %v; want %+v", got, err, want)
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens(key, at(now))
	good, err := tokens.Mint(auth.Principal{UserID: 7, Role: auth.Shopper}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(method jwt.SigningMethod, signKey any, change func(jwt.MapClaims)) string {
		c := jwt.MapClaims{"iss": "stampede", "aud": "stampede-api", "sub": "7", "role": "shopper", "exp": now.Add(time.Minute).Unix()}
		change(c)
		s, err := jwt.NewWithClaims(method, c).SignedString(signKey)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	derived := auth.Derive(key, "access-token")
	keep := func(jwt.MapClaims) {}
	if _, err := tokens.Verify(sign(jwt.SigningMethodHS256, derived, keep)); err != nil {
		t.Fatalf("the unchanged token must pass, or the rows below prove nothing: %v", err)
	}
	for name, token := range map[string]string{
		"empty":            "",
		"garbage":          "a.b.c",
		"alg none":         sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, keep),
		"another key":      sign(jwt.SigningMethodHS256, []byte("another key of the shop next door"), keep),
		"the raw key":      sign(jwt.SigningMethodHS256, key, keep),
		"another method":   sign(jwt.SigningMethodHS512, derived, keep),
		"another audience": sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { c["aud"] = "elsewhere" }),
		"another issuer":   sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { c["iss"] = "elsewhere" }),
		"no expiry":        sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { delete(c, "exp") }),
		"expired":          sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { c["exp"] = now.Add(-time.Minute).Unix() }),
		"no user":          sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { c["sub"] = "0" }),
		"unknown role":     sign(jwt.SigningMethodHS256, derived, func(c jwt.MapClaims) { c["role"] = "root" }),
		"altered":          strings.Replace(good, ".", ".A", 1),
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
			if got := role.May(need); got != allowed[need] {
				t.Errorf("%q.May(%q) = %v", role, need, got)
			}
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

func BenchmarkVerify(b *testing.B) {
	tokens := auth.NewTokens([]byte("a signing key of thirty-two bytes"), time.Now)
	token, err := tokens.Mint(auth.Principal{UserID: 7, Role: auth.Shopper}, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tokens.Verify(token); err != nil {
			b.Fatal(err)
		}
	}
}
