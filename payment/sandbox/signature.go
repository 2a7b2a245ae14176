package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// The headers that carry a signature.
const (
	HeaderTimestamp = "Sandbox-Timestamp"
	HeaderSignature = "Sandbox-Signature"
)

// signatureWindow is how far a timestamp may lie from the reader's clock, in
// either direction: wide enough for badly set clocks, too short for a replay to
// be worth keeping.
const signatureWindow = 5 * time.Minute

// Why a signature is refused.
var (
	errUnsigned = errors.New("sandbox: the message carries no signature")
	errStale    = errors.New("sandbox: the message was signed too long ago or in the future")
	errForged   = errors.New("sandbox: the signature does not fit the message")
)

// signer signs what one side says. Both sides hold both signers: one to speak,
// one to check. Safe for concurrent use.
type signer struct {
	key []byte
	now func() time.Time
}

// signers derives a key for each direction from the shared secret.
func signers(secret []byte, now func() time.Time) (merchant, bank signer) {
	derive := func(side string) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte("stampede sandbox bank/" + side))
		return mac.Sum(nil)
	}
	return signer{derive("merchant speaks"), now}, signer{derive("bank speaks"), now}
}

// sign writes timestamp and signature of body into h.
func (s signer) sign(h http.Header, body []byte) {
	stamp := strconv.FormatInt(s.now().Unix(), 10)
	h.Set(HeaderTimestamp, stamp)
	h.Set(HeaderSignature, hex.EncodeToString(s.mac(stamp, body)))
}

// verify returns nil when h holds a fresh signature of body by s. A header that
// comes twice is refused: two readers might take different ones.
func (s signer) verify(h http.Header, body []byte) error {
	stamps, signatures := h.Values(HeaderTimestamp), h.Values(HeaderSignature)
	if len(stamps) != 1 || len(signatures) != 1 {
		return errUnsigned
	}
	got, err := hex.DecodeString(signatures[0])
	if err != nil {
		return errForged
	}
	// The signature comes first, so that an attacker learns nothing about our clock.
	if !hmac.Equal(got, s.mac(stamps[0], body)) {
		return errForged
	}
	seconds, err := strconv.ParseInt(stamps[0], 10, 64)
	if err != nil {
		return errForged
	}
	if age := s.now().Sub(time.Unix(seconds, 0)); age > signatureWindow || age < -signatureWindow {
		return errStale
	}
	return nil
}

func (s signer) mac(stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(stamp))
	mac.Write([]byte{'\n'})
	mac.Write(body)
	return mac.Sum(nil)
}
