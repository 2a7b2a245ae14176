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
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/humancheck"
	"stampede/platform/identity/sms"
)

// Purpose is what a code may be used for.
type Purpose string

// The purposes.
const (
	ForLogin    Purpose = "login"
	ForRegister Purpose = "register"
	ForReset    Purpose = "reset"
	ForErase    Purpose = "erase"
	ForBind     Purpose = "bind" // adds a phone to an account
)

const (
	// codeDigits is what a person can remember while switching apps.
	codeDigits = 6
	// codeLifetime allows for a message that arrives late.
	codeLifetime = 5 * time.Minute
	// codeAttempts per code for the address that requested it, and as many for all
	// others together: strangers cannot use up the attempts of the phone's holder. At
	// ten codes a day an attacker has a chance of 1 in 10,000 a day to guess a
	// phone's code.
	codeAttempts = 5
)

// errWrongCode does not say which of the three applies: that would help an attacker.
var errWrongCode = fault.New(fault.Unauthenticated, "wrong-code", fault.T("The code is not valid", "验证码错误或已失效"),
	fault.T("The code is wrong, already used or expired. Request a new one.", "验证码错误、已使用或已过期，请重新获取。"),
	fault.T("Check the digits, or request a new code.", "请核对验证码，或重新获取。"))

// newCode makes a uniformly random code of six digits.
func newCode() string {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		panic("account: crypto/rand: " + err.Error()) // never fails; if it did, a predictable code must not be sent
	}
	return fmt.Sprintf("%0*d", codeDigits, n)
}

// SendCode sends a code for a purpose to a phone, in the language. The answer is the
// same whether or not the phone has an account; only the reader of the code learns
// that. For every purpose, a phone that SMS are not sent to is refused before
// anything is counted, looked up or stored, because the route is public.
//
// device is the id that the client gives at login, or empty.
func (s *Service) SendCode(ctx context.Context, phone Phone, purpose Purpose, lang sms.Language, device string, from caller) error {
	if s.deps.SMS == nil {
		return errNoSMS
	}
	if !s.cfg.SMSReach.Covers(string(phone)) {
		return s.errOutOfReach()
	}
	if purpose != ForErase { // a blacklisted user may still delete the account
		if err := s.keepOut("sms-code", 0, phone, Device{ID: device, Address: from.Address}); err != nil {
			return err
		}
	}
	counts := s.codesSent(phone, from)
	err := s.admitDevice(ctx, humancheck.PurposeSMS, from, append(s.registrations(from), counts...), phone, s.codeAsks(phone, purpose, from), s.knownCodeAsks(phone, purpose, from))
	if err != nil {
		return err
	}
	if err := s.takeSMS(ctx, phone, purpose); err != nil {
		return err
	}
	s.note(ctx, middleWindow, counts)
	return s.giveCode(ctx, phone, purpose, lang, ratelimit.AddrKey(from.Address))
}

// giveCode makes a code for a phone, stores it and sends it. asker is who may use up
// attempts of their own.
func (s *Service) giveCode(ctx context.Context, phone Phone, purpose Purpose, lang sms.Language, asker string) error {
	code := newCode()
	err := accountdb.New(s.deps.DB).PutCode(ctx, accountdb.PutCodeParams{
		Phone: string(phone), Purpose: string(purpose), CodeHash: s.keys[0].hashCode(phone, purpose, code), LifetimeSeconds: codeLifetime.Seconds(),
		Asker: asker,
	})
	if err != nil {
		return fmt.Errorf("account: store a code: %w", err)
	}
	text := sms.CodeText(lang, s.cfg.SMSSignature, sms.Use(purpose), code, codeLifetime)
	err = s.deps.SMS.Send(ctx, sms.Message{ID: ids.New().String(), Phone: string(phone), Text: text})
	s.metrics.sent(err)
	return err
}

// errNoSMS does not suggest a retry: without a gateway (--sms-gateway-url) codes are
// never sent.
var errNoSMS = sms.ErrUnavailable.Saying(
	fault.T("This shop sends no SMS codes. Log in another way, or ask the shop's staff.", "商家未开通短信，请用其他方式登录，或联系商家。"))

var errCountry = fault.New(fault.Invalid, "sms-country-refused",
	fault.T("SMS are not sent to this country", "暂不支持向该国家或地区的号码发送短信"),
	fault.T("Use a number from another country, or log in another way.", "请使用其他国家或地区的号码，或用其他方式登录。"),
	fault.T("Use a phone number from a country that the shop serves.", "请使用商家支持的国家或地区的手机号。"))

// errOutOfReach names the countries that SMS are sent to, so that a client can offer
// them.
func (s *Service) errOutOfReach() error {
	return errCountry.Saying(fault.T("This shop sends SMS to numbers that begin with {prefixes} only. Use such a number, or log in another way.",
		"商家仅向以 {prefixes} 开头的号码发送短信。请使用此类号码，或用其他方式登录。", "prefixes", s.cfg.SMSReach.String()))
}

// useCode uses a code up in tx and reports whether it was right. It counts a wrong
// one, so the caller commits in both cases. Of several concurrent callers with the
// right code, only the first gets true.
func (s *Service) useCode(ctx context.Context, tx pgx.Tx, phone Phone, purpose Purpose, code string, from caller) (bool, error) {
	fits, err := accountdb.New(tx).TryCode(ctx, accountdb.TryCodeParams{
		Phone: string(phone), Purpose: string(purpose), CodeHashes: s.keys.hashesOf(phone, purpose, code), Most: codeAttempts,
		Asker: ratelimit.AddrKey(from.Address),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("account: use a code: %w", err)
	}
	return fits, nil
}
