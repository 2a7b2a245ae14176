package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/identity/account/internal/accountdb"
)

// Directory answers questions about accounts. It needs only the database, so that the
// blacklist, which logins depend on, can be built before the accounts.
type Directory struct{ DB *pgxpool.Pool }

// Owner parses a phone as people write it and returns it in E.164, with its user, or
// 0 if it has none. A text that is not a phone is a fault.
func (o Directory) Owner(ctx context.Context, raw string) (phone string, user int64, err error) {
	p, err := ParsePhone(raw)
	if err != nil {
		return "", 0, err
	}
	phone = string(p)
	u, err := accountdb.New(o.DB).UserByPhone(ctx, &phone)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return phone, 0, nil
	case err != nil:
		return "", 0, fmt.Errorf("account: owner of a phone: %w", err)
	}
	return phone, u.ID, nil
}

// Disabled returns the users whose accounts are disabled.
func (o Directory) Disabled(ctx context.Context, tx pgx.Tx) ([]int64, error) {
	users, err := accountdb.New(tx).DisabledUsers(ctx)
	if err != nil {
		return nil, fmt.Errorf("account: disabled users: %w", err)
	}
	return users, nil
}

// Staff finds the phones of staff. It needs only the database, so that the sender of
// SMS, which the accounts depend on, can be built before them.
type Staff struct {
	DB    *pgxpool.Pool
	First Phone // of the first admin, "" if none is set
}

// Phones returns the phones of all accounts that are not shoppers', and of the first
// admin, who may not have one yet.
func (s Staff) Phones(ctx context.Context) ([]string, error) {
	phones, err := accountdb.New(s.DB).StaffPhones(ctx)
	if err != nil {
		return nil, fmt.Errorf("account: phones of staff: %w", err)
	}
	return append(phones, string(s.First)), nil
}
