package humancheck

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Provider is a service that judges browsers and gives pages a token to prove it.
// Implementations are safe for concurrent use.
type Provider interface {
	// SiteKey is the public key that the page's widget needs.
	SiteKey() string
	// Available is false while asking would most likely fail, as far as is known
	// without asking.
	Available() bool
	// Verify asks about a token; client may be invalid when it is not known. An error
	// is trouble with the provider; a token that is no good is a Verdict. It ends
	// within seconds.
	Verify(ctx context.Context, token string, client netip.Addr) (Verdict, error)
}

// Verdict is what a provider says about a token.
type Verdict struct {
	Success  bool
	Used     bool // expired at the provider, or asked about before
	Hostname string
	Action   string    // what the widget was told
	Data     string    // likewise
	At       time.Time // when the widget was solved
}

// ErrBusy is returned when as many questions are under way as are allowed.
var ErrBusy = errors.New("humancheck: too many questions to the verifier are under way")
