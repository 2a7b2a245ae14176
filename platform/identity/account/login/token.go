package login

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// refreshClaim is what a refresh token says.
type refreshClaim struct {
	login      int64
	generation int32
	salt       []byte
}

// read returns what a refresh token says if any of the keys made it. It needs no
// store, so that a made-up token costs neither a query nor a lock.
func (s *Service) read(token string) (refreshClaim, bool) {
	c, ok := readRefreshToken(token)
	if !ok {
		return c, false
	}
	for _, key := range s.keys {
		if subtle.ConstantTimeCompare([]byte(refreshToken(key, c.login, c.generation, c.salt)), []byte(token)) == 1 {
			return c, true
		}
	}
	return c, false
}

// A refresh token consists of the login's id, the token's number within the login,
// the login's salt, and a MAC over these. Computing it rather than storing it has
// three advantages: a lost answer can be repeated, a used token is recognized for as
// long as its login lives, and a login is one row.
const (
	refreshPrefix     = "rt_"             // identifies it to people and secret scanners; no JWT begins with it
	refreshHeadBytes  = 8 + 4 + saltBytes // login, number, salt
	refreshTokenBytes = refreshHeadBytes + sha256.Size
)

// refreshToken makes the token with a given number of a login.
func refreshToken(key []byte, login int64, generation int32, salt []byte) string {
	raw := make([]byte, 0, refreshTokenBytes)
	raw = binary.BigEndian.AppendUint64(raw, uint64(login))
	raw = binary.BigEndian.AppendUint32(raw, uint32(generation))
	raw = append(raw, salt...)
	mac := hmac.New(sha256.New, key)
	mac.Write(raw)
	return refreshPrefix + base64.RawURLEncoding.EncodeToString(mac.Sum(raw))
}

// readRefreshToken returns what a token claims; only read verifies the claim.
func readRefreshToken(token string) (c refreshClaim, ok bool) {
	text, ok := strings.CutPrefix(token, refreshPrefix)
	if !ok || len(text) != base64.RawURLEncoding.EncodedLen(refreshTokenBytes) {
		return c, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return c, false
	}
	c = refreshClaim{int64(binary.BigEndian.Uint64(raw)), int32(binary.BigEndian.Uint32(raw[8:])), raw[12:refreshHeadBytes]}
	return c, c.login > 0 && c.generation > 0
}
