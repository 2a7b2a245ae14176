package account

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/sms"
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
var totpRule = ratelimit.Rule{Name: "totp-user", Count: 5, Per: failureWindow}

var (
	errTOTPRequired = fault.New(fault.Forbidden, "totp-required",
		fault.T("Enter the code of your authenticator app", "请输入动态验证码"),
		fault.T("This account has a second factor: send totp, the six digits that its authenticator app shows, or a "+
			"recovery code.",
			"该账号已启用两步验证，请在 totp 中填写六位动态验证码或一个恢复码。"),
		fault.T("Enter the six digits of the authenticator app (totp), or a recovery code.",
			"请输入验证器应用中的六位动态验证码，或一个恢复码。"))
	errWrongTOTP = fault.New(fault.Unauthenticated, "wrong-totp",
		fault.T("The authenticator code is not valid", "动态验证码错误或已使用"),
		fault.T("The code of the authenticator app is wrong or was used before. Wait for the next one.",
			"动态验证码错误或已使用，请等待下一个。"),
		fault.T("Wait for the next code of the authenticator app and send it, or use a recovery code.",
			"请等待验证器显示下一个验证码后再试，或使用恢复码。"))
	errTOTPSet = fault.New(fault.Conflict, "totp-set", fault.T("A second factor is already set", "已启用动态验证码"),
		fault.T("This account has a second factor already. Remove it first, with one of its codes.",
			"该账号已启用两步验证，请先用动态验证码关闭。"),
		fault.T("Remove the second factor with one of its codes first.", "请先使用动态验证码关闭现有的两步验证。"))
	errNoTOTP = fault.Plain(fault.NotFound, fault.T("This account has no second factor.", "该账号未启用两步验证。"))
)

// roleOf returns the role of a user's tokens: an admin without a second factor has a
// shopper's, which suffices to add one.
func (s *Service) roleOf(ctx context.Context, tx pgx.Tx, u accountdb.AccountUser) (auth.Role, error) {
	role := auth.Role(u.Role)
	if role != auth.Admin || s.cfg.AdminWithoutTOTP {
		return role, nil
	}
	t, err := totpOf(ctx, tx, u.ID)
	if err != nil || !t.Confirmed {
		return auth.Shopper, err
	}
	return role, nil
}

// totpOf returns a user's second factor, the zero value if there is none.
func totpOf(ctx context.Context, db accountdb.DBTX, user int64) (accountdb.TOTPOfRow, error) {
	t, err := accountdb.New(db).TOTPOf(ctx, user)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, nil
	}
	return t, asFault("second factor", err)
}

// secondFactor checks and uses up a user's code in tx, if the user has a second
// factor. The caller has locked the user.
func (s *Service) secondFactor(ctx context.Context, tx pgx.Tx, user int64, code string) error {
	t, err := totpOf(ctx, tx, user)
	switch {
	case err != nil || !t.Confirmed:
		return err
	case code == "":
		return errTOTPRequired
	}
	return s.useFactor(ctx, tx, user, t, code)
}

// useFactor uses up a code of the app, or a recovery code in its place.
func (s *Service) useFactor(ctx context.Context, tx pgx.Tx, user int64, t accountdb.TOTPOfRow, code string) error {
	if len(code) == totpDigits {
		return s.useTOTP(ctx, tx, user, t, code)
	}
	return s.useRecovery(ctx, tx, user, t, code)
}

// useTOTP checks a code and uses it up in tx; it confirms a new secret.
func (s *Service) useTOTP(ctx context.Context, tx pgx.Tx, user int64, t accountdb.TOTPOfRow, code string) error {
	if err := s.take(ctx, ratelimit.Ask{Rule: totpRule, Key: ratelimit.UserKey(user)}); err != nil {
		return err
	}
	secret, err := s.keys.unseal(user, t.Secret)
	if err != nil {
		return err
	}
	step, ok := stepOf(secret, code, t.Now/stepSeconds)
	if !ok {
		return errWrongTOTP
	}
	// Sealed again, so that a rotated signing key can go once every code was used.
	sealed, err := s.keys[0].seal(user, secret)
	if err != nil {
		return err
	}
	used, err := accountdb.New(tx).UseTOTP(ctx, accountdb.UseTOTPParams{UserID: user, Step: step, Secret: sealed})
	if err != nil {
		return fmt.Errorf("account: use a second factor: %w", err)
	}
	if used == 0 {
		return errWrongTOTP
	}
	return nil
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

// aead is AES-256-GCM with the key for second factors.
func (k keys) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.totp)
	if err != nil {
		return nil, fmt.Errorf("account: seal: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal encrypts a user's secret; it opens for that user only.
func (k keys) seal(user int64, secret []byte) ([]byte, error) {
	box, err := k.aead()
	if err != nil {
		return nil, err
	}
	return box.Seal(nil, nil, secret, []byte(httpx.FormatID(user))), nil //nolint:gosec // the cipher makes its own random nonce
}

var errSealed = errors.New("account: a second factor was sealed with a signing key that is no longer known; an admin can remove it")

// unseal decrypts a user's secret with any of the keys.
func (r ring) unseal(user int64, sealed []byte) ([]byte, error) {
	for _, k := range r {
		box, err := k.aead()
		if err != nil {
			return nil, err
		}
		if secret, err := box.Open(nil, nil, sealed, []byte(httpx.FormatID(user))); err == nil {
			return secret, nil
		}
	}
	return nil, errSealed
}

// StartTOTP makes a secret for a user's authenticator app and returns it in base32 and
// as an otpauth URL. It protects nothing until ConfirmTOTP.
func (s *Service) StartTOTP(ctx context.Context, user int64) (secret, url string, err error) {
	u, err := accountdb.New(s.deps.DB).UserByID(ctx, user)
	if err != nil {
		return "", "", fmt.Errorf("account: read user: %w", err)
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: s.cfg.SMSSignature, AccountName: phoneIn(u).Masked() + " #" + httpx.FormatID(user)})
	if err != nil {
		return "", "", fmt.Errorf("account: make a second factor: %w", err)
	}
	sealed, err := s.keys[0].seal(user, []byte(key.Secret()))
	if err != nil {
		return "", "", err
	}
	n, err := accountdb.New(s.deps.DB).PutTOTP(ctx, accountdb.PutTOTPParams{UserID: user, Secret: sealed})
	if err != nil {
		return "", "", fmt.Errorf("account: store a second factor: %w", err)
	}
	if n == 0 {
		return "", "", errTOTPSet
	}
	return key.Secret(), key.URL(), nil
}

// ConfirmTOTP puts a user's new secret into force with its first code and ends the
// user's other logins, none of which has shown a code; keep is the current one. It
// returns the user's recovery codes.
func (s *Service) ConfirmTOTP(ctx context.Context, user, keep int64, code string) (recovery []string, err error) {
	err = s.changeTOTP(ctx, user, addTOTP, func(tx pgx.Tx, t accountdb.TOTPOfRow) (err error) {
		if t.Confirmed {
			return errTOTPSet
		}
		if err := s.useTOTP(ctx, tx, user, t, code); err != nil {
			return err
		}
		if recovery, err = newRecovery(ctx, tx, user); err != nil {
			return err
		}
		return s.endLogins(ctx, tx, user, keep, endedByTOTP)
	})
	return recovery, err
}

// RemoveTOTP removes a user's second factor with one of its codes. Access tokens end,
// because an admin's next one has a lesser role.
func (s *Service) RemoveTOTP(ctx context.Context, user int64, code string) error {
	return s.changeTOTP(ctx, user, "user.totp-remove", func(tx pgx.Tx, t accountdb.TOTPOfRow) error {
		if err := s.useFactor(ctx, tx, user, t, code); err != nil {
			return err
		}
		if _, err := accountdb.New(tx).RemoveTOTP(ctx, user); err != nil {
			return err
		}
		return s.deps.Revoke.User(ctx, tx, endedByTOTP, user)
	})
}

// ResetTOTP removes the second factor of a user who has lost it and ends all their
// logins.
func (s *Service) ResetTOTP(ctx context.Context, user int64) error {
	return s.changeTOTP(ctx, user, "user.totp-reset", func(tx pgx.Tx, _ accountdb.TOTPOfRow) error {
		if _, err := accountdb.New(tx).RemoveTOTP(ctx, user); err != nil {
			return err
		}
		if err := s.endLogins(ctx, tx, user, 0, endedByTOTP); err != nil {
			return err
		}
		return s.deps.Revoke.User(ctx, tx, endedByTOTP, user)
	})
}

// addTOTP is the action in the audit log of a secret that comes into force.
const addTOTP = "user.totp-add"

// factor is what the audit log keeps of a second factor before and after a change.
type factor struct {
	InForce  bool  `json:"totp_in_force"` // false also while the first code is awaited
	Recovery int32 `json:"recovery_codes,omitempty"`
}

// changeTOTP runs do on a user who has a second factor, under the user's lock, and
// records it.
func (s *Service) changeTOTP(ctx context.Context, user int64, action string, do func(tx pgx.Tx, t accountdb.TOTPOfRow) error) error {
	return s.change(ctx, user, func(tx pgx.Tx, _ accountdb.AccountUser) error {
		t, err := totpOf(ctx, tx, user)
		if err != nil {
			return err
		}
		if t.Secret == nil {
			return errNoTOTP
		}
		if err := do(tx, t); err != nil {
			return err
		}
		if err := s.noteTo(ctx, tx, user, sms.NoteFactor); err != nil {
			return err
		}
		after := factor{}
		if action == addTOTP || action == renewRecovery {
			after = factor{true, recoveryCodes}
		}
		return audit.Record(ctx, tx, action, "user "+httpx.FormatID(user), audit.Change{Before: factor{t.Confirmed, t.RecoveryLeft}, After: after})
	})
}
