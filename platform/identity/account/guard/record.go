package guard

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account"
	"stampede/platform/identity/humancheck"
)

// Budgets of a record: up to here an attempt needs no human check, or the easiest one.
// Where one may not, the next one does; each doubling makes a proof of work twice as
// hard (ratelimit.Level). Those of an address fit hundreds of shoppers behind one: they
// work for some seconds, and none is refused.
const (
	failuresOfPhone   = 3  // wrong passwords and codes in FailureWindow
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
func ofOrigin(what string, budget int, from Caller) (counts []count) {
	for i, network := range ratelimit.Networks(from.Origin.Address) {
		counts = append(counts, count{what + "a:" + network.String(), budget << i})
	}
	if from.proved() {
		counts = append(counts, count{what + "d:" + from.device(), budget / deviceShare})
	}
	return counts
}

// failures returns the counts of a phone's and an origin's failures.
func (g *Guard) failures(phone account.Phone, from Caller) []count {
	counts := ofOrigin("failed:", failuresOfAddress, from)
	if phone != "" {
		counts = append(counts, count{"failed:" + g.phoneKey(phone), failuresOfPhone})
	}
	return counts
}

// codesSent returns the counts of codes sent to a phone and requested from an origin.
func (g *Guard) codesSent(phone account.Phone, from Caller) []count {
	return append(ofOrigin("codes:", codesOfAddress, from), count{"codes:" + g.phoneKey(phone), codesOfPhone})
}

func registrations(from Caller) []count {
	return ofOrigin("registered:", accountsOfAddress, from)
}

// countPrefix is the prefix of the counts' keys in Redis.
const countPrefix = "account:count:"

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{countPrefix}

// countTimeout bounds a Redis call, so that a login does not wait for a count.
const countTimeout = 250 * time.Millisecond

// checksHumans reports whether human checks are on; if not, nothing is counted.
func (g *Guard) checksHumans() bool {
	return g.Human != nil && g.Human.Public() != humancheck.None
}

// checkHuman requires a human check for every SMS code, and otherwise when one of the
// counts has used up its budget. It also does when the counts cannot be read: a Redis
// outage must not bypass the check.
func (g *Guard) checkHuman(ctx context.Context, purpose string, from Caller, counts []count) error {
	if !g.checksHumans() {
		return nil
	}
	level, err := g.level(ctx, counts)
	switch {
	case err != nil:
		g.Store.Log.WarnContext(ctx, "reading attempt counts failed, requiring a human check", "error", err)
	case level == 0 && purpose != humancheck.PurposeSMS:
		return nil
	}
	sub := humancheck.Subject{Purpose: purpose, Address: from.Address, Level: humancheck.Easy + level}
	return g.Human.Check(ctx, g.Human.Public(), sub, from.Solution)
}

// level is the highest level of the counts.
func (g *Guard) level(ctx context.Context, counts []count) (level int, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	pipe := g.Redis.Pipeline() // not MGET, whose keys must share a slot
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

// Failed counts a wrong password or code; the phone is "" for a WeChat code.
func (g *Guard) Failed(ctx context.Context, phone account.Phone, from Caller) {
	g.note(ctx, FailureWindow, g.failures(phone, from))
}

// CodeSent counts a code that was sent to a phone.
func (g *Guard) CodeSent(ctx context.Context, phone account.Phone, from Caller) {
	g.note(ctx, MiddleWindow, g.codesSent(phone, from))
}

// Created counts an account that a caller created.
func (g *Guard) Created(ctx context.Context, from Caller) {
	g.note(ctx, MiddleWindow, registrations(from))
}

// note adds one to counts that expire after a window. A lost count only means one
// check fewer, so an error is only logged.
func (g *Guard) note(ctx context.Context, window time.Duration, counts []count) {
	if !g.checksHumans() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout) // count even if the client hangs up
	defer cancel()
	pipe := g.Redis.Pipeline()
	for _, c := range counts {
		pipe.Incr(ctx, countPrefix+c.key)
		pipe.ExpireNX(ctx, countPrefix+c.key, window) // starts with the first event, so that the count expires
	}
	if _, err := pipe.Exec(ctx); err != nil {
		g.Store.Log.WarnContext(ctx, "updating attempt counts failed", "error", err)
	}
}

// Forget resets a phone's failures: a caller who knows the password is not guessing.
func (g *Guard) Forget(ctx context.Context, phone account.Phone) {
	if !g.checksHumans() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	if err := g.Redis.Del(ctx, countPrefix+"failed:"+g.phoneKey(phone)).Err(); err != nil {
		g.Store.Log.WarnContext(ctx, "resetting the failure count failed", "error", err)
	}
}
