package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/internal/accountdb"
)

// The windows of the limits. The first bounds the rate of online password guessing;
// the others bound the cost of SMS.
const (
	shortWindow  = time.Minute
	middleWindow = time.Hour
	longWindow   = 24 * time.Hour
	// failureWindow is how long failures count towards a human check: as long as an
	// attack continues, but not after a lunch break.
	failureWindow = 15 * time.Minute
)

// caller is what is known of the client that tries to log in.
type caller struct {
	Address  netip.Addr
	Origin   ratelimit.Origin // whose record counts, and the device that is proved
	Solution string           // to a human check; empty when none was sent
}

// loginAsks limits login attempts from an address, by any method.
func (s *Service) loginAsks(from caller) []ratelimit.Ask {
	return []ratelimit.Ask{{
		Rule: ratelimit.Rule{Name: "login-address", Count: s.cfg.LoginPerAddress, Per: shortWindow}, Key: ratelimit.AddrKey(from.Address),
	}}
}

// manyAddresses is how many addresses may use up their attempts on one phone: it
// bounds a guess that is spread over addresses, and none of them alone reaches it.
const manyAddresses = 4

// passwordAsks also limits the attempts on a phone's password, from one address and
// from all. Codes have a separate limit, so that an attacker who guesses a password
// does not lock the phone's holder out: login by code stays possible, and a known
// device has attempts of its own.
func (s *Service) passwordAsks(phone Phone, from caller) []ratelimit.Ask {
	key, n := s.keys[0].phoneKey(phone), s.cfg.LoginPerPhone
	return append(s.loginAsks(from),
		ratelimit.Ask{Rule: ratelimit.Rule{Name: "login-phone-address", Count: n, Per: shortWindow}, Key: key + ratelimit.AddrKey(from.Address)},
		ratelimit.Ask{Rule: ratelimit.Rule{Name: "login-phone", Count: manyAddresses * n, Per: shortWindow}, Key: key},
	)
}

// knownPasswordAsks are passwordAsks for a device that the phone's user has logged in
// on before.
func (s *Service) knownPasswordAsks(phone Phone, from caller) []ratelimit.Ask {
	return append(s.loginAsks(from), ratelimit.Ask{
		Rule: ratelimit.Rule{Name: "login-device", Count: s.cfg.LoginPerPhone, Per: shortWindow}, Key: s.keys[0].deviceKey(phone, from.device()),
	})
}

// takeOwn limits how often a logged-in user may prove something: a stolen access
// token must not allow the password to be guessed.
func (s *Service) takeOwn(ctx context.Context, user int64) error {
	return s.take(ctx, ratelimit.Ask{
		Rule: ratelimit.Rule{Name: "proof-user", Count: s.cfg.LoginPerPhone, Per: shortWindow}, Key: ratelimit.UserKey(user),
	})
}

func (s *Service) registerAsks(from caller) []ratelimit.Ask {
	return append(s.loginAsks(from), s.registerAsk(from))
}

// registerAsk limits the accounts that are created from an address, by any method.
func (s *Service) registerAsk(from caller) ratelimit.Ask {
	return ratelimit.Ask{
		Rule: ratelimit.Rule{Name: "register-address", Count: s.cfg.RegisterPerAddress, Per: middleWindow}, Key: ratelimit.AddrKey(from.Address),
	}
}

// codeAsks limits the codes for a phone, for each purpose separately: requests for
// one do not use up another's.
func (s *Service) codeAsks(phone Phone, purpose Purpose, from caller) []ratelimit.Ask {
	return s.codeRules("sms-phone", s.keys[0].phoneKey(phone)+":"+string(purpose), purpose, from)
}

// knownCodeAsks are codeAsks for a device that the phone's user has logged in on
// before: strangers who request codes for the phone do not use them up.
func (s *Service) knownCodeAsks(phone Phone, purpose Purpose, from caller) []ratelimit.Ask {
	return s.codeRules("sms-device", s.keys[0].deviceKey(phone, from.device())+":"+string(purpose), purpose, from)
}

func (s *Service) codeRules(name, key string, purpose Purpose, from caller) []ratelimit.Ask {
	l := s.cfg.Limits
	hour, day := l.SMSPerPhoneHour, l.SMSPerPhoneDay
	if purpose != ForLogin {
		hour, day = (hour+1)/2, (day+1)/2 // needed rarely; a flood for all purposes stays within three days' codes
	}
	return []ratelimit.Ask{
		// A minute between two codes lets the first one arrive.
		{Rule: ratelimit.Rule{Name: name + "-minute", Count: min(hour, 1), Per: shortWindow}, Key: key},
		{Rule: ratelimit.Rule{Name: name + "-hour", Count: hour, Per: middleWindow}, Key: key},
		{Rule: ratelimit.Rule{Name: name + "-day", Count: day, Per: longWindow}, Key: key},
		{Rule: ratelimit.Rule{Name: "sms-address", Count: l.SMSPerAddress, Per: middleWindow}, Key: ratelimit.AddrKey(from.Address)},
	}
}

// admitDevice is admit for what strangers can use up for a phone. If they did, a
// device that the phone's user has logged in on passes by known, its own limits; the
// signed cookie proves it, not the id that a client states.
func (s *Service) admitDevice(ctx context.Context, purpose string, from caller, counts []count, phone Phone, asks, known []ratelimit.Ask) error {
	spared := func(err error) bool {
		refused, limited := errors.AsType[*ratelimit.Refused](err)
		return limited && from.proved() && strings.Contains(refused.Decision.Rule.Name, "-phone")
	}
	err := s.deps.Limits.Look(asks...).Err()
	if err != nil && !spared(err) {
		return err
	}
	if err := s.checkHuman(ctx, purpose, from, counts); err != nil {
		return err
	}
	if err == nil {
		err = s.take(ctx, asks...)
	}
	if !spared(err) {
		return err
	}
	if refusal := s.take(ctx, known...); refusal != nil {
		return refusal // also bounds how often the database is asked
	}
	is, failed := s.knows(ctx, phone, from)
	if failed != nil || is {
		return failed
	}
	return err
}

// knows reports whether the phone's user has logged in on the caller's device.
func (s *Service) knows(ctx context.Context, phone Phone, from caller) (bool, error) {
	if !from.proved() {
		return false, nil
	}
	text := string(phone)
	is, err := accountdb.New(s.deps.DB).KnowsDevice(ctx, accountdb.KnowsDeviceParams{Phone: &text, Browser: from.Origin.Device[:]})
	if err != nil {
		return false, fmt.Errorf("account: known device: %w", err)
	}
	return is, nil
}

// admit guards every attempt: first the limits as cached in memory, then the human
// check if the record requires one, then the limits themselves. In this order a
// client neither solves a challenge only to be refused by a limit, nor uses up a
// limit only to be sent a challenge.
func (s *Service) admit(ctx context.Context, purpose string, from caller, counts []count, asks []ratelimit.Ask) error {
	if err := s.deps.Limits.Look(asks...).Err(); err != nil {
		return err
	}
	if err := s.checkHuman(ctx, purpose, from, counts); err != nil {
		return err
	}
	return s.take(ctx, asks...)
}

// take returns the refusal of the first exhausted rule.
func (s *Service) take(ctx context.Context, asks ...ratelimit.Ask) error {
	d, err := s.deps.Limits.Take(ctx, asks...)
	if err != nil {
		return asFault("limits", err)
	}
	return d.Err()
}
