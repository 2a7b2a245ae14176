package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/identity/account/internal/accountdb"
)

// Phones knows whose phones are. It needs the database alone, so that the blacklist,
// which logins ask, can be made before the accounts are.
type Phones struct{ DB *pgxpool.Pool }

// Owner reads a phone as people write it and returns it in E.164, with the user
// that it belongs to, 0 when nobody has it. A text that is no phone is a fault.
func (o Phones) Owner(ctx context.Context, raw string) (phone string, user int64, err error) {
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
