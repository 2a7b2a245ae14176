package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/humancheck"
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
	Solution string // to a human check; empty when none was sent
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
func (s *Service) knownPasswordAsks(phone Phone, from caller, device string) []ratelimit.Ask {
	return append(s.loginAsks(from), ratelimit.Ask{
		Rule: ratelimit.Rule{Name: "login-device", Count: s.cfg.LoginPerPhone, Per: shortWindow}, Key: s.keys[0].deviceKey(phone, device),
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
func (s *Service) knownCodeAsks(phone Phone, purpose Purpose, from caller, device string) []ratelimit.Ask {
	return s.codeRules("sms-device", s.keys[0].deviceKey(phone, device)+":"+string(purpose), purpose, from)
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
// device that the phone's user has logged in on passes by known, its own limits. A
// device's id is only what the client states, but strangers do not know it.
func (s *Service) admitDevice(ctx context.Context, purpose string, from caller, counts []count, phone Phone, device string, asks, known []ratelimit.Ask) error {
	err := s.admit(ctx, purpose, from, counts, asks)
	refused, limited := errors.AsType[*ratelimit.Refused](err)
	if !limited || device == "" || !strings.Contains(refused.Decision.Rule.Name, "-phone") {
		return err
	}
	if refusal := s.admit(ctx, purpose, from, counts, known); refusal != nil {
		return refusal // also bounds how often the database is asked
	}
	text := string(phone)
	is, failed := accountdb.New(s.deps.DB).KnowsDevice(ctx, accountdb.KnowsDeviceParams{Phone: &text, DeviceID: device})
	if failed != nil {
		return fmt.Errorf("account: known device: %w", failed)
	}
	if !is {
		return err
	}
	return nil
}

// admit guards every attempt: first the limits as cached in memory, then the human
// check if the counts require one, then the limits themselves. In this order a
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

// count is a number of events of one subject in Redis, and the threshold above which
// a human check is required.
type count struct {
	key  string
	most int // 0: never
}

// loginFailures returns the counts of a phone's and an address's failures.
func (s *Service) loginFailures(phone Phone, from caller) []count {
	counts := []count{{key: "failed:" + ratelimit.AddrKey(from.Address), most: s.cfg.CheckAfterAddress}}
	if phone != "" {
		counts = append(counts, count{key: "failed:" + s.keys[0].phoneKey(phone), most: s.cfg.CheckAfterFailures})
	}
	return counts
}

// codesSent returns the counts of codes sent to a phone and requested from an
// address.
func (s *Service) codesSent(phone Phone, from caller) []count {
	return []count{
		{key: "codes:" + s.keys[0].phoneKey(phone), most: s.cfg.CheckAfterCodes},
		{key: "codes:" + ratelimit.AddrKey(from.Address), most: s.cfg.CheckAfterAddressRequests},
	}
}

func (s *Service) registrations(from caller) []count {
	return []count{{key: "registered:" + ratelimit.AddrKey(from.Address), most: s.cfg.CheckAfterAddressRequests}}
}

// countPrefix is the prefix of the counts' keys in Redis.
const countPrefix = "account:count:"

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{countPrefix}

// countTimeout bounds a Redis call, so that a login does not wait for a count.
const countTimeout = 250 * time.Millisecond

// checksHumans reports whether human checks are on; if not, nothing is counted.
func (s *Service) checksHumans() bool {
	return s.deps.Human != nil && s.deps.Human.Public() != humancheck.None
}

// checkHuman requires a human check when one of the counts has reached its
// threshold, and also when the counts cannot be read: a Redis outage must not bypass
// the check.
func (s *Service) checkHuman(ctx context.Context, purpose string, from caller, counts []count) error {
	if !s.checksHumans() {
		return nil
	}
	reached, err := s.reached(ctx, counts)
	if err != nil {
		s.deps.Log.WarnContext(ctx, "reading attempt counts failed, requiring a human check", "error", err)
	} else if !reached {
		return nil
	}
	return s.deps.Human.Check(ctx, s.deps.Human.Public(), humancheck.Subject{Purpose: purpose, Address: from.Address}, from.Solution)
}

func (s *Service) reached(ctx context.Context, counts []count) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	for _, c := range counts {
		if c.most == 0 {
			continue
		}
		n, err := s.deps.Redis.Get(ctx, countPrefix+c.key).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return false, err
		}
		if n >= c.most {
			return true, nil
		}
	}
	return false, nil
}

// note adds one to counts that expire after a window. A lost count only means one
// check fewer, so an error is only logged.
func (s *Service) note(ctx context.Context, window time.Duration, counts []count) {
	if !s.checksHumans() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout) // count even if the client hangs up
	defer cancel()
	pipe := s.deps.Redis.Pipeline()
	for _, c := range counts {
		pipe.Incr(ctx, countPrefix+c.key)
		pipe.ExpireNX(ctx, countPrefix+c.key, window) // starts with the first event, so that the count expires
	}
	if _, err := pipe.Exec(ctx); err != nil {
		s.deps.Log.WarnContext(ctx, "updating attempt counts failed", "error", err)
	}
}

// forget resets a phone's failures: a caller who knows the password is not guessing.
func (s *Service) forget(ctx context.Context, phone Phone) {
	if !s.checksHumans() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	if err := s.deps.Redis.Del(ctx, countPrefix+"failed:"+s.keys[0].phoneKey(phone)).Err(); err != nil {
		s.deps.Log.WarnContext(ctx, "resetting the failure count failed", "error", err)
	}
}
