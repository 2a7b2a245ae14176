package auth

import (
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// TestBothWaysReadTheSame holds the quick way of reading a token against the
// library's, for tokens that are good, forged, cut, expired and made for others.
func TestBothWaysReadTheSame(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tokens := NewTokens([]byte("a signing key of thirty-two bytes"), func() time.Time { return now })
	other := NewTokens([]byte("another signing key of thirty-two"), func() time.Time { return now })
	mint := func(k *Tokens, lifetime time.Duration) string {
		s, err := k.Mint(Principal{UserID: 7, Role: Shopper}, lifetime)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	signed := func(c jwt.Claims, method jwt.SigningMethod, key any) string {
		s, err := jwt.NewWithClaims(method, c).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	good := mint(tokens, time.Hour)
	stranger := claims{Role: Shopper, RegisteredClaims: jwt.RegisteredClaims{
		Issuer: "stranger", Audience: jwt.ClaimStrings{audience}, Subject: "7", ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour)),
	}}
	last := good[len(good)-1]
	flipped := byte('A')
	if last == flipped {
		flipped = 'Q'
	}
	cases := map[string]string{
		"good": good, "of another key": mint(other, time.Hour), "expired": mint(tokens, -time.Minute), "within the leeway": mint(tokens, -time.Second),
		"of another issuer": signed(stranger, jwt.SigningMethodHS256, tokens.key), "without expiry": signed(claims{Role: Shopper}, jwt.SigningMethodHS256, tokens.key),
		"another method": signed(stranger, jwt.SigningMethodHS384, tokens.key), "unsigned": signed(stranger, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType),
		"cut": good[:len(good)-3], "empty signature": good[:strings.LastIndexByte(good, '.')+1], "no claims": usualHeader + "." + good[len(good)-43:],
		"changed end": good[:len(good)-1] + string(flipped), "a fourth part": good + ".x", "header alone": usualHeader, "empty": "",
		"changed claims": strings.Replace(good, good[len(usualHeader):len(usualHeader)+8], "eyJyb2xl", 1)[:len(good)-1] + "_",
	}
	if !strings.HasPrefix(good, usualHeader) {
		t.Fatal("Mint's header is not the usual one")
	}
	for name, token := range cases {
		var quick, slow claims
		quickErr := tokens.read(token, &quick)
		_, slowErr := tokens.parser.ParseWithClaims(token, &slow, func(*jwt.Token) (any, error) { return tokens.key, nil })
		if (quickErr == nil) != (slowErr == nil) {
			t.Errorf("%s: %v, the library says %v", name, quickErr, slowErr)
		}
		if quickErr == nil && (quick.Subject != slow.Subject || quick.Role != slow.Role) {
			t.Errorf("%s: %+v, the library reads %+v", name, quick, slow)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	tokens := NewTokens([]byte("a signing key of thirty-two bytes"), time.Now)
	token, err := tokens.Mint(Principal{UserID: 7, Role: Shopper}, time.Hour)
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

func BenchmarkVerifyByLibrary(b *testing.B) {
	tokens := NewTokens([]byte("a signing key of thirty-two bytes"), time.Now)
	token, err := tokens.Mint(Principal{UserID: 7, Role: Shopper}, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var c claims
		if _, err := tokens.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return tokens.key, nil }); err != nil {
			b.Fatal(err)
		}
	}
}
