package account

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/store/pg"
)

// Both are returned only after the phone's code was shown.
var (
	errPhoneOther = errPhoneTaken.Saying(
		fault.T("This phone belongs to another account of the shop. Log in with it instead.", "该手机号已绑定其他账号，请直接用它登录。"))
	errPhoneLinked = fault.New(fault.Conflict, "phone-linked",
		fault.T("Your account has another phone", "您的账号已绑定其他手机号"),
		fault.T("Your account has another phone already.", "您的账号已绑定其他手机号。"),
		fault.T("Use the phone that is linked, or another account.", "请使用已绑定的手机号，或换用其他账号。"))
)

// BindPhone adds a phone, proved by a code, to an account that has none, as a way to
// log in. An account with another phone keeps it: a stolen access token must not
// suffice to take the account over.
func (s *Service) BindPhone(ctx context.Context, user int64, phone Phone, code string, from netip.Addr) error {
	if err := s.takeOwn(ctx, user); err != nil {
		return err
	}
	if err := s.keepOut("bind-phone", user, phone, Device{Address: from}); err != nil {
		return err
	}
	_, err := s.byCode(ctx, phone, ForBind, code, caller{Address: from}, func(tx pgx.Tx) (Tokens, error) {
		u, err := lockActive(ctx, tx, user)
		switch {
		case err != nil:
			return Tokens{}, err
		case phoneIn(u) == phone:
			return Tokens{}, nil
		case u.Phone != nil:
			return Tokens{}, errPhoneLinked
		}
		text := string(phone)
		err = accountdb.New(tx).SetPhone(ctx, accountdb.SetPhoneParams{ID: user, Phone: &text})
		if pg.ViolatesUnique(err, "users_phone") {
			return Tokens{}, errPhoneOther
		}
		if err != nil {
			return Tokens{}, fmt.Errorf("account: set phone: %w", err)
		}
		return Tokens{}, nil
	})
	return err
}
