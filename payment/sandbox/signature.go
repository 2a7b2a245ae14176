package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"time"

	"stampede/platform/base/signature"
)

// The headers that carry a signature.
const (
	HeaderTimestamp = "Sandbox-Timestamp"
	HeaderSignature = "Sandbox-Signature"
)

var scheme = signature.Scheme{Timestamp: HeaderTimestamp, Signature: HeaderSignature}

// signer signs one side's messages. Both sides have both signers: one to sign,
// one to verify. Safe for concurrent use.
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
func (s signer) sign(h http.Header, body []byte) { scheme.Sign(h, s.key, s.now(), body) }

// verify returns nil when h holds a fresh signature of body by s.
func (s signer) verify(h http.Header, body []byte) error {
	return scheme.Verify(h, s.key, s.now(), body)
}
