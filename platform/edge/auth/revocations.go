package auth

import (
	"context"
)

// Revocations knows which tokens were revoked before they expired. revoke.Service
// implements it in production. Safe for concurrent use.
type Revocations interface {
	// Revoked reports whether the principal's token has been revoked. An error is a
	// fault that means that the state is unknown; the token must then be refused.
	Revoked(ctx context.Context, p Principal) (bool, error)
	// Version changes with each revocation that comes into force, so that a caller
	// that keeps principals knows when to check them again.
	Version() uint64
}

// ErrRevoked is the refusal of a token whose login has ended. Its code is
// ErrBadToken's, because a client reacts the same way.
var ErrRevoked = ErrBadToken.Saying("This login has ended; log in again.")

// Revocations returns the revocations that Admit checks, never nil.
func (t *Tokens) Revocations() Revocations { return t.revocations }

// Admit returns the principal of a token that is valid and not revoked. Otherwise it
// returns ErrBadToken, ErrRevoked, or the fault of a failed check.
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

// none is for a process without revocations.
type none struct{}

func (none) Revoked(context.Context, Principal) (bool, error) { return false, nil }
func (none) Version() uint64                                  { return 0 }
