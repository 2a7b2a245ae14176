package account

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/humancheck"
)

// Budgets of a record: up to here an attempt needs no human check, or the easiest one.
// Where one may not, the next one does; each doubling makes a proof of work twice as
// hard (ratelimit.Level). Those of an address fit hundreds of shoppers behind one: they
// work for some seconds, and none is refused.
const (
	failuresOfPhone   = 3  // wrong passwords and codes in failureWindow
	failuresOfAddress = 10 // the same
	codesOfPhone      = 2  // requested in an hour
	codesOfAddress    = 10 // the same
	accountsOfAddress = 10 // created in an hour
)

// count is a number of events of one subject in Redis, and its budget.
type count struct {
	key    string
	budget int
}

// deviceShare is how many times smaller than an address's the budget of a device is.
const deviceShare = 3

// ofOrigin returns the counts of the networks that a caller's address is in, and of its
// device. A network's budget is twice that of the next smaller one.
func ofOrigin(what string, budget int, from caller) (counts []count) {
	for i, network := range ratelimit.Networks(from.Origin.Address) {
		counts = append(counts, count{what + "a:" + network.String(), budget << i})
	}
	if from.proved() {
		counts = append(counts, count{what + "d:" + from.device(), budget / deviceShare})
	}
	return counts
}

// proved reports whether the caller has the signed cookie of a device.
func (c caller) proved() bool { return c.Origin.Device != [16]byte{} }

// device is the id of that device as text.
func (c caller) device() string { return hex.EncodeToString(c.Origin.Device[:]) }

// loginFailures returns the counts of a phone's and an origin's failures.
func (s *Service) loginFailures(phone Phone, from caller) []count {
	counts := ofOrigin("failed:", failuresOfAddress, from)
	if phone != "" {
		counts = append(counts, count{"failed:" + s.keys[0].phoneKey(phone), failuresOfPhone})
	}
	return counts
}

// codesSent returns the counts of codes sent to a phone and requested from an origin.
func (s *Service) codesSent(phone Phone, from caller) []count {
	return append(ofOrigin("codes:", codesOfAddress, from), count{"codes:" + s.keys[0].phoneKey(phone), codesOfPhone})
}

func (s *Service) registrations(from caller) []count {
	return ofOrigin("registered:", accountsOfAddress, from)
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

// checkHuman requires a human check for every SMS code, and otherwise when one of the
// counts has used up its budget. It also does when the counts cannot be read: a Redis
// outage must not bypass the check.
func (s *Service) checkHuman(ctx context.Context, purpose string, from caller, counts []count) error {
	if !s.checksHumans() {
		return nil
	}
	level, err := s.level(ctx, counts)
	switch {
	case err != nil:
		s.deps.Log.WarnContext(ctx, "reading attempt counts failed, requiring a human check", "error", err)
	case level == 0 && purpose != humancheck.PurposeSMS:
		return nil
	}
	sub := humancheck.Subject{Purpose: purpose, Address: from.Address, Level: humancheck.Easy + level}
	return s.deps.Human.Check(ctx, s.deps.Human.Public(), sub, from.Solution)
}

// level is the highest level of the counts.
func (s *Service) level(ctx context.Context, counts []count) (level int, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	pipe := s.deps.Redis.Pipeline() // not MGET, whose keys must share a slot
	read := make([]*redis.StringCmd, len(counts))
	for i, c := range counts {
		read[i] = pipe.Get(ctx, countPrefix+c.key)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	for i, c := range counts {
		n, err := read[i].Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, err
		}
		level = max(level, ratelimit.Level(n, c.budget))
	}
	return level, nil
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
