package ratelimit

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
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
	redis  redis.UniversalClient
	single bool // no other instance limits the same subjects
	store  batch.Coalescer[take]
	log    *slog.Logger
	table  table
	seed   maphash.Seed // of TakeHere
	began  time.Time
	// localUntil is when Redis is called again, since began; in the past while it
	// answers.
	localUntil atomic.Int64
	nowMicros  int64 // for take.lua; set by tests

	refusals  *prometheus.CounterVec
	localOnly prometheus.Counter
}

// Option configures a Limiter.
type Option func(*Limiter)

// SingleInstance says that no other instance limits the same subjects: then short
// rules are kept in memory only.
func SingleInstance(single bool) Option { return func(l *Limiter) { l.single = single } }

// New returns a limiter over a Redis, or one with memory only when rdb is nil.
// metrics receives its metrics; a second limiter on the same registry panics.
func New(rdb redis.UniversalClient, log *slog.Logger, metrics prometheus.Registerer, with ...Option) *Limiter {
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
	for _, option := range with {
		option(l)
	}
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
	d := l.takeHere(asks, subjects)
	if !d.Allowed || l.redis == nil || l.single && areShort(asks) {
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
	out, now := Decision{rules: d.rules}, l.now()
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

// Look answers from memory how a Take of the asks would most likely end, and takes
// nothing. Refused is final; allowed is for a Take to decide. Invalid asks are
// skipped.
func (l *Limiter) Look(asks ...Ask) Decision {
	asks, err := active(asks)
	if err != nil || len(asks) == 0 {
		return Decision{Allowed: true}
	}
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
	for _, a := range asks {
		if a.Rule.Per > shortWindow {
			return false
		}
	}
	return true
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
