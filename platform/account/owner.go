package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/account/internal/accountdb"
)

// Owner reads a phone as people write it and returns it in E.164, with the user
// that it belongs to, 0 when nobody has it. A text that is no phone is a fault.
func (s *Service) Owner(ctx context.Context, raw string) (phone string, user int64, err error) {
	p, err := ParsePhone(raw)
	if err != nil {
		return "", 0, err
	}
	phone = string(p)
	u, err := accountdb.New(s.deps.DB).UserByPhone(ctx, &phone)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return phone, 0, nil
	case err != nil:
		return "", 0, fmt.Errorf("account: owner of a phone: %w", err)
	}
	return phone, u.ID, nil
}
