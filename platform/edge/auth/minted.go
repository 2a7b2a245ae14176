package auth

import (
	"crypto/hmac"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"
)

// mintedHeader begins each token that Mint makes: {"alg":"HS256","typ":"at+jwt"}.
var mintedHeader = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"`+tokenType+`"}`)) + "."

// minted are the claims as Mint writes them: exp in whole seconds, aud as a list, never nbf.
type minted struct {
	Role         Role     `json:"role"`
	Login        int64    `json:"login"`
	Device       string   `json:"device"`
	IssuedMicros int64    `json:"iat_us"`
	Act          act      `json:"act"`
	Issuer       string   `json:"iss"`
	Audience     []string `json:"aud"`
	Subject      string   `json:"sub"`
	Expires      int64    `json:"exp"`
	NotBefore    any      `json:"nbf"`
}

// verifyMinted reads the claims of a token in the form that Mint gives it, for a quarter of the JWT library's time: every
// shopper's request has one. It checks the signature before it reads anything else. What it does not accept is left to the
// library; a fuzz test shows that it accepts nothing that the library refuses.
func (t *Tokens) verifyMinted(token string) (c claims, ok bool) {
	rest, ours := strings.CutPrefix(token, mintedHeader)
	payload, signature, three := strings.Cut(rest, ".")
	if !ours || !three {
		return c, false
	}
	sum, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || !slices.ContainsFunc(t.keys.Keys, func(key jwt.VerificationKey) bool {
		secret, _ := key.([]byte) // they all are
		return hmac.Equal(sum, MAC(secret, []byte(token[:len(mintedHeader)+len(payload)])))
	}) {
		return c, false
	}
	var m minted
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(raw, &m) != nil || m.NotBefore != nil || m.Expires <= 0 ||
		m.Issuer != issuer || !slices.Contains(m.Audience, audience) {
		return c, false
	}
	expires := jwt.NewNumericDate(time.Unix(m.Expires, 0))
	if !t.now().Add(-leeway).Before(expires.Time) {
		return c, false
	}
	c = claims{Role: m.Role, Login: m.Login, Device: m.Device, IssuedMicros: m.IssuedMicros, Act: m.Act}
	c.Subject, c.ExpiresAt = m.Subject, expires
	return c, true
}
