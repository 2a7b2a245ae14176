package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/sms"
	"stampede/platform/watch/audit"
)

var (
	errNoUser = fault.Plain(fault.NotFound, fault.T("There is no such account.", "没有该账号。"))
	errErased = fault.ErrTransition.Saying(fault.T("This account was erased and can no longer be changed.", "该账号已注销，不能再修改。"))
)

// state is what the audit log keeps of an account before and after a change; a member
// that the change leaves alone is empty.
type state struct {
	Role   string `json:"role,omitempty"`
	Status string `json:"status,omitempty"`
}

// SetRole gives a user a role. Access tokens with the old role end immediately; the
// logins stay and get the new role with their next refresh. Every change is audited
// under the principal in ctx.
func (s *Service) SetRole(ctx context.Context, user int64, role auth.Role) error {
	return s.change(ctx, user, func(tx pgx.Tx, u accountdb.AccountUser) error {
		if u.Role == string(role) {
			return nil
		}
		if err := s.keepAnAdmin(ctx, tx, u); err != nil {
			return err
		}
		if err := accountdb.New(tx).SetRole(ctx, accountdb.SetRoleParams{ID: user, Role: string(role)}); err != nil {
			return err
		}
		if err := s.deps.Revoke.User(ctx, tx, "role changed", user); err != nil {
			return err
		}
		if err := s.noteTo(ctx, tx, user, sms.NoteRole); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.role", "user "+httpx.FormatID(user), audit.Change{Before: state{Role: u.Role}, After: state{Role: string(role)}})
	})
}

// Disable keeps a user from logging in and ends all their tokens; grants that the
// user already has become no orders. reason is for the audit log.
func (s *Service) Disable(ctx context.Context, user int64, reason string) error {
	return s.changeStatus(ctx, user, func(tx pgx.Tx, u accountdb.AccountUser) error {
		if u.Status == statusDisabled {
			return nil
		}
		if err := s.keepAnAdmin(ctx, tx, u); err != nil {
			return err
		}
		if err := accountdb.New(tx).SetStatus(ctx, accountdb.SetStatusParams{ID: user, Status: statusDisabled}); err != nil {
			return err
		}
		if err := s.endLogins(ctx, tx, user, 0, endedByDisable); err != nil {
			return err
		}
		// Tokens that were minted for the user belong to no login.
		if err := s.deps.Revoke.User(ctx, tx, endedByDisable, user); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.disable", "user "+httpx.FormatID(user), audit.Change{Before: state{Status: u.Status}, After: state{Status: statusDisabled}, Reason: reason})
	})
}

// Enable lets a disabled user log in again.
func (s *Service) Enable(ctx context.Context, user int64) error {
	return s.changeStatus(ctx, user, func(tx pgx.Tx, u accountdb.AccountUser) error {
		if u.Status == statusActive {
			return nil
		}
		if err := accountdb.New(tx).SetStatus(ctx, accountdb.SetStatusParams{ID: user, Status: statusActive}); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.enable", "user "+httpx.FormatID(user), audit.Change{Before: state{Status: u.Status}, After: state{Status: statusActive}})
	})
}

// EndLogins ends all logins and tokens of a user, who may log in again. The user need
// not have an account: tokens can be minted without one.
func (s *Service) EndLogins(ctx context.Context, user int64) error {
	return s.inTx(ctx, fmt.Sprintf("end logins of user %d", user), func(tx pgx.Tx) error {
		switch u, err := accountdb.New(tx).LockUser(ctx, user); {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return err
		case u.Status == statusErased:
			return errErased
		}
		ended, err := accountdb.New(tx).EndLoginsExcept(ctx, accountdb.EndLoginsExceptParams{UserID: user, Why: endedByOperator})
		if err == nil {
			err = s.revokeLogins(ctx, tx, endedByOperator, ended)
		}
		if err != nil {
			return err
		}
		if err := s.deps.Revoke.User(ctx, tx, endedByOperator, user); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.end-logins", "user "+httpx.FormatID(user), audit.Change{Before: map[string]int{"logins": len(ended)}, After: map[string]int{"logins": 0}})
	})
}

// change runs do on a locked user and announces its revocations after the commit.
func (s *Service) change(ctx context.Context, user int64, do func(tx pgx.Tx, u accountdb.AccountUser) error) error {
	return s.inTx(ctx, fmt.Sprintf("change user %d", user), onUser(ctx, user, do))
}

// changeStatus is change for what the writer of orders must learn.
func (s *Service) changeStatus(ctx context.Context, user int64, do func(tx pgx.Tx, u accountdb.AccountUser) error) error {
	if s.deps.Blacklist == nil {
		return s.change(ctx, user, do)
	}
	if err := s.deps.Blacklist.Change(ctx, onUser(ctx, user, do)); err != nil {
		return asFault(fmt.Sprintf("change user %d", user), err)
	}
	s.deps.Revoke.Tell(ctx)
	return nil
}

// onUser returns a transaction that runs do on a locked user.
func onUser(ctx context.Context, user int64, do func(tx pgx.Tx, u accountdb.AccountUser) error) func(tx pgx.Tx) error {
	return func(tx pgx.Tx) error {
		u, err := accountdb.New(tx).LockUser(ctx, user)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return errNoUser
		case err != nil:
			return err
		case u.Status == statusErased:
			return errErased
		}
		return do(tx, u)
	}
}
