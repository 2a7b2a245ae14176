package account

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/watch/audit"
)

var errLastAdmin = fault.New(fault.Conflict, "last-admin", fault.T("This is the last admin", "不能移除最后一位管理员"),
	fault.T("This is the shop's last admin. Make another user an admin first.", "这是最后一位管理员，请先将另一位用户设为管理员。"),
	fault.T("Make another user an admin first.", "请先将另一位用户设为管理员。"))

// firstAdmin returns the role that a user logs in with: admin for the phone in the
// settings while the shop has no admin, else the row's role. The check for an
// existing admin makes sure that a demoted admin stays demoted.
func (s *Service) firstAdmin(ctx context.Context, tx pgx.Tx, u accountdb.AccountUser) (string, error) {
	if s.cfg.FirstAdmin == "" || phoneIn(u) != s.cfg.FirstAdmin || u.Role == string(auth.Admin) {
		return u.Role, nil
	}
	others, err := s.otherAdmins(ctx, tx, u.ID)
	if err != nil || others > 0 {
		return u.Role, err
	}
	if err := accountdb.New(tx).SetRole(ctx, accountdb.SetRoleParams{ID: u.ID, Role: string(auth.Admin)}); err != nil {
		return "", fmt.Errorf("account: first admin: %w", err)
	}
	err = audit.Record(ctx, tx, "user.first-admin", "user "+httpx.FormatID(u.ID), audit.Change{
		Before: state{Role: u.Role}, After: state{Role: string(auth.Admin)}, Reason: "--first-admin-phone",
	})
	return string(auth.Admin), err
}

// otherAdmins counts the active admins other than a user. It takes the lock that
// guards changes of admins, so the count is valid until tx ends.
func (s *Service) otherAdmins(ctx context.Context, tx pgx.Tx, user int64) (int64, error) {
	q := accountdb.New(tx)
	if err := q.LockAdmins(ctx); err != nil {
		return 0, fmt.Errorf("account: lock admins: %w", err)
	}
	n, err := q.CountOtherAdmins(ctx, user)
	if err != nil {
		return 0, fmt.Errorf("account: count admins: %w", err)
	}
	return n, nil
}

// keepAnAdmin refuses to remove the last admin. The caller has locked u. If two
// admins remove each other, the second transaction sees that the first admin is
// gone.
func (s *Service) keepAnAdmin(ctx context.Context, tx pgx.Tx, u accountdb.AccountUser) error {
	if u.Role != string(auth.Admin) || u.Status != statusActive {
		return nil
	}
	others, err := s.otherAdmins(ctx, tx, u.ID)
	if err == nil && others == 0 {
		return errLastAdmin
	}
	return err
}
