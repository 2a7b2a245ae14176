package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/password"
	"stampede/platform/identity/humancheck"
	"stampede/platform/identity/sms"
	"stampede/platform/store/pg"
)

// How a login was opened.
const (
	byPassword = "password"
	bySMS      = "sms"
	byWeChat   = "wechat"
	byRegister = "register"
	byRefresh  = "refresh" // not a login, but counted as one
)

// These two are returned only after the phone's code was shown, so they reveal to no
// third party whether a phone has an account.
var (
	errPhoneTaken = fault.New(fault.Conflict, "phone-taken", fault.T("This phone already has an account", "该手机号已注册"),
		fault.T("This phone already has an account; log in, or reset the password.", "该手机号已注册，请直接登录或重置密码。"),
		fault.T("Log in, or reset the password.", "请直接登录，或重置密码。"))
	errPhoneUnknown = fault.New(fault.NotFound, "phone-unknown", fault.T("This phone has no account", "该手机号未注册"),
		fault.T("This phone has no account; register, or log in by SMS code.", "该手机号未注册，请先注册或使用短信验证码登录。"),
		fault.T("Register, or log in by SMS code.", "请先注册，或使用短信验证码登录。"))
)

// Register creates an account for a phone proved by a code, and logs in.
func (s *Service) Register(ctx context.Context, phone Phone, code, secret, name string, d Device, from caller) (Tokens, error) {
	if err := s.keepOut(byRegister, 0, phone, d); err != nil {
		return Tokens{}, err
	}
	if err := password.Accept(secret, string(phone), name, s.cfg.SMSSignature); err != nil {
		return Tokens{}, err
	}
	if err := s.admit(ctx, humancheck.PurposeRegister, from, s.registrations(from), s.registerAsks(from)); err != nil {
		return Tokens{}, err
	}
	s.note(ctx, middleWindow, s.registrations(from))
	phc, err := s.hasher.Hash(ctx, secret)
	if err != nil {
		return Tokens{}, err
	}
	return s.byCode(ctx, phone, ForRegister, code, from, func(tx pgx.Tx) (Tokens, error) {
		text := string(phone)
		u, err := newUser(ctx, tx, accountdb.CreateUserParams{Phone: &text, Name: name, Password: &phc})
		if errors.Is(err, pgx.ErrNoRows) {
			return Tokens{}, errPhoneTaken
		}
		if err != nil {
			return Tokens{}, fmt.Errorf("account: create user: %w", err)
		}
		return s.OpenLogin(ctx, tx, u.ID, d, byRegister)
	})
}

// LoginByCode logs in with a phone and a code; a phone without an account gets one,
// without a password, and that counts as a registration from the caller's address.
func (s *Service) LoginByCode(ctx context.Context, phone Phone, code string, d Device, from caller) (Tokens, error) {
	if err := s.keepOut(bySMS, 0, phone, d); err != nil {
		return Tokens{}, err
	}
	if err := s.admit(ctx, humancheck.PurposeLogin, from, append(s.loginFailures(phone, from), s.registrations(from)...), s.loginAsks(from)); err != nil {
		return Tokens{}, err
	}
	created := false
	out, err := s.byCode(ctx, phone, ForLogin, code, from, func(tx pgx.Tx) (Tokens, error) {
		q, text := accountdb.New(tx), string(phone)
		u, err := newUser(ctx, tx, accountdb.CreateUserParams{Phone: &text})
		if created = err == nil; created {
			err = s.take(ctx, s.registerAsk(from))
		} else if errors.Is(err, pgx.ErrNoRows) {
			u, err = q.UserByPhone(ctx, &text)
		}
		if err != nil {
			return Tokens{}, fmt.Errorf("account: user of a phone: %w", err)
		}
		return s.OpenLogin(ctx, tx, u.ID, d, bySMS)
	})
	if err == nil && created {
		s.note(ctx, middleWindow, s.registrations(from))
	}
	return out, err
}

// ResetPassword sets a new password for the account of a phone proved by a code, and
// ends all its logins.
func (s *Service) ResetPassword(ctx context.Context, phone Phone, code, secret string, from caller) error {
	if err := password.Accept(secret, string(phone), s.cfg.SMSSignature); err != nil {
		return err
	}
	if err := s.admit(ctx, humancheck.PurposeLogin, from, s.loginFailures(phone, from), s.loginAsks(from)); err != nil {
		return err
	}
	phc, err := s.hasher.Hash(ctx, secret)
	if err != nil {
		return err
	}
	_, err = s.byCode(ctx, phone, ForReset, code, from, func(tx pgx.Tx) (Tokens, error) {
		q, text := accountdb.New(tx), string(phone)
		u, err := q.UserByPhone(ctx, &text)
		if errors.Is(err, pgx.ErrNoRows) {
			return Tokens{}, errPhoneUnknown
		}
		if err != nil {
			return Tokens{}, fmt.Errorf("account: user of a phone: %w", err)
		}
		if _, err := lockActive(ctx, tx, u.ID); err != nil {
			return Tokens{}, err
		}
		if err := q.SetPassword(ctx, accountdb.SetPasswordParams{ID: u.ID, Password: &phc}); err != nil {
			return Tokens{}, fmt.Errorf("account: set password: %w", err)
		}
		if err := s.noteTo(ctx, tx, u.ID, sms.NotePassword); err != nil {
			return Tokens{}, err
		}
		return Tokens{}, s.endLogins(ctx, tx, u.ID, 0, endedByReset)
	})
	if err == nil {
		s.forget(ctx, phone)
	}
	return err
}

// byCode uses a code up and runs do in the same transaction. A coded refusal by do
// rolls back what do has written but leaves the code used: it was shown, so it must
// not work a second time.
func (s *Service) byCode(ctx context.Context, phone Phone, purpose Purpose, code string, from caller, do func(tx pgx.Tx) (Tokens, error)) (Tokens, error) {
	var out Tokens
	var refusal *fault.Error
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		out, refusal = Tokens{}, nil // drops the result of a rolled-back attempt
		fits, err := s.useCode(ctx, tx, phone, purpose, code, from)
		if err != nil {
			return err
		}
		if !fits {
			refusal = errWrongCode
			return nil
		}
		err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
			out, err = do(tx)
			return err
		})
		if errors.Is(err, errTOTPRequired) || errors.Is(err, errWrongTOTP) {
			return err // the code stays valid for another attempt with the second factor
		}
		if errors.As(err, &refusal) {
			return nil
		}
		return err
	})
	if err != nil {
		return Tokens{}, asFault("by code", err)
	}
	if refusal != nil {
		if errors.Is(refusal, errWrongCode) {
			s.note(ctx, failureWindow, s.loginFailures(phone, from))
		}
		return Tokens{}, refusal
	}
	s.deps.Revoke.Tell(ctx)
	return out, nil
}
