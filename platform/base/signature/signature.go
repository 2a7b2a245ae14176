// Package signature signs HTTP messages with a shared secret: HMAC-SHA256 over
// a timestamp, a line feed and the raw body, both in headers. Every message to
// another system is signed this way, so that a receiver needs only one
// verifier.
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

// Window is how far a timestamp may be from the verifier's clock, in either
// direction: wide enough for badly kept clocks, narrow enough that a replayed
// message soon fails.
const Window = 5 * time.Minute

// Reasons for which Verify refuses a message.
var (
	ErrUnsigned = errors.New("signature: the message has no signature, or more than one")
	ErrStale    = errors.New("signature: the message was signed too long ago or in the future")
	ErrForged   = errors.New("signature: the signature does not match the message")
)

// Scheme names the headers that carry timestamp and signature.
type Scheme struct{ Timestamp, Signature string }

// Stampede is the scheme of messages to the shop's own receivers.
var Stampede = Scheme{Timestamp: "Stampede-Timestamp", Signature: "Stampede-Signature"}

// Sign writes the timestamp now and the signature of body into h.
func (s Scheme) Sign(h http.Header, key []byte, now time.Time, body []byte) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	h.Set(s.Timestamp, stamp)
	h.Set(s.Signature, hex.EncodeToString(mac(key, stamp, body)))
}

// Verify returns nil when h holds a fresh signature of the raw body, else one of
// the package's errors. A repeated header is refused: two verifiers might
// choose different values.
func (s Scheme) Verify(h http.Header, key []byte, now time.Time, body []byte) error {
	stamps, signatures := h.Values(s.Timestamp), h.Values(s.Signature)
	if len(stamps) != 1 || len(signatures) != 1 {
		return ErrUnsigned
	}
	got, err := hex.DecodeString(signatures[0])
	// Check the signature before the timestamp, so that an attacker learns
	// nothing about our clock.
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

// mac covers the timestamp too, so that an old body cannot be sent with a new one.
func mac(key []byte, stamp string, body []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(stamp))
	m.Write([]byte{'\n'})
	m.Write(body)
	return m.Sum(nil)
}
