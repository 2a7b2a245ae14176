package alarm

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"stampede/platform/base/signature"
)

// The headers that carry a message's signature.
const (
	HeaderTimestamp = "Stampede-Timestamp"
	HeaderSignature = "Stampede-Signature"
)

var scheme = signature.Scheme{Timestamp: HeaderTimestamp, Signature: HeaderSignature}

// ErrSignature means that a message has no valid signature, or is too old.
var ErrSignature = errors.New("alarm: the message's signature does not match or is too old")

// Verify returns nil when h contains a fresh signature of the raw body, else
// ErrSignature. It is for receivers written in Go; package signature describes the
// steps for other languages.
func Verify(h http.Header, secret []byte, now time.Time, body []byte) error {
	if err := scheme.Verify(h, secret, now, body); err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return nil
}
