package alarm

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// The headers that carry a message's signature.
const (
	HeaderTimestamp = "Stampede-Timestamp"
	HeaderSignature = "Stampede-Signature"
)

// signatureWindow is how far a timestamp may lie from the reader's clock, in
// either direction: room for clocks that nobody looks after, and little enough
// that a recorded message is soon worth nothing.
const signatureWindow = 5 * time.Minute

// ErrSignature means that a message is not one of ours, or too old.
var ErrSignature = errors.New("alarm: the message's signature does not fit")

// sign writes timestamp and signature of body into h.
func sign(h http.Header, secret []byte, now time.Time, body []byte) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	h.Set(HeaderTimestamp, stamp)
	h.Set(HeaderSignature, hex.EncodeToString(mac(secret, stamp, body)))
}

// Verify returns nil when h holds a fresh signature of the raw body, else
// ErrSignature. It is what a receiver written in Go calls, and what one in
// another language has to do. A header that comes twice is refused: two readers
// might take different ones.
func Verify(h http.Header, secret []byte, now time.Time, body []byte) error {
	stamps, signatures := h.Values(HeaderTimestamp), h.Values(HeaderSignature)
	if len(stamps) != 1 || len(signatures) != 1 {
		return ErrSignature
	}
	got, err := hex.DecodeString(signatures[0])
	if err != nil || !hmac.Equal(got, mac(secret, stamps[0], body)) {
		return ErrSignature
	}
	seconds, err := strconv.ParseInt(stamps[0], 10, 64)
	if err != nil {
		return ErrSignature
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > signatureWindow || age < -signatureWindow {
		return ErrSignature
	}
	return nil
}

// mac is over the timestamp too, so that an old body cannot be given a new one.
func mac(secret []byte, stamp string, body []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(stamp))
	m.Write([]byte{'\n'})
	m.Write(body)
	return m.Sum(nil)
}
