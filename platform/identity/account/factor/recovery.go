package factor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/watch/audit"
)

const (
	// recoveryCodes are as many as fit on a slip of paper and outlast some lost phones.
	recoveryCodes = 8
	// recoveryBytes are too many to guess, so that plain SHA-256 protects what is stored.
	recoveryBytes = 16
	// renewRecovery is the action in the audit log of new codes.
	renewRecovery = "user.recovery-codes"
)

var recoveryAlphabet = base32.StdEncoding.WithPadding(base32.NoPadding)

// hashOfRecovery returns what is stored of a code, however it was typed.
func hashOfRecovery(code string) []byte {
	sum := sha256.Sum256([]byte(strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(code))))
	return sum[:]
}

// newRecovery replaces a user's recovery codes and returns them; only their hashes stay.
func newRecovery(ctx context.Context, tx pgx.Tx, user int64) ([]string, error) {
	const group = 5
	codes, hashes := make([]string, recoveryCodes), make([][]byte, recoveryCodes)
	for i := range codes {
		random := make([]byte, recoveryBytes)
		_, _ = rand.Read(random) // never fails
		code := strings.ToLower(recoveryAlphabet.EncodeToString(random))
		hashes[i] = hashOfRecovery(code)
		for ; len(code) > group+1; code = code[group:] { // the last group has six
			codes[i] += code[:group] + "-"
		}
		codes[i] += code
	}
	if err := accountdb.New(tx).PutRecovery(ctx, accountdb.PutRecoveryParams{UserID: user, Hashes: hashes}); err != nil {
		return nil, fmt.Errorf("account: store recovery codes: %w", err)
	}
	return codes, nil
}

// useRecovery uses up a recovery code in tx, and tells the user and the audit log.
func (s *Service) useRecovery(ctx context.Context, tx pgx.Tx, user int64, t accountdb.TOTPOfRow, code string) error {
	used, err := accountdb.New(tx).UseRecovery(ctx, accountdb.UseRecoveryParams{UserID: user, Hash: hashOfRecovery(code)})
	if err != nil {
		return fmt.Errorf("account: use a recovery code: %w", err)
	}
	if used == 0 {
		return ErrWrong.Saying(
			fault.T("This recovery code is wrong or was used before. Use another one, or the code of the "+
				"authenticator app.",
				"该恢复码错误或已使用，请换一个，或使用动态验证码。"))
	}
	if err := s.store.Notify(ctx, tx, user, sms.NoteFactor); err != nil {
		return err
	}
	return audit.Record(ctx, tx, "user.recovery-code", "user "+httpx.FormatID(user), audit.Change{
		Before: factor{true, t.RecoveryLeft}, After: factor{true, t.RecoveryLeft - 1},
	})
}

// Renew replaces the recovery codes of a user who has shown the password, with a code of
// the authenticator app.
func (s *Service) Renew(ctx context.Context, user int64, code string) (recovery []string, err error) {
	err = s.change(ctx, user, renewRecovery, func(tx pgx.Tx, t accountdb.TOTPOfRow) (err error) {
		if !t.Confirmed {
			return errNone
		}
		if err := s.use(ctx, tx, user, t, code); err != nil {
			return err
		}
		recovery, err = newRecovery(ctx, tx, user)
		return err
	})
	return recovery, err
}
