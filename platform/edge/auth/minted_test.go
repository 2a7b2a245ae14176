package auth

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stampede/platform/workshop/require"
)

var testedAt = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func tokensAt(now time.Time, with ...Option) *Tokens {
	return NewTokens(bytes.Repeat([]byte("k1"), 16), func() time.Time { return now }, with...)
}

func mintedForTest(t testing.TB, p Principal) string {
	t.Helper()
	token, err := tokensAt(testedAt).Mint(p, time.Hour)
	require.NoError(t, err)
	return token
}

// FuzzMintedTokens shows that no token is accepted which the JWT library refuses, and none is read differently.
func FuzzMintedTokens(f *testing.F) {
	key := Derive(bytes.Repeat([]byte("k1"), 16), "access-token")
	whole := `{"role":"shopper","login":5,"device":"d","iat_us":1,"act":{"sub":"9"},"iss":"` + issuer + `","aud":["` + audience + `"],"sub":"42","exp":1795870000,"iat":1}`
	for _, payload := range []string{
		whole, `{}`, `null`, `[]`, whole + whole, whole + " ", `{"sub":"1","sub":"2"}`, `{"exp":1.5}`, `{"exp":1795870000.5}`, `{"exp":"1795870000"}`,
		`{"role":"shopper","iss":"` + issuer + `","aud":"` + audience + `","sub":"42","exp":1795870000}`,
		`{"role":"shopper","iss":"` + issuer + `","aud":["x"],"sub":"42","exp":1795870000}`,
		`{"role":"shopper","iss":"` + issuer + `","aud":["` + audience + `"],"sub":"42","exp":1795870000,"nbf":1895870000}`,
		`{"role":"shopper","iss":"` + issuer + `","aud":["` + audience + `"],"sub":"42","exp":1}`,
		`{"Role":"admin","ISS":"` + issuer + `","aud":["` + audience + `"],"sub":"42","exp":1795870000}`,
	} {
		f.Add(payload, int64(0))
		f.Add(payload, int64(time.Hour/time.Second))
	}
	f.Fuzz(func(t *testing.T, payload string, later int64) {
		tokens := tokensAt(testedAt.Add(time.Duration(later%1e6) * time.Second))
		signed := mintedHeader + jwtSegment(payload)
		token := signed + "." + jwtSegment(string(MAC(key, []byte(signed))))
		quick, ok := tokens.verifyMinted(token)
		if !ok {
			return
		}
		var c claims
		parsed, err := tokens.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return tokens.keys, nil })
		require.NoError(t, err)
		require.Equal(t, "type", parsed.Header["typ"], any(tokenType))
		c.RegisteredClaims = jwt.RegisteredClaims{Subject: c.Subject, ExpiresAt: c.ExpiresAt} // all that Verify reads
		require.Equal(t, "expiry", quick.ExpiresAt.Unix(), c.ExpiresAt.Unix())
		quick.ExpiresAt = c.ExpiresAt
		require.Equal(t, "claims", quick, c)
	})
}

func jwtSegment(text string) string { return (&jwt.Token{}).EncodeSegment([]byte(text)) }

func TestMintedTokensNeedNoLibrary(t *testing.T) {
	t.Parallel()
	p := Principal{UserID: 42, Role: Shopper, Login: 7, Device: "phone", Act: "9"}
	token := mintedForTest(t, p)
	c, ok := tokensAt(testedAt).verifyMinted(token)
	require.Equal(t, "accepted", ok, true)
	require.Equal(t, "user", c.Subject, "42")
	rotated := NewTokens(bytes.Repeat([]byte("k2"), 16), func() time.Time { return testedAt }, Previous(bytes.Repeat([]byte("k1"), 16)))
	_, ok = rotated.verifyMinted(token)
	require.Equal(t, "accepted by its previous key", ok, true)
	for name, refused := range map[string]string{
		"another signature": token[:len(token)-2] + "AA", "no signature": token[:strings.LastIndexByte(token, '.')], "none": "",
	} {
		_, ok := tokensAt(testedAt).verifyMinted(refused)
		require.Equal(t, name, ok, false)
	}
	_, ok = tokensAt(testedAt.Add(time.Hour + leeway)).verifyMinted(token)
	require.Equal(t, "accepted after its end", ok, false)
}

func BenchmarkVerify(b *testing.B) {
	tokens, token := tokensAt(testedAt), mintedForTest(b, Principal{UserID: 42, Role: Shopper, Login: 7, Device: "phone"})
	b.Run("minted", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := tokens.Verify(token)
			require.NoError(b, err)
		}
	})
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			_, err := tokens.parser.ParseWithClaims(token, &claims{}, func(*jwt.Token) (any, error) { return tokens.keys, nil })
			require.NoError(b, err)
		}
	})
}
