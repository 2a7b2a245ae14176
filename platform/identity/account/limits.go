package account

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/humancheck"
)

// The windows of the limits. Passwords are guessed online at the pace of the
// first; codes cost money at the pace of the others.
const (
	shortWindow  = time.Minute
	middleWindow = time.Hour
	longWindow   = 24 * time.Hour
	// failureWindow is how long failures count towards a human check: as long as
	// somebody keeps trying, and not still after lunch.
	failureWindow = 15 * time.Minute
)

// caller is what is known of whoever tries to get in.
type caller struct {
	Address  netip.Addr
	Solution string // of a human check; empty when none was sent
}

// loginAsks limit a try to get in from an address, whatever proves it.
func (s *Service) loginAsks(from caller) []ratelimit.Ask {
	return []ratelimit.Ask{{
		Rule: ratelimit.Rule{Name: "login-address", Count: s.cfg.LoginPerAddress, Per: shortWindow}, Key: ratelimit.AddrKey(from.Address),
	}}
}

// passwordAsks limit the guessing of a phone's password, too. Codes have a limit
// of their own, so that whoever guesses at a phone does not lock its holder out:
// a login by code stays possible.
func (s *Service) passwordAsks(phone Phone, from caller) []ratelimit.Ask {
	return append(s.loginAsks(from), ratelimit.Ask{
		Rule: ratelimit.Rule{Name: "login-phone", Count: s.cfg.LoginPerPhone, Per: shortWindow}, Key: s.keys[0].phoneKey(phone),
	})
}

// takeOwn limits how often a user proves something while logged in: whoever has
// only the access token must not find the password by trying.
func (s *Service) takeOwn(ctx context.Context, user int64) error {
	d, err := s.deps.Limits.Take(ctx, ratelimit.Ask{
		Rule: ratelimit.Rule{Name: "proof-user", Count: s.cfg.LoginPerPhone, Per: shortWindow}, Key: ratelimit.UserKey(user),
	})
	if err != nil {
		return asFault("limits", err)
	}
	return d.Err()
}

func (s *Service) registerAsks(from caller) []ratelimit.Ask {
	return append(s.loginAsks(from), ratelimit.Ask{
		Rule: ratelimit.Rule{Name: "register-address", Count: s.cfg.RegisterPerAddress, Per: middleWindow}, Key: ratelimit.AddrKey(from.Address),
	})
}

func (s *Service) codeAsks(phone Phone, from caller) []ratelimit.Ask {
	l, key := s.cfg.Limits, s.keys[0].phoneKey(phone)
	return []ratelimit.Ask{
		// A minute between two is what it takes for the first to arrive.
		{Rule: ratelimit.Rule{Name: "sms-phone-minute", Count: min(l.SMSPerPhoneHour, 1), Per: shortWindow}, Key: key},
		{Rule: ratelimit.Rule{Name: "sms-phone-hour", Count: l.SMSPerPhoneHour, Per: middleWindow}, Key: key},
		{Rule: ratelimit.Rule{Name: "sms-phone-day", Count: l.SMSPerPhoneDay, Per: longWindow}, Key: key},
		{Rule: ratelimit.Rule{Name: "sms-address", Count: l.SMSPerAddress, Per: middleWindow}, Key: ratelimit.AddrKey(from.Address)},
	}
}

// admit is the door before every try: the limits as far as memory knows them,
// the human check if the counts ask for one, then the limits themselves. In this
// order nobody solves a challenge only to be refused by a limit, or uses up a
// limit only to be sent for a challenge.
func (s *Service) admit(ctx context.Context, purpose string, from caller, counts []count, asks []ratelimit.Ask) error {
	if err := s.deps.Limits.Look(asks...).Err(); err != nil {
		return err
	}
	if err := s.checkHuman(ctx, purpose, from, counts); err != nil {
		return err
	}
	d, err := s.deps.Limits.Take(ctx, asks...)
	if err != nil {
		return asFault("limits", err)
	}
	return d.Err()
}

// count is a number of events of one subject in Redis, and the number from which
// on a human check is asked for.
type count struct {
	key  string
	most int // 0 is never
}

// loginFailures are the counts of a phone's and an address's failures.
func (s *Service) loginFailures(phone Phone, from caller) []count {
	counts := []count{{key: "failed:" + ratelimit.AddrKey(from.Address), most: s.cfg.CheckAfterAddress}}
	if phone != "" {
		counts = append(counts, count{key: "failed:" + s.keys[0].phoneKey(phone), most: s.cfg.CheckAfterFailures})
	}
	return counts
}

// codesSent are the counts of codes for a phone and of those asked for from an
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

// countPrefix begins the keys of counts in Redis.
const countPrefix = "account:count:"

// countTimeout bounds a question to Redis: nobody waits for a count.
const countTimeout = 250 * time.Millisecond

// checksHumans reports whether anybody is ever asked; if not, nothing is counted.
func (s *Service) checksHumans() bool {
	return s.deps.Human != nil && s.deps.Human.Public() != humancheck.None
}

// checkHuman asks for a human check when one of the counts has reached its
// number, and also when the counts cannot be read: a Redis that is away must not
// be a way around the check.
func (s *Service) checkHuman(ctx context.Context, purpose string, from caller, counts []count) error {
	if !s.checksHumans() {
		return nil
	}
	reached, err := s.reached(ctx, counts)
	if err != nil {
		s.deps.Log.WarnContext(ctx, "failed logins cannot be counted, asking for a human check", "error", err)
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

// note adds one to counts that end after a window. A count that is lost asks one
// person less for a check, so an error is only told.
func (s *Service) note(ctx context.Context, window time.Duration, counts []count) {
	if !s.checksHumans() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout) // also for a client that hangs up
	defer cancel()
	pipe := s.deps.Redis.Pipeline()
	for _, c := range counts {
		pipe.Incr(ctx, countPrefix+c.key)
		pipe.ExpireNX(ctx, countPrefix+c.key, window) // from the first event on, so that the count ends
	}
	if _, err := pipe.Exec(ctx); err != nil {
		s.deps.Log.WarnContext(ctx, "failed logins are not counted", "error", err)
	}
}

// forget ends the count of a phone's failures: whoever has just shown the
// password is no guesser.
func (s *Service) forget(ctx context.Context, phone Phone) {
	if !s.checksHumans() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	if err := s.deps.Redis.Del(ctx, countPrefix+"failed:"+s.keys[0].phoneKey(phone)).Err(); err != nil {
		s.deps.Log.WarnContext(ctx, "failed logins are not forgotten", "error", err)
	}
}
