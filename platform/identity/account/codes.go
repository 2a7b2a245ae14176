package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/humancheck"
	"stampede/platform/identity/sms"
)

// Purpose is what a code is for; it is good for nothing else.
type Purpose string

// The purposes.
const (
	ForLogin    Purpose = "login"
	ForRegister Purpose = "register"
	ForReset    Purpose = "reset"
	ForErase    Purpose = "erase"
	ForBind     Purpose = "bind" // adds the phone to an account
)

const (
	// codeDigits is what people can carry from one app to another in their head.
	codeDigits = 6
	// codeLifetime leaves time for a message that comes late.
	codeLifetime = 5 * time.Minute
	// codeAttempts per code, and ten codes a day, let a guesser hit a phone's code
	// with a probability of 1 in 20,000 a day.
	codeAttempts = 5
)

// errWrongCode does not say which of the three it was: that would tell a guesser
// how far they are.
var errWrongCode = fault.New(fault.Unauthenticated, "wrong-code", fault.Titles{"The code is not valid", "验证码错误或已失效"}, "The code is not right, was used already or has expired. Ask for another.")

// newCode makes a code of six digits, each as likely as any other.
func newCode() string {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		panic("account: crypto/rand: " + err.Error()) // it never fails, and nothing may be guessed if it did
	}
	return fmt.Sprintf("%0*d", codeDigits, n)
}

// SendCode sends a code for a purpose to a phone, in the language. It answers
// the same whether the phone has an account or not; only who can read the code
// learns that. A phone out of reach is refused before anything is counted, looked
// up or stored, for every purpose: anybody may ask for any.
func (s *Service) SendCode(ctx context.Context, phone Phone, purpose Purpose, lang sms.Language, from caller) error {
	if s.deps.SMS == nil {
		return errNoSMS
	}
	if !s.cfg.SMSReach.Covers(string(phone)) {
		return s.errOutOfReach()
	}
	if purpose != ForErase { // being kept out takes nobody's right to be forgotten
		if err := s.keepOut("sms-code", 0, phone, Device{Address: from.Address}); err != nil {
			return err
		}
	}
	counts := s.codesSent(phone, from)
	if err := s.admit(ctx, humancheck.PurposeSMS, from, counts, s.codeAsks(phone, from)); err != nil {
		return err
	}
	code := newCode()
	err := accountdb.New(s.deps.DB).PutCode(ctx, accountdb.PutCodeParams{
		Phone: string(phone), Purpose: string(purpose), CodeHash: s.keys[0].hashCode(phone, purpose, code), LifetimeSeconds: codeLifetime.Seconds(),
	})
	if err != nil {
		return fmt.Errorf("account: store a code: %w", err)
	}
	s.note(ctx, middleWindow, counts)
	text := sms.CodeText(lang, s.cfg.SMSSignature, sms.Use(purpose), code, codeLifetime)
	err = s.deps.SMS.Send(ctx, sms.Message{ID: ids.New().String(), Phone: string(phone), Text: text})
	s.metrics.sent(err)
	return err
}

// errNoSMS does not ask to try again: without a gateway (--sms-gateway-url) codes
// are never sent.
var errNoSMS = sms.ErrUnavailable.Saying("This shop sends no SMS codes. Log in another way, or ask the shop's staff.")

var errCountry = fault.New(fault.Invalid, "sms-country-refused", fault.Titles{"SMS are not sent to this country", "暂不支持向该国家或地区的号码发送短信"},
	"Use a number of another country, or log in another way.")

// errOutOfReach says where SMS go, so that a client can offer those countries.
func (s *Service) errOutOfReach() error {
	return errCountry.Saying("This shop sends SMS to numbers that begin with " + s.cfg.SMSReach.String() + " only. Use such a number, or log in another way.")
}

// useCode uses a code up in tx and reports whether it was the right one. A wrong
// one is counted, so the caller commits either way. Of any number who come with
// the right one, the first gets true.
func (s *Service) useCode(ctx context.Context, tx pgx.Tx, phone Phone, purpose Purpose, code string) (bool, error) {
	fits, err := accountdb.New(tx).TryCode(ctx, accountdb.TryCodeParams{
		Phone: string(phone), Purpose: string(purpose), CodeHashes: s.keys.hashesOf(phone, purpose, code), Most: codeAttempts,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("account: use a code: %w", err)
	}
	return fits, nil
}
