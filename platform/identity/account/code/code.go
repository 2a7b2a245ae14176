// Package code sends codes and notes to phones by SMS, and uses codes up.
//
// A code is used once and for its purpose, within five minutes and five attempts, which
// strangers do not use up. It is stored as an HMAC. A stranger cannot learn from it
// whether a phone has an account: the answer is the same.
//
// The whole shop sends Limits.SMSPerHour at most, notes included; when a flood has used
// that up, staff still get login codes, and the answers do not reveal their phones
// (ceiling.go). Notes tell users of new devices and of changes to their passwords, ways to
// log in, roles and second factors; every instance may run their worker.
package code

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/blacklist"
	"stampede/platform/identity/humancheck"
	"stampede/platform/store/pg"
)

const (
	// digits are what a person can remember while switching apps.
	digits = 6
	// lifetime allows for a message that arrives late.
	lifetime = sms.CodeLifetime
	// attempts per code for the address that requested it, and as many for all
	// others together: strangers cannot use up the attempts of the phone's holder. At
	// ten codes a day an attacker has a chance of 1 in 10,000 a day to guess a
	// phone's code.
	attempts = 5
)

var (
	// ErrWrong does not say which of the three applies: that would help an attacker.
	ErrWrong = fault.New(fault.Unauthenticated, "wrong-code", fault.T("The code is not valid", "验证码错误或已失效"),
		fault.T("The code is wrong, already used or expired. Request a new one.", "验证码错误、已使用或已过期，请重新获取。"),
		fault.T("Check the digits, or request a new code.", "请核对验证码，或重新获取。"))
	// errNoSMS does not suggest a retry: without a gateway (--sms-gateway-url) codes are
	// never sent.
	errNoSMS = sms.ErrUnavailable.Saying(
		fault.T("This shop sends no SMS codes. Log in another way, or ask the shop's staff.", "商家未开通短信，请用其他方式登录，或联系商家。"))
	errCountry = fault.New(fault.Invalid, "sms-country-refused",
		fault.T("SMS are not sent to this country", "暂不支持向该国家或地区的号码发送短信"),
		fault.T("Use a number from another country, or log in another way.", "请使用其他国家或地区的号码，或用其他方式登录。"),
		fault.T("Use a phone number from a country that the shop serves.", "请使用商家支持的国家或地区的手机号。"))
)

// Service sends and checks codes. Safe for concurrent use.
type Service struct {
	store  *account.Store
	guard  *guard.Guard
	sender sms.Sender // nil: nothing can be sent
	keys   auth.Ring
	sent   *prometheus.CounterVec
	// ceilingHit is when a code was last refused at the SMS ceiling, Unix ns; 0 never.
	ceilingHit atomic.Int64
}

// Results of sending a code.
const (
	taken   = "taken"
	refused = "refused"
	failed  = "failed"
)

// New returns a Service; it starts nothing. Without a sender codes are refused.
func New(store *account.Store, g *guard.Guard, sender sms.Sender) *Service {
	s := &Service{store: store, guard: g, sender: sender, keys: store.Config.Keys("account-sms-code")}
	s.sent = promauto.With(store.Metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_account_sms_total", Help: "Codes given to the SMS gateway, by result: taken, refused, failed.",
	}, []string{"result"})
	for _, result := range []string{taken, refused, failed} { // each starts at 0, so that a dashboard can draw it
		s.sent.WithLabelValues(result)
	}
	return s
}

// Routes registers the route that sends codes.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/auth/sms-codes", ID: "send-sms-code", Load: httpx.Costly, Tag: "shopper", Status: http.StatusAccepted,
		Summary: "Send a code to a phone", NoKey: httpx.NoLogin,
		Description: "The code is valid for its purpose only, once, for five minutes and five attempts from the address that requested it, and five from others; a new code replaces it. " +
			"The answer is the same whether the phone has an account or not.",
		Refuses: []*fault.Error{
			humancheck.ErrRequired, humancheck.ErrFailed, account.ErrDisabled, account.ErrElsewhere, blacklist.ErrRefused, sms.ErrRefused, errCountry,
			sms.ErrUnavailable, errCeiling, humancheck.ErrUnavailable,
		},
	}, s.send)
}

type input struct {
	guard.SolutionHeader
	AcceptLanguage string `header:"Accept-Language" maxLength:"256" doc:"The language of the message: zh or en"`
	Body           struct {
		Phone   string  `json:"phone" maxLength:"32" example:"13800138000"`
		Purpose sms.Use `json:"purpose" enum:"login,register,reset,erase,bind" doc:"What the code will be used for"`
		Device  string  `json:"device_id,omitempty" maxLength:"128" doc:"device.id of the login"`
	} `nameHint:"SMSCodeRequest"`
}

// SMSCodeSent is the answer to a request for a code.
type SMSCodeSent struct {
	ExpiresIn  int64 `json:"expires_in" doc:"Seconds until the code expires" example:"300"`
	RetryAfter int64 `json:"retry_after" doc:"Seconds until another code may be requested" example:"60"`
}

// send sends a code for a purpose to a phone. The answer is the same whether or not the
// phone has an account; only the reader of the code learns that. For every purpose, a
// phone that SMS are not sent to is refused before anything is counted, looked up or
// stored, because the route is public.
func (s *Service) send(ctx context.Context, in *input) (*httpx.Output[SMSCodeSent], error) {
	phone, err := account.TypedPhone(in.Body.Phone)
	if err != nil {
		return nil, err
	}
	httpx.GiveDevice(ctx)
	purpose, from := in.Body.Purpose, in.Caller(ctx)
	if purpose == sms.ForRegister {
		if err := s.store.ShoppersLogInHere(); err != nil {
			return nil, err
		}
	}
	switch {
	case s.sender == nil:
		return nil, errNoSMS
	case !s.store.Config.SMSReach.Covers(string(phone)):
		// It names the countries that SMS are sent to, so that a client can offer them.
		return nil, errCountry.Saying(fault.T("This shop sends SMS to numbers that begin with {prefixes} only. Use such a number, or log in another way.",
			"商家仅向以 {prefixes} 开头的号码发送短信。请使用此类号码，或用其他方式登录。", "prefixes", s.store.Config.SMSReach.String()))
	case purpose != sms.ForErase: // a blacklisted user may still delete the account
		if err := s.guard.KeepOut("sms-code", 0, phone, in.Body.Device, from.Address); err != nil {
			return nil, err
		}
	}
	if err := s.guard.Code(ctx, phone, string(purpose), purpose == sms.ForLogin, from); err != nil {
		return nil, err
	}
	if err := s.takeSMS(ctx, phone, purpose); err != nil {
		return nil, err
	}
	s.guard.CodeSent(ctx, phone, from)
	lang := phone.Language()
	if in.AcceptLanguage != "" {
		lang = httpx.LanguageOf(in.AcceptLanguage)
	}
	if err := s.give(ctx, phone, purpose, lang, ratelimit.AddrKey(from.Address)); err != nil {
		return nil, err
	}
	return httpx.Answer(SMSCodeSent{ExpiresIn: int64(lifetime.Seconds()), RetryAfter: int64(guard.ShortWindow.Seconds())}), nil
}

// give makes a code for a phone, stores it and sends it. asker is who may use up
// attempts of their own.
func (s *Service) give(ctx context.Context, phone account.Phone, purpose sms.Use, lang httpx.Language, asker string) error {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		panic("account: crypto/rand: " + err.Error()) // never fails; if it did, a predictable code must not be sent
	}
	code := fmt.Sprintf("%0*d", digits, n)
	err = accountdb.New(s.store.DB).PutCode(ctx, accountdb.PutCodeParams{
		Phone: string(phone), Purpose: string(purpose), CodeHash: hashOf(s.keys[0], phone, purpose, code), LifetimeSeconds: lifetime.Seconds(),
		Asker: asker,
	})
	if err != nil {
		return fmt.Errorf("account: store a code: %w", err)
	}
	m := sms.CodeMessage(s.store.Config.SMSSignature, purpose, code, lang)
	m.ID, m.Phone = ids.New().String(), string(phone)
	err = s.sender.Send(ctx, m)
	result := taken
	switch {
	case errors.Is(err, sms.ErrRefused):
		result = refused
	case err != nil:
		result = failed
	}
	s.sent.WithLabelValues(result).Inc()
	return err
}

// hashOf returns the stored form of a code. A code has a million values, so only
// the key prevents brute force. Purpose and phone are hashed too, so that a code is
// valid for nothing else.
func hashOf(key []byte, phone account.Phone, purpose sms.Use, code string) []byte {
	return auth.MAC(key, []byte(string(purpose)+"\x00"+string(phone)+"\x00"+code))
}

// Use uses a code up and runs do in the same transaction. A coded refusal by do
// rolls back what do has written but leaves the code used: it was shown, so it must
// not work a second time.
func (s *Service) Use(ctx context.Context, phone account.Phone, purpose sms.Use, code string, from guard.Caller, do func(tx pgx.Tx) error) error {
	var refusal *fault.Error
	err := pg.InTx(ctx, s.store.DB, func(tx pgx.Tx) error {
		refusal = nil // drops the result of a rolled-back attempt
		fits, err := s.try(ctx, tx, phone, purpose, code, from)
		if err != nil {
			return err
		}
		if !fits {
			refusal = ErrWrong
			return nil
		}
		err = pgx.BeginFunc(ctx, tx, do) // a savepoint
		if errors.Is(err, factor.ErrRequired) || errors.Is(err, factor.ErrWrong) {
			return err // the code stays valid for another attempt with the second factor
		}
		if errors.As(err, &refusal) {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return account.Failed("by code", err)
	case refusal == nil:
		s.store.Revoke.Tell(ctx)
		return nil
	case errors.Is(refusal, ErrWrong):
		s.guard.Failed(ctx, phone, from)
	}
	return refusal
}

// try uses a code up in tx and reports whether it was right. It counts a wrong
// one, so the caller commits in both cases. Of several concurrent callers with the
// right code, only the first gets true.
func (s *Service) try(ctx context.Context, tx pgx.Tx, phone account.Phone, purpose sms.Use, code string, from guard.Caller) (bool, error) {
	hashes := make([][]byte, 0, len(s.keys))
	for _, key := range s.keys {
		hashes = append(hashes, hashOf(key, phone, purpose, code))
	}
	fits, err := accountdb.New(tx).TryCode(ctx, accountdb.TryCodeParams{
		Phone: string(phone), Purpose: string(purpose), CodeHashes: hashes, Most: attempts, Asker: ratelimit.AddrKey(from.Address),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return fits, account.Failed("use a code", err)
}
