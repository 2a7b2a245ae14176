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

// ErrSignature means that a message is not one of ours, or too old.
var ErrSignature = errors.New("alarm: the message's signature does not fit")

// Verify returns nil when h holds a fresh signature of the raw body, else
// ErrSignature. It is what a receiver written in Go calls; what one in another
// language has to do is in package signature.
func Verify(h http.Header, secret []byte, now time.Time, body []byte) error {
	if err := scheme.Verify(h, secret, now, body); err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return nil
}
