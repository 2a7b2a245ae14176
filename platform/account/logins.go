package account

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/account/internal/accountdb"
	"stampede/platform/fault"
	"stampede/platform/pg"
)

var errNoLogin = fault.New(fault.NotFound, "not-found", "You have no such login; it may have ended already.")

// endLogin ends one login of a user and revokes its access tokens in tx; one
// that has ended stays as it is.
func (s *Service) endLogin(ctx context.Context, tx pgx.Tx, user, login int64, why string) error {
	ended, err := accountdb.New(tx).EndLogin(ctx, accountdb.EndLoginParams{ID: login, UserID: user, Why: why})
	if err != nil {
		return fmt.Errorf("account: end login: %w", err)
	}
	return s.revokeLogins(ctx, tx, why, ended)
}

// endLogins ends all logins of a user but one, in tx; keep is 0 for all.
func (s *Service) endLogins(ctx context.Context, tx pgx.Tx, user, keep int64, why string) error {
	ended, err := accountdb.New(tx).EndLoginsExcept(ctx, accountdb.EndLoginsExceptParams{UserID: user, Keep: keep, Why: why})
	if err != nil {
		return fmt.Errorf("account: end logins: %w", err)
	}
	return s.revokeLogins(ctx, tx, why, ended)
}

func (s *Service) revokeLogins(ctx context.Context, tx pgx.Tx, why string, logins []int64) error {
	if len(logins) == 0 {
		return nil
	}
	return s.deps.Revoke.Logins(ctx, tx, why, logins...)
}

// EndLogin ends one login of a user; errNoLogin when it has none with that id
// that is still open.
func (s *Service) EndLogin(ctx context.Context, user, login int64, why string) error {
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		ended, err := accountdb.New(tx).EndLogin(ctx, accountdb.EndLoginParams{ID: login, UserID: user, Why: why})
		if err == nil && len(ended) == 0 {
			return errNoLogin
		}
		if err != nil {
			return err
		}
		return s.revokeLogins(ctx, tx, why, ended)
	})
	if err != nil {
		return asFault("end login", err)
	}
	s.deps.Revoke.Tell(ctx)
	return nil
}

// EndOtherLogins ends every login of a user but the one that asks.
func (s *Service) EndOtherLogins(ctx context.Context, user, keep int64, why string) error {
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		// The lock keeps a login that is being opened from slipping through.
		if _, err := accountdb.New(tx).LockUser(ctx, user); err != nil {
			return err
		}
		return s.endLogins(ctx, tx, user, keep, why)
	})
	if err != nil {
		return asFault("end other logins", err)
	}
	s.deps.Revoke.Tell(ctx)
	return nil
}
