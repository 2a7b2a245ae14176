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

var errLastAdmin = fault.New(fault.Conflict, "last-admin", fault.Titles{"This is the last admin", "不能移除最后一位管理员"}, "This is the shop's last admin. Make somebody else an admin first.")

// firstAdmin returns the role that a user logs in with: admin for the phone of
// the settings while the shop has none, else the row's. Only as long as there is
// none, so that whoever is made an operator again stays one.
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
	err = audit.Record(ctx, tx, "user.first-admin", "user "+httpx.FormatID(u.ID), map[string]any{"by": "--first-admin-phone"})
	return string(auth.Admin), err
}

// otherAdmins counts the active admins besides a user. It takes the lock under
// which admins change, so the count holds until tx ends.
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

// keepAnAdmin refuses to take the last admin away. u is locked by the caller.
// Of two who take each other away, the second sees that the first has gone.
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
