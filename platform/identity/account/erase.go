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
	"stampede/platform/watch/audit"
)

// Proof is what a user shows before an irreversible step: one of the three; every
// account has at least one.
type Proof struct {
	Password   string
	Code       string // sent to the phone for ForErase
	WeChatCode string
}

var errNoProof = fault.New(fault.Forbidden, "proof-required", fault.T("Confirm your identity", "请先验证身份"),
	fault.T("Prove that it is you with password, code (sent by auth/sms-codes with the purpose erase) or wechat_code.",
		"请用 password、code（由 auth/sms-codes 以 erase 用途发送）或 wechat_code 验证身份。"),
	fault.T("Send the current password, or an SMS code.", "请提供当前密码或短信验证码。"))

// Erase anonymizes a user irreversibly: phone, name, password, WeChat account,
// devices and addresses are deleted and all logins end. The id stays, and with it
// orders and payments, which the shop must keep. The phone may register again as a
// new user, unless the blacklist has the user or the phone.
func (s *Service) Erase(ctx context.Context, user int64, p Proof) error {
	u, err := accountdb.New(s.deps.DB).UserByID(ctx, user)
	if errors.Is(err, pgx.ErrNoRows) {
		return errNoAccount
	}
	if err != nil {
		return fmt.Errorf("account: read user: %w", err)
	}
	if p.Code != "" && phoneIn(u) != "" {
		_, err = s.byCode(ctx, phoneIn(u), ForErase, p.Code, caller{Address: httpx.ClientAddr(ctx)}, func(tx pgx.Tx) (Tokens, error) {
			return Tokens{}, s.erase(ctx, tx, user)
		})
		return err
	}
	if err := s.prove(ctx, u, p); err != nil {
		return err
	}
	return s.inTx(ctx, "erase", func(tx pgx.Tx) error { return s.erase(ctx, tx, user) })
}

// AlsoErase makes every erasure of a user call these functions in its transaction.
// Call it before Routes.
func (s *Service) AlsoErase(also ...func(ctx context.Context, tx pgx.Tx, user int64) error) {
	s.alsoErase = append(s.alsoErase, also...)
}

// prove checks a proof other than a code.
func (s *Service) prove(ctx context.Context, u accountdb.AccountUser, p Proof) error {
	switch {
	case p.Password != "" && u.Password != nil:
		return s.showPassword(ctx, u, p.Password)
	case p.WeChatCode != "" && s.deps.WeChat != nil:
		who, err := s.deps.WeChat.Exchange(ctx, p.WeChatCode)
		if err != nil {
			return asFault("wechat", err)
		}
		open, err := s.OpenIDOf(ctx, u.ID, who.AppID)
		if err == nil && open != who.OpenID {
			return errNoProof
		}
		return err
	default:
		return errNoProof
	}
}

// erase performs the erasure in tx.
func (s *Service) erase(ctx context.Context, tx pgx.Tx, user int64) error {
	q := accountdb.New(tx)
	u, err := q.LockUser(ctx, user)
	if err != nil {
		return fmt.Errorf("account: erase: %w", err)
	}
	if u.Status == statusErased {
		return errNoAccount
	}
	if err := s.keepAnAdmin(ctx, tx, u); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error {
			if s.deps.Blacklist == nil || u.Phone == nil {
				return nil
			}
			return s.deps.Blacklist.KeepPhone(ctx, tx, user, *u.Phone)
		},
		func() error { return s.endLogins(ctx, tx, user, 0, endedByErasure) },
		func() error { return s.deps.Revoke.User(ctx, tx, endedByErasure, user) },
		func() error { return q.EraseLogins(ctx, user) },
		func() error { return q.EraseIdentities(ctx, user) },
		func() error { return q.EraseNotes(ctx, user) },
		func() error { _, err := q.RemoveTOTP(ctx, user); return err },
		func() error { return q.EraseCodes(ctx, string(phoneIn(u))) },
		func() error { return q.EraseUser(ctx, user) },
		func() error {
			return audit.Record(ctx, tx, "user.erase", "user "+httpx.FormatID(user), audit.Change{Before: state{u.Role, u.Status}, After: state{string(auth.Shopper), statusErased}})
		},
	} {
		if err := step(); err != nil {
			return fmt.Errorf("account: erase: %w", err)
		}
	}
	for _, also := range s.alsoErase {
		if err := also(ctx, tx, user); err != nil {
			return fmt.Errorf("account: erase: %w", err)
		}
	}
	return nil
}
