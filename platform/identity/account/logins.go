package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/store/pg"
)

var errNoLogin = fault.Plain(fault.NotFound,
	fault.T("You have no such login; it may already have ended.", "没有该登录，可能已退出。"))

// endLogin ends one login of a user, with those that it confirmed, and revokes their
// access tokens in tx; it returns errNoLogin if the user has no open login with that
// id. The caller has locked the user.
func (s *Service) endLogin(ctx context.Context, tx pgx.Tx, user, login int64, why string) error {
	ended, err := accountdb.New(tx).EndLogin(ctx, accountdb.EndLoginParams{ID: login, UserID: user, Why: why})
	switch {
	case err != nil:
		return fmt.Errorf("account: end login: %w", err)
	case len(ended) == 0:
		return errNoLogin
	}
	return s.revokeLogins(ctx, tx, why, ended)
}

// endLogins ends all logins of a user but one, in tx; keep 0 ends all.
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

// EndLogin is endLogin at the user's request.
func (s *Service) EndLogin(ctx context.Context, user, login int64, why string) error {
	return s.inTx(ctx, "end login", func(tx pgx.Tx) error {
		// Without an account there is no login either.
		if _, err := accountdb.New(tx).LockUser(ctx, user); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return s.endLogin(ctx, tx, user, login, why)
	})
}

// EndOtherLogins ends every login of a user but the current one.
func (s *Service) EndOtherLogins(ctx context.Context, user, keep int64) error {
	return s.inTx(ctx, "end other logins", func(tx pgx.Tx) error {
		// The lock keeps a login that is being opened from slipping through.
		if _, err := lockActive(ctx, tx, user); err != nil {
			return err
		}
		return s.endLogins(ctx, tx, user, keep, endedByUser)
	})
}

// inTx runs do in a transaction that may end logins, and announces the revocations
// after the commit. An error without a code is wrapped with the operation.
func (s *Service) inTx(ctx context.Context, operation string, do func(tx pgx.Tx) error) error {
	if err := pg.InTx(ctx, s.deps.DB, do); err != nil {
		return asFault(operation, err)
	}
	s.deps.Revoke.Tell(ctx)
	return nil
}
