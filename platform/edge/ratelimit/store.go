package ratelimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// mostTakes in one call keep Redis busy for a third of a millisecond, with one
	// sync of its file for all of them.
	mostTakes = 128
	// mostWaiting is some 50 ms of work; further takes are decided in memory.
	mostWaiting = 4096
)

//go:embed take.lua
var takeSource string

var takeScript = redis.NewScript(takeSource)

// take is one request's take from Redis, with its result.
type take struct {
	asks     []Ask
	subjects []subject

	ahead []time.Duration // each subject's TAT
	taken bool
	err   error
}

var (
	errAnswer    = errors.New("the script's answer is malformed")
	errRedisDown = errors.New("ratelimit: Redis failed less than a second ago")
)

// takeThere takes from Redis and returns how far ahead each subject's TAT lies.
// Takes that arrive during a call are batched.
func (l *Limiter) takeThere(ctx context.Context, asks []Ask, subjects []subject) (ahead []time.Duration, taken bool, err error) {
	t := &take{asks: asks, subjects: append([]subject(nil), subjects...)} // the take may outlive the request
	if err := l.store.Ask(ctx, t); err != nil {
		return nil, false, fmt.Errorf("ratelimit: take.lua: %w", err)
	}
	return t.ahead, t.taken, t.err
}

// takeTogether answers a batch. One batch is in flight at a time: two would each
// carry half, and Redis syncs its file for every call.
func (l *Limiter) takeTogether(batch []*take) {
	err := errRedisDown
	if l.now() >= time.Duration(l.localUntil.Load()) { // requests queued behind a failed call must not wait again
		err = l.takeAll(batch)
	}
	if err == nil {
		return
	}
	if !errors.Is(err, errRedisDown) {
		l.localUntil.Store(int64(l.now() + localFor))
		l.log.Warn("Redis failed, rate limits are enforced per instance", "error", err, "ask_redis_again_after", localFor)
	}
	for _, t := range batch {
		t.err = err
	}
}

// takeAll serves all waiting requests, so it does not end with any one of them.
func (l *Limiter) takeAll(batch []*take) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	rules := 0
	for _, t := range batch {
		rules += len(t.asks)
	}
	keys, args := make([]string, 0, rules), make([]any, 1, 1+len(batch)+2*rules)
	args[0] = l.nowMicros
	for _, t := range batch {
		args = append(args, len(t.asks))
		for i, a := range t.asks {
			keys = append(keys, t.subjects[i].key())
			args = append(args, a.Rule.interval().Microseconds(), a.Rule.Count)
		}
	}
	answer, err := takeScript.Run(ctx, l.redis, keys, args...).Int64Slice()
	if err == nil && len(answer) != len(batch)+rules {
		err = errAnswer
	}
	if err != nil {
		return fmt.Errorf("ratelimit: take.lua: %w", err)
	}
	for _, t := range batch {
		t.taken, t.ahead = answer[0] == 1, make([]time.Duration, len(t.asks))
		for i := range t.asks {
			t.ahead[i] = time.Duration(answer[1+i]) * time.Microsecond
		}
		answer = answer[1+len(t.asks):]
	}
	return nil
}
