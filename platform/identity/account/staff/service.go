// Package staff is what operators see and change of accounts, and how the shop's first
// admin comes about.
//
// At least one active admin remains, however many remove each other concurrently. The
// first comes by the phone in the settings (package login), or by the secret of a link that
// a start prints; it is derived from the signing key, valid for 24 hours and until there
// is an admin, and opens no account that exists.
package staff

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/platform/identity/account"
	"stampede/platform/identity/account/credential"
)

// Blacklist announces disabled users; platform/identity/blacklist implements it.
type Blacklist interface {
	// Change runs fn in a transaction that disables or enables an account, and
	// announces it to every instance after the commit.
	Change(ctx context.Context, fn func(tx pgx.Tx) error) error
}

// Service is the staff's view of the accounts, whose questions it answers too. Safe for
// concurrent use.
type Service struct {
	*account.Store
	credentials *credential.Service
	blacklist   Blacklist // nil: no blacklist
	keys        [][]byte  // of invitations
}

// New returns a Service. Without a blacklist the writer of orders learns of no disabled user.
func New(credentials *credential.Service, list Blacklist) *Service {
	store := credentials.Store
	return &Service{Store: store, credentials: credentials, blacklist: list, keys: store.Config.Keys("account-first-admin")}
}
