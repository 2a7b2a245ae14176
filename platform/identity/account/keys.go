package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"stampede/platform/edge/auth"
)

// keys are the secrets of this package, each for one purpose, all derived from one
// of the server's signing keys: access to the database alone suffices neither to
// guess codes offline nor to make refresh tokens.
type keys struct{ code, refresh, tag, totp, state, invite []byte }

// ring holds the accepted keys, the current one first. During a signing key
// rotation, codes and tokens made with the other keys are valid too.
type ring []keys

func newRing(current []byte, previous [][]byte) ring {
	r := make(ring, 0, 1+len(previous))
	for _, k := range append([][]byte{current}, previous...) {
		r = append(r, keys{
			code: auth.Derive(k, "account-sms-code"), refresh: auth.Derive(k, "account-refresh-token"), tag: auth.Derive(k, "account-limit-tag"),
			totp: auth.Derive(k, "account-totp"), state: auth.Derive(k, "account-wechat-state"), invite: auth.Derive(k, "account-first-admin"),
		})
	}
	return r
}

// hashesOf returns a code's stored form under each of the keys.
func (r ring) hashesOf(phone Phone, purpose Purpose, code string) [][]byte {
	all := make([][]byte, 0, len(r))
	for _, k := range r {
		all = append(all, k.hashCode(phone, purpose, code))
	}
	return all
}

// refreshClaim is what a refresh token says.
type refreshClaim struct {
	login      int64
	generation int32
	salt       []byte
}

// read returns what a refresh token says if any of the keys made it. It needs no
// store, so that a made-up token costs neither a query nor a lock.
func (r ring) read(token string) (refreshClaim, bool) {
	c, ok := readRefreshToken(token)
	if !ok {
		return c, false
	}
	for _, k := range r {
		if subtle.ConstantTimeCompare([]byte(k.refreshToken(c.login, c.generation, c.salt)), []byte(token)) == 1 {
			return c, true
		}
	}
	return c, false
}

// hashCode returns the stored form of a code. A code has a million values, so only
// the key prevents brute force. Purpose and phone are hashed too, so that a code is
// valid for nothing else.
func (k keys) hashCode(phone Phone, purpose Purpose, code string) []byte {
	mac := hmac.New(sha256.New, k.code)
	mac.Write([]byte(string(purpose) + "\x00" + string(phone) + "\x00" + code))
	return mac.Sum(nil)
}

// tagBytes is enough to tell phones apart in Redis: a collision of two has
// probability 2^-64.
const tagBytes = 8

// phoneKey identifies a phone in the keys of limits, which must not contain the
// number.
func (k keys) phoneKey(phone Phone) string {
	mac := hmac.New(sha256.New, k.tag)
	mac.Write([]byte(phone))
	return "p:" + hex.EncodeToString(mac.Sum(nil)[:tagBytes])
}

// deviceKey identifies a phone's device in the keys of limits.
func (k keys) deviceKey(phone Phone, device string) string {
	return k.phoneKey(Phone(string(phone) + "\x00" + device))
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
func (k keys) refreshToken(login int64, generation int32, salt []byte) string {
	raw := make([]byte, 0, refreshTokenBytes)
	raw = binary.BigEndian.AppendUint64(raw, uint64(login))
	raw = binary.BigEndian.AppendUint32(raw, uint32(generation))
	raw = append(raw, salt...)
	mac := hmac.New(sha256.New, k.refresh)
	mac.Write(raw)
	return refreshPrefix + base64.RawURLEncoding.EncodeToString(mac.Sum(raw))
}

// readRefreshToken returns what a token claims; only ring.read verifies the claim.
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
