// Package ratelimit bounds how often a subject (a user, an address, a phone) may
// do something, across all instances of the shop.
//
// The algorithm is GCRA, the generic cell rate algorithm of ATM networks (ITU-T
// I.371, annex A), in its virtual scheduling form. The state of a rule's subject is
// one number, its theoretical arrival time (TAT): when everything it has taken so far
// will have been refilled. With an interval of Per/Count, a take advances the TAT by
// one interval, starting from now if it lies in the past, and is refused if the TAT
// would then lie more than Count intervals ahead. That is a token bucket of Count
// tokens without a token counter and without a timer to refill it.
//
// A Take of several rules (per user and per address) is all or nothing: refused by
// one, it costs nothing at the others. It has two steps.
//
//   - Memory. Each process keeps the newest TATs that it knows in a table of fixed
//     size. A subject over a limit there is refused immediately, so that a flood
//     from one subject does not reach Redis more often than the rule allows.
//   - Redis. One call of take.lua decides by the server's clock: all rules are
//     computed, then all are written. The answer updates the table.
//
// The table is at most stricter than Redis by what another instance's Redis forgot,
// and at most looser by what other instances took since: Redis decides. While Redis
// is down, hangs or is full, the tables decide alone: a subject then gets at most
// Count times the number of instances. That is preferred to refusing every request,
// and counted in stampede_ratelimit_alone_total.
//
// Takes that arrive during a call go together in the next one (platform/base/batch):
// Redis syncs its file once for all of them. A single instance keeps rules of up to a
// minute in its table only and does not call Redis for them; a restart forgives a
// minute. Longer rules, such as SMS codes per day, still go to Redis.
//
// With [Rule.FirstHere] one of several instances gives a subject the first in each window from its table, and Redis decides
// about Count-1: most shoppers ask for one rush path, and nearly all cost no call.
//
// In a Redis cluster all keys share one slot. A script may touch only one slot, a
// user's and an address's keys would otherwise lie in two, and rules that are taken
// one by one cannot be all or nothing. One node decides more takes per second than
// the instances of a shop can serve, because the tables filter first.
//
// Memory in Redis is bounded by the takes of the longest window: a key is about 100
// bytes and expires when its subject's quota is full again. Keys are hashes, so that
// no phone or address can be read from Redis.
//
// [Limiter.TakeHere] uses the table alone, for limits that each instance keeps for
// itself: it is cheap enough for every request.
//
// Repeats is the same algorithm for the rush itself: memory only, one atomic word
// per user.
package ratelimit

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/batch"
)

const (
	// storeTimeout bounds one call. Redis answers within a millisecond; if it does
	// not, a shopper should not wait for the limits.
	storeTimeout = 250 * time.Millisecond
	// localFor is how long Redis is not called after a failure, so that while it
	// hangs one request a second waits for it and not every one.
	localFor = time.Second
)

// shortWindow is what a restart may forgive: a single instance keeps rules of up to
// this window in memory, which saves Redis a synced write per request.
const shortWindow = time.Minute

// Limiter decides Takes. Safe for concurrent use.
type Limiter struct {
	// SingleInstance says that no other instance limits the same subjects: then short
	// rules are kept in memory only. Set it before the first Take.
	SingleInstance bool

	redis redis.UniversalClient
	store batch.Coalescer[take]
	log   *slog.Logger
	table table
	seed  maphash.Seed // of TakeHere
	began time.Time
	// localUntil is when Redis is called again, since began; in the past while it
	// answers.
	localUntil atomic.Int64
	nowMicros  int64 // for take.lua; set by tests

	refusals  *prometheus.CounterVec
	localOnly prometheus.Counter
}

// New returns a limiter over a Redis, or one with memory only when rdb is nil.
// metrics receives its metrics; a second limiter on the same registry panics.
func New(rdb redis.UniversalClient, log *slog.Logger, metrics prometheus.Registerer) *Limiter {
	auto := promauto.With(metrics)
	l := &Limiter{
		redis: rdb, log: log, seed: maphash.MakeSeed(), began: time.Now(),
		refusals: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_ratelimit_refusals_total", Help: "Requests refused by a rate limit, by rule and by where it was decided: memory or Redis.",
		}, []string{"rule", "by"}),
		localOnly: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_ratelimit_alone_total", Help: "Rate limit decisions made by this instance alone because Redis did not answer.",
		}),
	}
	l.store = batch.Coalescer[take]{Answer: l.takeTogether, MaxBatch: mostTakes, Parallel: 1, MaxWaiting: mostWaiting}
	return l
}

// Expect exports the rules' series from the first scrape on, so that the first rate
// of refusals is right.
func (l *Limiter) Expect(rules ...Rule) {
	for _, r := range rules {
		for _, by := range []string{byMemory, byRedis} {
			l.refusals.WithLabelValues(r.Name, by)
		}
	}
}

// Where a refusal was decided, as the metric's label.
const (
	byMemory = "memory"
	byRedis  = "redis"
)

// now is monotonic: setting the clock does not refill a quota.
func (l *Limiter) now() time.Duration { return time.Since(l.began) }

// Take takes one of each rule for its subject if all of them allow it, else nothing.
// Rules that are off are skipped; if all are off the answer is allowed. A failing
// Redis is not an error, see the package. Errors are an invalid ask, and the end of
// ctx.
func (l *Limiter) Take(ctx context.Context, asks ...Ask) (Decision, error) {
	asks, err := active(asks)
	if err != nil || len(asks) == 0 {
		return Decision{Allowed: true}, err
	}
	var room [maxAsks]subject
	subjects := room[:len(asks)]
	for i, a := range asks {
		subjects[i] = subjectOf(a)
	}
	if l.lends(asks) {
		if d, ok := l.lend(asks[0], subjects[0]); ok {
			return d, nil
		}
		d, err := l.take(ctx, others(asks[0]), subjects)
		return d.about(asks[0].Rule), err
	}
	return l.take(ctx, asks, subjects)
}

// take is Take of asks that are on.
func (l *Limiter) take(ctx context.Context, asks []Ask, subjects []subject) (Decision, error) {
	d := l.takeHere(asks, subjects)
	if !d.Allowed || l.redis == nil || l.SingleInstance && areShort(asks) {
		return d, nil
	}
	if l.now() < time.Duration(l.localUntil.Load()) {
		l.localOnly.Inc()
		return d, nil
	}
	ahead, taken, err := l.takeThere(ctx, asks, subjects)
	switch {
	case ctx.Err() != nil:
		l.giveBack(asks, subjects)
		return Decision{}, fmt.Errorf("ratelimit: take: %w", ctx.Err())
	case err != nil:
		l.localOnly.Inc()
		return d, nil //nolint:nilerr // a failing Redis is not the caller's error
	}
	if !taken {
		l.giveBack(asks, subjects)
	}
	out, now := Decision{}, l.now()
	for i, a := range asks {
		l.table.learn(subjects[i], ahead[i], now)
		out = out.tighter(decide(a.Rule, taken, ahead[i]))
	}
	out.rules = d.rules
	if !taken {
		l.refusals.WithLabelValues(out.Rule.Name, byRedis).Inc()
	}
	return out, nil
}

// lends reports whether this instance gives a subject one of the ask in each window without asking Redis, which decides
// about the others.
func (l *Limiter) lends(asks []Ask) bool {
	return len(asks) == 1 && asks[0].Rule.FirstHere && asks[0].Rule.Count > 1 && areShort(asks) && l.redis != nil && !l.SingleInstance
}

// lend takes the one that needs no Redis, if the subject has not had it.
func (l *Limiter) lend(a Ask, s subject) (Decision, bool) {
	now, one := l.now(), Rule{Count: 1, Per: a.Rule.Per}
	if _, ok := l.table.take(s.lent(), one, now); !ok {
		return Decision{}, false
	}
	return decide(a.Rule, true, l.table.look(s, now)+a.Rule.interval()).about(a.Rule), true
}

// others is an ask for what Redis decides about where this instance lends one.
func others(a Ask) []Ask {
	a.Rule.Count--
	return []Ask{a}
}

// about is a decision about others, for the whole rule.
func (d Decision) about(r Rule) Decision {
	d.Rule, d.rules = r, []Rule{r}
	return d
}

// Look answers from memory how a Take of the asks would most likely end, and takes
// nothing. Refused is final; allowed is for a Take to decide. Invalid asks are
// skipped.
func (l *Limiter) Look(asks ...Ask) Decision {
	asks, err := active(asks)
	if err != nil || len(asks) == 0 {
		return Decision{Allowed: true}
	}
	if !l.lends(asks) {
		return l.look(asks)
	}
	if l.table.look(subjectOf(asks[0]).lent(), l.now()) == 0 {
		return Decision{Allowed: true}
	}
	return l.look(others(asks[0])).about(asks[0].Rule)
}

// look is Look of asks that are on.
func (l *Limiter) look(asks []Ask) Decision {
	now, out := l.now(), Decision{}
	for _, a := range asks {
		ahead := l.table.look(subjectOf(a), now)
		out = out.tighter(decide(a.Rule, ahead+a.Rule.interval() <= a.Rule.full(), ahead))
	}
	out.rules, out.Allowed = rulesOf(asks), out.Retry == 0
	if !out.Allowed {
		l.refusals.WithLabelValues(out.Rule.Name, byMemory).Inc()
	}
	return out
}

// Used returns which share of an ask's quota is taken, from 0 to 1, as far as this
// instance knows.
func (l *Limiter) Used(a Ask) float64 {
	if !a.Rule.On() {
		return 0
	}
	return min(float64(l.table.look(subjectOf(a), l.now()))/float64(a.Rule.full()), 1)
}

// active returns the asks whose rules are on.
func active(asks []Ask) ([]Ask, error) {
	if len(asks) > maxAsks {
		return nil, fmt.Errorf("ratelimit: %d rules in one take, at most %d are allowed", len(asks), maxAsks)
	}
	on := make([]Ask, 0, len(asks))
	for _, a := range asks {
		if err := a.Rule.Validate(); err != nil {
			return nil, err
		}
		if a.Rule.On() {
			on = append(on, a)
		}
	}
	return on, nil
}

func areShort(asks []Ask) bool {
	return !slices.ContainsFunc(asks, func(a Ask) bool { return a.Rule.Per > shortWindow })
}

func rulesOf(asks []Ask) []Rule {
	rules := make([]Rule, len(asks))
	for i, a := range asks {
		rules[i] = a.Rule
	}
	return rules
}

// takeHere takes from memory.
func (l *Limiter) takeHere(asks []Ask, subjects []subject) Decision {
	now, out := l.now(), Decision{}
	for i, a := range asks {
		ahead, ok := l.table.take(subjects[i], a.Rule, now)
		if !ok {
			l.giveBack(asks[:i], subjects[:i])
			l.refusals.WithLabelValues(a.Rule.Name, byMemory).Inc()
			out = decide(a.Rule, false, ahead)
			out.rules = rulesOf(asks)
			return out
		}
		out = out.tighter(decide(a.Rule, true, ahead))
	}
	out.rules = rulesOf(asks)
	return out
}

func (l *Limiter) giveBack(asks []Ask, subjects []subject) {
	for i, a := range asks {
		l.table.back(subjects[i], a.Rule)
	}
}

// Here is one rule of one route for one subject, counted by this instance alone.
type Here struct {
	Rule  *Rule
	Route uint32 // distinguishes routes with the same rule
	// Subject is 16 bytes of its own choice: a user's id, an address.
	Subject [16]byte
}

// TakeHere takes one of each rule for its subject if all of them allow it, else
// nothing, by memory alone and without allocating: it is made for every request.
// Rules that are off are skipped. Another instance does not know of it.
func (l *Limiter) TakeHere(asks ...Here) (refusal error) {
	now := l.now()
	for i, a := range asks {
		if !a.Rule.On() {
			continue
		}
		ahead, ok := l.table.take(l.subjectHere(a), *a.Rule, now)
		if ok {
			continue
		}
		for _, taken := range asks[:i] {
			if taken.Rule.On() {
				l.table.back(l.subjectHere(taken), *taken.Rule)
			}
		}
		l.refusals.WithLabelValues(a.Rule.Name, byMemory).Inc()
		d := decide(*a.Rule, false, ahead)
		d.rules = []Rule{*a.Rule}
		return d.Err()
	}
	return nil
}

// subjectHere hashes with a seed of this process, so that a client cannot choose
// subjects that collide.
func (l *Limiter) subjectHere(a Here) (s subject) {
	type key struct {
		route   uint32
		subject [16]byte
	}
	binary.LittleEndian.PutUint64(s[:], maphash.Comparable(l.seed, key{a.Route, a.Subject}))
	binary.LittleEndian.PutUint32(s[8:], a.Route)
	return s
}
