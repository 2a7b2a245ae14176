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

// keys are the secrets of this package, each for one purpose, all derived from
// a signing key of the server: whoever reads the database alone can neither try
// codes offline nor make refresh tokens.
type keys struct{ code, refresh, tag []byte }

// ring is the keys that are in use, the current one first. While a signing key is
// replaced, what was made with another is good as well.
type ring []keys

func newRing(current []byte, previous [][]byte) ring {
	r := make(ring, 0, 1+len(previous))
	for _, k := range append([][]byte{current}, previous...) {
		r = append(r, keys{
			code: auth.Derive(k, "account-sms-code"), refresh: auth.Derive(k, "account-refresh-token"), tag: auth.Derive(k, "account-limit-tag"),
		})
	}
	return r
}

// hashesOf are what may be stored of a code, under any of the keys.
func (r ring) hashesOf(phone Phone, purpose Purpose, code string) [][]byte {
	all := make([][]byte, 0, len(r))
	for _, k := range r {
		all = append(all, k.hashCode(phone, purpose, code))
	}
	return all
}

// signed reports whether a refresh token is the one of a login with a number,
// under any of the keys.
func (r ring) signed(token string, login int64, generation int32, salt []byte) bool {
	for _, k := range r {
		if subtle.ConstantTimeCompare([]byte(k.refreshToken(login, generation, salt)), []byte(token)) == 1 {
			return true
		}
	}
	return false
}

// hashCode is what is stored of a code. A code has a million values, so that
// only the key keeps it from being found by trying; purpose and phone are part
// of it, so that a code fits nowhere else.
func (k keys) hashCode(phone Phone, purpose Purpose, code string) []byte {
	mac := hmac.New(sha256.New, k.code)
	mac.Write([]byte(string(purpose) + "\x00" + string(phone) + "\x00" + code))
	return mac.Sum(nil)
}

// tagBytes is enough to tell phones apart in Redis: 2^-64 for any two.
const tagBytes = 8

// phoneKey names a phone in the keys of limits, where the number itself has no
// business.
func (k keys) phoneKey(phone Phone) string {
	mac := hmac.New(sha256.New, k.tag)
	mac.Write([]byte(phone))
	return "p:" + hex.EncodeToString(mac.Sum(nil)[:tagBytes])
}

// A refresh token is the login's id, the token's number within the login, and a
// MAC over both and the login's salt. It is computed rather than stored, which
// has three uses: an answer that got lost can be given again, a used token is
// known as used for as long as its login lives, and a login is one row.
const (
	refreshPrefix     = "rt_" // tells people and secret scanners what it is, and no JWT begins like it
	refreshHeadBytes  = 8 + 4 // login, number
	refreshTokenBytes = refreshHeadBytes + sha256.Size
)

// refreshToken makes the token of a login with a number.
func (k keys) refreshToken(login int64, generation int32, salt []byte) string {
	raw := make([]byte, 0, refreshTokenBytes)
	raw = binary.BigEndian.AppendUint64(raw, uint64(login))
	raw = binary.BigEndian.AppendUint32(raw, uint32(generation))
	mac := hmac.New(sha256.New, k.refresh)
	mac.Write(raw)
	mac.Write(salt)
	return refreshPrefix + base64.RawURLEncoding.EncodeToString(mac.Sum(raw))
}

// readRefreshToken says which login and number a token claims to be of; only
// refreshToken of the same tells whether that is true.
func readRefreshToken(token string) (login int64, generation int32, ok bool) {
	text, ok := strings.CutPrefix(token, refreshPrefix)
	if !ok || len(text) != base64.RawURLEncoding.EncodedLen(refreshTokenBytes) {
		return 0, 0, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return 0, 0, false
	}
	login, generation = int64(binary.BigEndian.Uint64(raw)), int32(binary.BigEndian.Uint32(raw[8:]))
	return login, generation, login > 0 && generation > 0
}
