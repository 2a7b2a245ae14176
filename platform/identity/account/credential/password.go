package credential

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/password"
	"stampede/platform/store/pg"
)

// The answers to a wrong password. The first does not reveal whether the phone has
// an account, or the account a password.
var (
	errWrongLogin = fault.New(fault.Unauthenticated, "wrong-login",
		fault.T("Phone or password is wrong", "手机号或密码错误"),
		fault.T("Phone or password is wrong. After several failures, wait a minute, log in by SMS code, or reset the "+
			"password.",
			"手机号或密码错误。多次失败后，请等待一分钟、使用短信验证码登录或重置密码。"),
		fault.T("Check phone and password. If the shop sends SMS, log in by code or reset the password.",
			"请核对手机号和密码；商家已开通短信的，可使用验证码登录或重置密码。"))
	errWrongPassword = fault.New(fault.Forbidden, "wrong-password", fault.T("The password is wrong", "密码错误"),
		fault.T("The password is wrong.", "密码错误。"),
		fault.T("Check the password, or reset it by SMS code.", "请核对密码，或通过短信验证码重置。"))
	errNoPassword = fault.New(fault.Conflict, "no-password", fault.T("No password is set yet", "尚未设置密码"),
		fault.T("This account has no password yet; set one by password/reset with an SMS code.",
			"该账号尚未设置密码，请用短信验证码通过 password/reset 设置。"),
		fault.T("Set a password with an SMS code (auth/password/reset).", "请先通过短信验证码设置密码。"))
)

// loginByPassword logs in with a phone and its password. A phone without an
// account, an account without a password and a wrong password take the same work
// and get the same answer.
func (s *Service) loginByPassword(ctx context.Context, in *loginInput, phone account.Phone, d login.Device) (login.Tokens, error) {
	from, secret := in.Caller(ctx), in.Body.Password
	if err := s.Guard.KeepOut(login.ByPassword, 0, phone, d.ID, d.Address); err != nil {
		return login.Tokens{}, err
	}
	if err := s.Guard.Password(ctx, phone, from); err != nil {
		return login.Tokens{}, err
	}
	u, err := account.ByPhone(ctx, s.Store.DB, phone)
	if err != nil {
		return login.Tokens{}, err
	}
	for range passwordLooks {
		fits, stale, err := s.Hasher.Check(ctx, account.PasswordOf(u), secret)
		if err != nil {
			return login.Tokens{}, account.Failed("check password", err)
		}
		if !fits {
			s.Guard.Failed(ctx, phone, from)
			return login.Tokens{}, s.wrongLogin()
		}
		fresh := ""
		if stale {
			fresh = s.rehash(ctx, secret)
		}
		out, now, err := s.openChecked(ctx, u, fresh, d)
		if err == nil {
			s.Store.Revoke.Tell(ctx)
			s.Guard.Forget(ctx, phone)
			return out, nil
		}
		if !errors.Is(err, errChanged) {
			return login.Tokens{}, account.Failed("log in", err)
		}
		u = now
	}
	return login.Tokens{}, password.ErrBusy
}

// wrongLogin also says where shoppers log in, if not here: whose phone is one of the
// staff's must not be told before the password is shown.
func (s *Service) wrongLogin() error {
	at := s.Store.Config.LoginURL
	if at == "" {
		return errWrongLogin
	}
	return errWrongLogin.With("login_url", at).Saying(fault.T("Phone or password is wrong. Only staff log in here; shoppers log in at {url}.",
		"手机号或密码错误。此处仅限员工登录，顾客请前往 {url} 登录。", "url", at))
}

// passwordLooks is the maximum number of checks of a password whose stored form
// changes meanwhile: two concurrent logins that both store it with new costs are
// legitimate.
const passwordLooks = 3

// errChanged reports that the stored password is no longer the one that was checked.
var errChanged = errors.New("account: password changed while it was checked")

// openChecked opens a login for a user whose password was checked, and stores the
// password's fresh hash if there is one. A change since the check has ended all
// logins, and the old password must not open another: openChecked then returns
// errChanged with the current row.
func (s *Service) openChecked(ctx context.Context, u account.User, fresh string, d login.Device) (out login.Tokens, now account.User, err error) {
	err = pg.InTx(ctx, s.Store.DB, func(tx pgx.Tx) error {
		q := accountdb.New(tx)
		if now, err = q.LockUser(ctx, u.ID); err != nil {
			return err
		}
		if account.PasswordOf(now) != account.PasswordOf(u) {
			return errChanged
		}
		if fresh != "" {
			if err := q.SetPassword(ctx, accountdb.SetPasswordParams{ID: u.ID, Password: &fresh}); err != nil {
				return err
			}
		}
		out, err = s.Logins.Open(ctx, tx, u.ID, d, login.ByPassword)
		return err
	})
	return out, now, err
}

// rehash hashes a password with today's costs when a user has just shown it, because
// it is not known at any other time. If that fails, the next login tries again.
func (s *Service) rehash(ctx context.Context, secret string) string {
	phc, err := s.Hasher.Hash(ctx, secret)
	if err != nil {
		s.Store.Log.WarnContext(ctx, "rehashing a password with the current cost failed", "error", err)
		return ""
	}
	return phc
}

// changePassword sets a new password for a user who shows the old one, and ends the
// user's other logins; keep is the current one.
func (s *Service) changePassword(ctx context.Context, user, keep int64, old, secret string) error {
	u, err := s.Store.ByID(ctx, user)
	if err != nil {
		return err
	}
	if u.Password == nil {
		return errNoPassword
	}
	if err := password.Accept(secret, string(account.PhoneOf(u)), u.Name, s.Store.Config.SMSSignature); err != nil {
		return err
	}
	if err := s.showPassword(ctx, u, old); err != nil {
		return err
	}
	phc, err := s.Hasher.Hash(ctx, secret)
	if err != nil {
		return err
	}
	return s.Store.InTx(ctx, "change password", func(tx pgx.Tx) error {
		q := accountdb.New(tx)
		now, err := q.LockUser(ctx, user)
		if err != nil {
			return err
		}
		if account.PasswordOf(now) != account.PasswordOf(u) {
			return errWrongPassword // changed concurrently
		}
		if err := q.SetPassword(ctx, accountdb.SetPasswordParams{ID: user, Password: &phc}); err != nil {
			return err
		}
		if err := s.Store.Notify(ctx, tx, user, sms.NotePassword); err != nil {
			return err
		}
		_, err = s.Store.EndLogins(ctx, tx, user, keep, account.EndedByPassword)
		return err
	})
}

// showPassword checks the password of a logged-in user.
func (s *Service) showPassword(ctx context.Context, u account.User, secret string) error {
	if err := s.Guard.Own(ctx, u.ID); err != nil {
		return err
	}
	fits, _, err := s.Hasher.Check(ctx, account.PasswordOf(u), secret)
	if err == nil && !fits {
		return errWrongPassword
	}
	if err != nil {
		return account.Failed("check password", err)
	}
	return nil
}
