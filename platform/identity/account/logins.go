package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// Reasons why a login ended, as rows, lists and revocations name them.
const (
	EndedByLogout   = "logout"
	EndedByUser     = "ended by the user"
	EndedByPassword = "password changed"
	EndedByReset    = "password reset"
	EndedByReuse    = "refresh token reused"
	EndedByDisable  = "account disabled"
	EndedByErasure  = "account erased"
	EndedByOperator = "ended by an operator"
	EndedBySurplus  = "more logins than one user may have"
	EndedByTOTP     = "second factor changed"
	EndedAtShop     = "logged out at the shop"
)

var (
	// ErrNoLogin answers for a login that is not the user's, or has ended.
	ErrNoLogin = fault.Plain(fault.NotFound, fault.T("You have no such login; it may already have ended.", "没有该登录，可能已退出。"))
	// ErrNoUser answers an operator.
	ErrNoUser = fault.Plain(fault.NotFound, fault.T("There is no such account.", "没有该账号。"))
	// ErrSearch keeps viewers, who see masked phones, from completing them by trying.
	ErrSearch = auth.ErrForbidden.Saying(
		fault.T("Viewers cannot search by phone; ask an operator.", "只读角色不能按手机号查询，请联系运营人员。"))
	// ErrErased refuses any change of an erased account.
	ErrErased = fault.ErrTransition.Saying(fault.T("This account was erased and can no longer be changed.", "该账号已注销，不能再修改。"))
	// ErrLastAdmin keeps the shop from losing its last admin.
	ErrLastAdmin = fault.New(fault.Conflict, "last-admin", fault.T("This is the last admin", "不能移除最后一位管理员"),
		fault.T("This is the shop's last admin. Make another user an admin first.", "这是最后一位管理员，请先将另一位用户设为管理员。"),
		fault.T("Make another user an admin first.", "请先将另一位用户设为管理员。"))
)

// InTx runs do in a transaction that may end logins, and announces the revocations
// after the commit. An error without a code is wrapped with the operation.
func (s *Store) InTx(ctx context.Context, operation string, do func(tx pgx.Tx) error) error {
	if err := pg.InTx(ctx, s.DB, do); err != nil {
		return Failed(operation, err)
	}
	s.Revoke.Tell(ctx)
	return nil
}

// LockActive locks a user's row and returns it if the account may be used. The lock
// orders the caller with every operation that ends all of the user's logins.
func LockActive(ctx context.Context, tx pgx.Tx, user int64) (User, error) {
	u, err := accountdb.New(tx).LockUser(ctx, user)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return u, ErrNoAccount
	case err == nil && u.Status != Active:
		return u, ErrDisabled
	}
	return u, Failed("lock user", err)
}

// Change runs do on a locked user, for an operator or for a second factor, and announces
// its revocations after the commit.
func (s *Store) Change(ctx context.Context, user int64, do func(tx pgx.Tx, u User) error) error {
	return s.InTx(ctx, fmt.Sprintf("change user %d", user), Locked(ctx, user, do))
}

// Locked returns a transaction that runs do on a locked user.
func Locked(ctx context.Context, user int64, do func(tx pgx.Tx, u User) error) func(tx pgx.Tx) error {
	return func(tx pgx.Tx) error {
		u, err := accountdb.New(tx).LockUser(ctx, user)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNoUser
		case err != nil:
			return err // the caller names the operation
		case u.Status == Erased:
			return ErrErased
		}
		return do(tx, u)
	}
}

// EndLogin ends one login of a user, with those that it confirmed, and revokes their
// access tokens in tx; it returns ErrNoLogin if the user has no open login with that
// id. The caller has locked the user.
func (s *Store) EndLogin(ctx context.Context, tx pgx.Tx, user, login int64, why string) error {
	ended, err := accountdb.New(tx).EndLogin(ctx, accountdb.EndLoginParams{ID: login, UserID: user, Why: why})
	switch {
	case err != nil:
		return fmt.Errorf("account: end login: %w", err)
	case len(ended) == 0:
		return ErrNoLogin
	}
	return s.Revoke.Logins(ctx, tx, why, ended...)
}

// EndLogins ends all logins of a user but one, in tx, and returns how many; keep 0 ends
// all.
func (s *Store) EndLogins(ctx context.Context, tx pgx.Tx, user, keep int64, why string) (int, error) {
	ended, err := accountdb.New(tx).EndLoginsExcept(ctx, accountdb.EndLoginsExceptParams{UserID: user, Keep: keep, Why: why})
	if err == nil {
		err = s.Revoke.Logins(ctx, tx, why, ended...)
	}
	return len(ended), Failed("end logins", err)
}

// EndAll ends all logins of a user and every token, also those that were minted for the
// user and belong to no login. It returns how many logins there were.
func (s *Store) EndAll(ctx context.Context, tx pgx.Tx, user int64, why string) (int, error) {
	n, err := s.EndLogins(ctx, tx, user, 0, why)
	if err == nil {
		err = s.Revoke.User(ctx, tx, why, user)
	}
	return n, err
}

// Notify tells a user about a change to the account, from tx on: at me/notices, and by
// SMS if there is a gateway and the user has a phone.
func (s *Store) Notify(ctx context.Context, tx pgx.Tx, user int64, about sms.Note) error {
	q := accountdb.New(tx)
	err := q.PutNotice(ctx, accountdb.PutNoticeParams{UserID: user, About: string(about)})
	if err == nil && s.SendsSMS {
		err = q.PutNote(ctx, accountdb.PutNoteParams{ID: ids.New(), UserID: user, About: string(about)})
	}
	return Failed("note to a user", err)
}

// OtherAdmins counts the active admins other than a user. It takes the lock that
// guards changes of admins, so the count is valid until tx ends.
func OtherAdmins(ctx context.Context, tx pgx.Tx, user int64) (n int64, err error) {
	q := accountdb.New(tx)
	if err = q.LockAdmins(ctx); err == nil {
		n, err = q.CountOtherAdmins(ctx, user)
	}
	return n, Failed("count admins", err)
}

// MakeFirstAdmin gives the shop's first admin the role; why is for the audit log.
func MakeFirstAdmin(ctx context.Context, tx pgx.Tx, u User, why string) error {
	err := accountdb.New(tx).SetRole(ctx, accountdb.SetRoleParams{ID: u.ID, Role: string(auth.Admin)})
	if err == nil {
		err = audit.Record(ctx, tx, "user.first-admin", "user "+httpx.FormatID(u.ID), audit.Change{
			Before: State{Role: u.Role}, After: State{Role: string(auth.Admin)}, Reason: why,
		})
	}
	return Failed("first admin", err)
}

// KeepAnAdmin refuses to remove the last admin. The caller has locked u. If two
// admins remove each other, the second transaction sees that the first admin is
// gone.
func KeepAnAdmin(ctx context.Context, tx pgx.Tx, u User) error {
	if u.Role != string(auth.Admin) || u.Status != Active {
		return nil
	}
	others, err := OtherAdmins(ctx, tx, u.ID)
	if err == nil && others == 0 {
		return ErrLastAdmin
	}
	return err
}

// State is what the audit log keeps of an account before and after a change; a member
// that the change leaves alone is empty.
type State struct {
	Role   string `json:"role,omitempty"`
	Status string `json:"status,omitempty"`
}
