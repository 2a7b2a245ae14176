package humancheck

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Provider is a service that judges browsers and gives a page a token for its
// verdict. Implementations are safe for concurrent use.
type Provider interface {
	// SiteKey is the public key that the page's widget needs.
	SiteKey() string
	// Available is false while a request would most likely fail, judging by the last
	// ones; it makes no request.
	Available() bool
	// Verify checks a token; client may be invalid when it is unknown. An error
	// means that the provider failed; a bad token is a Verdict. It returns within
	// seconds.
	Verify(ctx context.Context, token string, client netip.Addr) (Verdict, error)
}

// Verdict is what a provider says about a token.
type Verdict struct {
	Success  bool
	Used     bool // expired at the provider, or verified before
	Hostname string
	Action   string    // the action given to the widget
	Data     string    // the data given to the widget
	At       time.Time // when the widget was solved
}

// ErrBusy is returned when the maximum number of requests is in flight.
var ErrBusy = errors.New("humancheck: too many requests to the verifier are in flight")
