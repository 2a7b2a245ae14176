package credential

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/password"
	"stampede/platform/store/pg"
)

// These two are returned only after the phone's code was shown, so they reveal to no
// third party whether a phone has an account.
var (
	// ErrPhoneTaken answers a registration.
	ErrPhoneTaken = fault.New(fault.Conflict, "phone-taken", fault.T("This phone already has an account", "该手机号已注册"),
		fault.T("This phone already has an account; log in, or reset the password.", "该手机号已注册，请直接登录或重置密码。"),
		fault.T("Log in, or reset the password.", "请直接登录，或重置密码。"))
	errPhoneUnknown = fault.New(fault.NotFound, "phone-unknown", fault.T("This phone has no account", "该手机号未注册"),
		fault.T("This phone has no account; register, or log in by SMS code.", "该手机号未注册，请先注册或使用短信验证码登录。"),
		fault.T("Register, or log in by SMS code.", "请先注册，或使用短信验证码登录。"))
)

// register creates an account for a phone proved by a code, and logs in.
func (s *Service) register(ctx context.Context, in *registerInput, phone account.Phone, d login.Device) (out login.Tokens, err error) {
	if err := s.Store.ShoppersLogInHere(); err != nil {
		return login.Tokens{}, err
	}
	name, from := account.Clean(in.Body.Name), in.Caller(ctx)
	if err := s.Guard.KeepOut(login.ByRegister, 0, phone, d.ID, d.Address); err != nil {
		return login.Tokens{}, err
	}
	if err := password.Accept(in.Body.Password, string(phone), name, s.Store.Config.SMSSignature); err != nil {
		return login.Tokens{}, err
	}
	if err := s.Guard.Registration(ctx, from); err != nil {
		return login.Tokens{}, err
	}
	phc, err := s.Hasher.Hash(ctx, in.Body.Password)
	if err != nil {
		return login.Tokens{}, err
	}
	err = s.Codes.Use(ctx, phone, sms.ForRegister, in.Body.Code, from, func(tx pgx.Tx) error {
		u, err := account.Create(ctx, tx, phone, name, phc)
		if err == nil && u.ID == 0 {
			err = ErrPhoneTaken
		}
		if err == nil {
			out, err = s.Logins.Open(ctx, tx, u.ID, d, login.ByRegister)
		}
		return err
	})
	return out, err
}

// loginByCode logs in with a phone and a code; a phone without an account gets one,
// without a password, and that counts as a registration from the caller's address. Where
// shoppers log in elsewhere, it is for staff and the first admin.
func (s *Service) loginByCode(ctx context.Context, in *loginSMSInput, phone account.Phone, d login.Device) (out login.Tokens, err error) {
	from := in.Caller(ctx)
	if err := s.Guard.KeepOut(login.BySMS, 0, phone, d.ID, d.Address); err != nil {
		return login.Tokens{}, err
	}
	if err := s.Guard.Login(ctx, phone, from, true); err != nil {
		return login.Tokens{}, err
	}
	created := false
	err = s.Codes.Use(ctx, phone, sms.ForLogin, in.Body.Code, from, func(tx pgx.Tx) error {
		u, err := account.Create(ctx, tx, phone, "", "")
		if err != nil {
			return err
		}
		if created = u.ID != 0; created {
			err = s.Guard.Create(ctx, from)
		} else {
			u, err = account.ByPhone(ctx, tx, phone)
		}
		if err == nil {
			out, err = s.Logins.Open(ctx, tx, u.ID, d, login.BySMS)
		}
		return err
	})
	if err == nil && created {
		s.Guard.Created(ctx, from)
	}
	return out, err
}

// resetPassword sets a new password for the account of a phone proved by a code, and
// ends all its logins.
func (s *Service) resetPassword(ctx context.Context, in *resetInput) (*struct{}, error) {
	phone, err := account.TypedPhone(in.Body.Phone)
	if err != nil {
		return nil, err
	}
	from := in.Caller(ctx)
	if err := password.Accept(in.Body.Password, string(phone), s.Store.Config.SMSSignature); err != nil {
		return nil, err
	}
	if err := s.Guard.Login(ctx, phone, from, false); err != nil {
		return nil, err
	}
	phc, err := s.Hasher.Hash(ctx, in.Body.Password)
	if err != nil {
		return nil, err
	}
	err = s.Codes.Use(ctx, phone, sms.ForReset, in.Body.Code, from, func(tx pgx.Tx) error {
		u, err := account.ByPhone(ctx, tx, phone)
		if err != nil {
			return err
		}
		if u.ID == 0 {
			return errPhoneUnknown
		}
		if _, err := account.LockActive(ctx, tx, u.ID); err != nil {
			return err
		}
		if err := accountdb.New(tx).SetPassword(ctx, accountdb.SetPasswordParams{ID: u.ID, Password: &phc}); err != nil {
			return fmt.Errorf("account: set password: %w", err)
		}
		if err := s.Store.Notify(ctx, tx, u.ID, sms.NotePassword); err != nil {
			return err
		}
		_, err = s.Store.EndLogins(ctx, tx, u.ID, 0, account.EndedByReset)
		return err
	})
	if err == nil {
		s.Guard.Forget(ctx, phone)
	}
	return nil, err
}

// Both are returned only after the phone's code was shown.
var (
	errPhoneOther = ErrPhoneTaken.Saying(
		fault.T("This phone belongs to another account of the shop. Log in with it instead.", "该手机号已绑定其他账号，请直接用它登录。"))
	errPhoneLinked = fault.New(fault.Conflict, "phone-linked",
		fault.T("Your account has another phone", "您的账号已绑定其他手机号"),
		fault.T("Your account has another phone already.", "您的账号已绑定其他手机号。"),
		fault.T("Use the phone that is linked, or another account.", "请使用已绑定的手机号，或换用其他账号。"))
)

// bindPhone adds a phone, proved by a code, to an account that has none, as a way to
// log in. An account with another phone keeps it: a stolen access token must not
// suffice to take the account over.
func (s *Service) bindPhone(ctx context.Context, in *bindInput) (*struct{}, error) {
	phone, err := account.TypedPhone(in.Body.Phone)
	if err != nil {
		return nil, err
	}
	user, from := auth.From(ctx).UserID, guard.Caller{Address: httpx.ClientAddr(ctx)}
	if err := s.Logins.Holds(ctx, auth.From(ctx), in.Body.RefreshToken); err != nil {
		return nil, err
	}
	if err := s.Guard.Own(ctx, user); err != nil {
		return nil, err
	}
	if err := s.Guard.KeepOut("bind-phone", user, phone, "", from.Address); err != nil {
		return nil, err
	}
	return nil, s.Codes.Use(ctx, phone, sms.ForBind, in.Body.Code, from, func(tx pgx.Tx) error {
		u, err := account.LockActive(ctx, tx, user)
		switch {
		case err != nil:
			return err
		case account.PhoneOf(u) == phone:
			return nil
		case u.Phone != nil:
			return errPhoneLinked
		}
		err = accountdb.New(tx).SetPhone(ctx, accountdb.SetPhoneParams{ID: user, Phone: (*string)(&phone)})
		if pg.ViolatesUnique(err, "users_phone") {
			return errPhoneOther
		}
		if err != nil {
			return account.Failed("set phone", err)
		}
		return s.Store.Notify(ctx, tx, user, sms.NoteAccess)
	})
}
