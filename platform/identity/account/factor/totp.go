// Package factor keeps second factors: TOTP secrets with recovery codes.
//
// An admin's tokens have the role shopper until the admin has a second factor
// (Settings.AdminWithoutTOTP lifts this for practice). Any user may have one; then every
// login needs its code, and adding it ends all logins but the one that did.
package factor

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/watch/audit"
)

const (
	// stepSeconds and six digits are what every authenticator app assumes.
	stepSeconds = 30
	totpDigits  = 6
	// skewSteps tolerates a phone's clock that is wrong by up to 30 s.
	skewSteps = 1
)

// totpRule bounds guesses of a code by a caller who has the password: three of a
// million codes are valid at a time, which is a chance of 1 in 700 a day.
var totpRule = ratelimit.Rule{Name: "totp-user", Count: 5, Per: guard.FailureWindow}

var (
	// ErrRequired answers a login whose user has a second factor.
	ErrRequired = fault.New(fault.Forbidden, "totp-required",
		fault.T("Enter the code of your authenticator app", "请输入动态验证码"),
		fault.T("This account has a second factor: send totp, the six digits that its authenticator app shows, or a "+
			"recovery code.",
			"该账号已启用两步验证，请在 totp 中填写六位动态验证码或一个恢复码。"),
		fault.T("Enter the six digits of the authenticator app (totp), or a recovery code.",
			"请输入验证器应用中的六位动态验证码，或一个恢复码。"))
	// ErrWrong answers a code that is not the user's, or was used.
	ErrWrong = fault.New(fault.Unauthenticated, "wrong-totp",
		fault.T("The authenticator code is not valid", "动态验证码错误或已使用"),
		fault.T("The code of the authenticator app is wrong or was used before. Wait for the next one.",
			"动态验证码错误或已使用，请等待下一个。"),
		fault.T("Wait for the next code of the authenticator app and send it, or use a recovery code.",
			"请等待验证器显示下一个验证码后再试，或使用恢复码。"))
	// ErrSet refuses a second factor beside one that is in force.
	ErrSet = fault.New(fault.Conflict, "totp-set", fault.T("A second factor is already set", "已启用动态验证码"),
		fault.T("This account has a second factor already. Remove it first, with one of its codes.",
			"该账号已启用两步验证，请先用动态验证码关闭。"),
		fault.T("Remove the second factor with one of its codes first.", "请先使用动态验证码关闭现有的两步验证。"))
	errNone = fault.Plain(fault.NotFound, fault.T("This account has no second factor.", "该账号未启用两步验证。"))
)

// Service keeps second factors. Safe for concurrent use.
type Service struct {
	store *account.Store
	guard *guard.Guard
	keys  auth.Ring
}

// New returns a Service.
func New(store *account.Store, g *guard.Guard) *Service {
	return &Service{store: store, guard: g, keys: store.Config.Keys("account-totp")}
}

// RoleOf returns the role of a user's tokens: an admin without a second factor has a
// shopper's, which suffices to add one.
func (s *Service) RoleOf(ctx context.Context, tx pgx.Tx, u account.User) (auth.Role, error) {
	role := auth.Role(u.Role)
	if role != auth.Admin || s.store.Config.AdminWithoutTOTP {
		return role, nil
	}
	t, err := Of(ctx, tx, u.ID)
	if err != nil || !t.Confirmed {
		return auth.Shopper, err
	}
	return role, nil
}

// Of returns a user's second factor, the zero value if there is none.
func Of(ctx context.Context, db accountdb.DBTX, user int64) (accountdb.TOTPOfRow, error) {
	t, err := accountdb.New(db).TOTPOf(ctx, user)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, nil
	}
	return t, account.Failed("second factor", err)
}

// Check checks and uses up a user's code in tx, if the user has a second
// factor. The caller has locked the user.
func (s *Service) Check(ctx context.Context, tx pgx.Tx, user int64, code string) error {
	t, err := Of(ctx, tx, user)
	switch {
	case err != nil || !t.Confirmed:
		return err
	case code == "":
		return ErrRequired
	}
	return s.use(ctx, tx, user, t, code)
}

// use uses up a code of the app in tx, which confirms a new secret, or a recovery code in
// its place.
func (s *Service) use(ctx context.Context, tx pgx.Tx, user int64, t accountdb.TOTPOfRow, code string) error {
	if err := s.guard.Take(ctx, ratelimit.Ask{Rule: totpRule, Key: ratelimit.UserKey(user)}); err != nil {
		return err
	}
	if len(code) != totpDigits {
		return s.useRecovery(ctx, tx, user, t, code)
	}
	secret, ok := s.keys.Open(t.Secret, httpx.FormatID(user))
	if !ok {
		return errSealed
	}
	step, ok := stepOf(secret, code, t.Now/stepSeconds)
	if !ok {
		return ErrWrong
	}
	// Sealed again, so that a rotated signing key can go once every code was used.
	used, err := accountdb.New(tx).UseTOTP(ctx, accountdb.UseTOTPParams{UserID: user, Step: step, Secret: s.seal(user, secret)})
	if err == nil && used == 0 {
		return ErrWrong
	}
	return account.Failed("use a second factor", err)
}

// stepOf returns the step near now whose code this is; secret is in base32.
func stepOf(secret []byte, code string, now int64) (step int64, ok bool) {
	for step = now - skewSteps; step <= now+skewSteps; step++ {
		if hotp.Validate(code, uint64(step), string(secret)) { //nolint:gosec // a time after 1970
			return step, true
		}
	}
	return 0, false
}

// seal encrypts a user's secret; it opens for that user only.
func (s *Service) seal(user int64, secret []byte) []byte {
	return s.keys.Seal(secret, httpx.FormatID(user))
}

var errSealed = errors.New("account: a second factor was sealed with a signing key that is no longer known; an admin can remove it")

// Start makes a secret for a user's authenticator app and returns it in base32 and
// as an otpauth URL. It protects nothing until Confirm.
func (s *Service) Start(ctx context.Context, user int64) (secret, url string, err error) {
	u, err := s.store.ByID(ctx, user)
	if err != nil {
		return "", "", err
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: s.store.Config.SMSSignature, AccountName: account.PhoneOf(u).Masked() + " #" + httpx.FormatID(user)})
	if err != nil {
		return "", "", fmt.Errorf("account: make a second factor: %w", err)
	}
	n, err := accountdb.New(s.store.DB).PutTOTP(ctx, accountdb.PutTOTPParams{UserID: user, Secret: s.seal(user, []byte(key.Secret()))})
	if err != nil {
		return "", "", fmt.Errorf("account: store a second factor: %w", err)
	}
	if n == 0 {
		return "", "", ErrSet
	}
	return key.Secret(), key.URL(), nil
}

// Confirm puts a user's new secret into force with its first code and ends the
// user's other logins, none of which has shown a code; keep is the current one. It
// returns the user's recovery codes.
func (s *Service) Confirm(ctx context.Context, user, keep int64, code string) (recovery []string, err error) {
	err = s.change(ctx, user, add, func(tx pgx.Tx, t accountdb.TOTPOfRow) (err error) {
		if t.Confirmed {
			return ErrSet
		}
		if err := s.use(ctx, tx, user, t, code); err != nil {
			return err
		}
		if recovery, err = newRecovery(ctx, tx, user); err != nil {
			return err
		}
		_, err = s.store.EndLogins(ctx, tx, user, keep, account.EndedByTOTP)
		return err
	})
	return recovery, err
}

// Remove removes a user's second factor with one of its codes. Access tokens end,
// because an admin's next one has a lesser role.
func (s *Service) Remove(ctx context.Context, user int64, code string) error {
	return s.change(ctx, user, "user.totp-remove", func(tx pgx.Tx, t accountdb.TOTPOfRow) error {
		if err := s.use(ctx, tx, user, t, code); err != nil {
			return err
		}
		if _, err := accountdb.New(tx).RemoveTOTP(ctx, user); err != nil {
			return err
		}
		return s.store.Revoke.User(ctx, tx, account.EndedByTOTP, user)
	})
}

// Reset removes the second factor of a user who has lost it and ends all their
// logins.
func (s *Service) Reset(ctx context.Context, user int64) error {
	return s.change(ctx, user, "user.totp-reset", func(tx pgx.Tx, _ accountdb.TOTPOfRow) error {
		if _, err := accountdb.New(tx).RemoveTOTP(ctx, user); err != nil {
			return err
		}
		_, err := s.store.EndAll(ctx, tx, user, account.EndedByTOTP)
		return err
	})
}

// add is the action in the audit log of a secret that comes into force.
const add = "user.totp-add"

// factor is what the audit log keeps of a second factor before and after a change.
type factor struct {
	InForce  bool  `json:"totp_in_force"` // false also while the first code is awaited
	Recovery int32 `json:"recovery_codes,omitempty"`
}

// change runs do on a user who has a second factor, under the user's lock, and
// records it.
func (s *Service) change(ctx context.Context, user int64, action string, do func(tx pgx.Tx, t accountdb.TOTPOfRow) error) error {
	return s.store.Change(ctx, user, func(tx pgx.Tx, _ account.User) error {
		t, err := Of(ctx, tx, user)
		if err != nil {
			return err
		}
		if t.Secret == nil {
			return errNone
		}
		if err := do(tx, t); err != nil {
			return err
		}
		if err := s.store.Notify(ctx, tx, user, sms.NoteFactor); err != nil {
			return err
		}
		after := factor{}
		if action == add || action == renewRecovery {
			after = factor{true, recoveryCodes}
		}
		return audit.Record(ctx, tx, action, "user "+httpx.FormatID(user), audit.Change{Before: factor{t.Confirmed, t.RecoveryLeft}, After: after})
	})
}
