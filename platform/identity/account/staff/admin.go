package staff

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/sms"
	"stampede/platform/watch/audit"
)

// setRole gives a user a role. Access tokens with the old role end immediately; the
// logins stay and get the new role with their next refresh. Every change is audited
// under the principal in ctx.
func (s *Service) setRole(ctx context.Context, user int64, role auth.Role) error {
	return s.Change(ctx, user, func(tx pgx.Tx, u account.User) error {
		if u.Role == string(role) {
			return nil
		}
		if err := account.KeepAnAdmin(ctx, tx, u); err != nil {
			return err
		}
		if err := accountdb.New(tx).SetRole(ctx, accountdb.SetRoleParams{ID: user, Role: string(role)}); err != nil {
			return err
		}
		if err := s.Revoke.User(ctx, tx, "role changed", user); err != nil {
			return err
		}
		if err := s.Notify(ctx, tx, user, sms.NoteRole); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.role", "user "+httpx.FormatID(user), audit.Change{Before: account.State{Role: u.Role}, After: account.State{Role: string(role)}})
	})
}

// disable keeps a user from logging in and ends all their tokens; grants that the
// user already has become no orders. reason is for the audit log.
func (s *Service) disable(ctx context.Context, user int64, reason string) error {
	return s.changeStatus(ctx, user, func(tx pgx.Tx, u account.User) error {
		if u.Status == account.Disabled {
			return nil
		}
		if err := account.KeepAnAdmin(ctx, tx, u); err != nil {
			return err
		}
		if err := accountdb.New(tx).SetStatus(ctx, accountdb.SetStatusParams{ID: user, Status: account.Disabled}); err != nil {
			return err
		}
		if _, err := s.EndAll(ctx, tx, user, account.EndedByDisable); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.disable", "user "+httpx.FormatID(user), audit.Change{Before: account.State{Status: u.Status}, After: account.State{Status: account.Disabled}, Reason: reason})
	})
}

// enable lets a disabled user log in again.
func (s *Service) enable(ctx context.Context, user int64) error {
	return s.changeStatus(ctx, user, func(tx pgx.Tx, u account.User) error {
		if u.Status == account.Active {
			return nil
		}
		if err := accountdb.New(tx).SetStatus(ctx, accountdb.SetStatusParams{ID: user, Status: account.Active}); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.enable", "user "+httpx.FormatID(user), audit.Change{Before: account.State{Status: u.Status}, After: account.State{Status: account.Active}})
	})
}

// endAll ends all logins and tokens of a user, who may log in again. The user need
// not have an account: tokens can be minted without one.
func (s *Service) endAll(ctx context.Context, user int64) error {
	return s.InTx(ctx, fmt.Sprintf("end logins of user %d", user), func(tx pgx.Tx) error {
		switch u, err := accountdb.New(tx).LockUser(ctx, user); {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return err
		case u.Status == account.Erased:
			return account.ErrErased
		}
		ended, err := s.EndAll(ctx, tx, user, account.EndedByOperator)
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.end-logins", "user "+httpx.FormatID(user), audit.Change{Before: map[string]int{"logins": ended}, After: map[string]int{"logins": 0}})
	})
}

// changeStatus is Change for what the writer of orders must learn.
func (s *Service) changeStatus(ctx context.Context, user int64, do func(tx pgx.Tx, u account.User) error) error {
	if s.blacklist == nil {
		return s.Change(ctx, user, do)
	}
	if err := s.blacklist.Change(ctx, account.Locked(ctx, user, do)); err != nil {
		return account.Failed(fmt.Sprintf("change user %d", user), err)
	}
	s.Revoke.Tell(ctx)
	return nil
}
