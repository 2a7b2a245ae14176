// Package signature signs HTTP messages with a shared secret: HMAC-SHA256 over
// a timestamp, a line feed and the raw body, both in headers. Whoever tells
// another system something signs it this way, so that a receiver needs one
// reader for all of it.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Window is how far a timestamp may lie from the reader's clock, in either
// direction: room for clocks that nobody looks after, and little enough that a
// recorded message is soon worth nothing.
const Window = 5 * time.Minute

// Why a message is refused.
var (
	ErrUnsigned = errors.New("signature: the message carries no signature, or two")
	ErrStale    = errors.New("signature: the message was signed too long ago or in the future")
	ErrForged   = errors.New("signature: the signature does not fit the message")
)

// Scheme names the headers that carry timestamp and signature.
type Scheme struct{ Timestamp, Signature string }

// Sign writes the timestamp now and the signature of body into h.
func (s Scheme) Sign(h http.Header, key []byte, now time.Time, body []byte) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	h.Set(s.Timestamp, stamp)
	h.Set(s.Signature, hex.EncodeToString(mac(key, stamp, body)))
}

// Verify returns nil when h holds a fresh signature of the raw body, else one of
// the package's errors. A header that comes twice is refused: two readers might
// take different ones.
func (s Scheme) Verify(h http.Header, key []byte, now time.Time, body []byte) error {
	stamps, signatures := h.Values(s.Timestamp), h.Values(s.Signature)
	if len(stamps) != 1 || len(signatures) != 1 {
		return ErrUnsigned
	}
	got, err := hex.DecodeString(signatures[0])
	// The signature comes first, so that an attacker learns nothing about our clock.
	if err != nil || !hmac.Equal(got, mac(key, stamps[0], body)) {
		return ErrForged
	}
	seconds, err := strconv.ParseInt(stamps[0], 10, 64)
	if err != nil {
		return ErrForged
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > Window || age < -Window {
		return ErrStale
	}
	return nil
}

// mac is over the timestamp too, so that an old body cannot be given a new one.
func mac(key []byte, stamp string, body []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(stamp))
	m.Write([]byte{'\n'})
	m.Write(body)
	return m.Sum(nil)
}
