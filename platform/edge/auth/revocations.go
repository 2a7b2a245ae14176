package auth

import (
	"context"
)

// Revocations knows which tokens have ended before their time. The only one in
// production is revoke.Service. Safe for concurrent use.
type Revocations interface {
	// Revoked reports whether the principal's token has been revoked. An error is
	// a fault that says that this is not known, and the token must not be taken.
	Revoked(ctx context.Context, p Principal) (bool, error)
	// Version is another number after each revocation that came into force, so that
	// whoever keeps principals for long knows when to ask again.
	Version() uint64
}

// ErrRevoked is what a token is refused with whose login has been ended. Its
// code is ErrBadToken's: a client does the same about either.
var ErrRevoked = ErrBadToken.Saying("This login has been ended; log in again.")

// Revocations are those that Admit asks, never nil.
func (t *Tokens) Revocations() Revocations { return t.revocations }

// Admit returns whom a token names if the token is still in force. Otherwise it
// is ErrBadToken, ErrRevoked, or the fault of what keeps the answer from being
// known.
func (t *Tokens) Admit(ctx context.Context, token string) (Principal, error) {
	p, err := t.Verify(token)
	if err != nil {
		return Principal{}, err
	}
	revoked, err := t.revocations.Revoked(ctx, p)
	if err != nil {
		return Principal{}, err
	}
	if revoked {
		return Principal{}, ErrRevoked
	}
	return p, nil
}

// none is for a process that revokes nothing.
type none struct{}

func (none) Revoked(context.Context, Principal) (bool, error) { return false, nil }
func (none) Version() uint64                                  { return 0 }
