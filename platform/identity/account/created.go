package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/platform/identity/account/accountevent"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/store/outbox"
)

// newUser creates an account in tx with its event. It fails with pgx.ErrNoRows if the
// phone has an account already.
func newUser(ctx context.Context, tx pgx.Tx, p accountdb.CreateUserParams) (accountdb.AccountUser, error) {
	u, err := accountdb.New(tx).CreateUser(ctx, p)
	if err != nil {
		return u, err //nolint:wrapcheck // the caller says what it was for
	}
	_, err = outbox.Append(ctx, tx, accountevent.SubjectRegistered, accountevent.Registered{UserID: u.ID})
	return u, err
}
