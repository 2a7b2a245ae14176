package humancheck

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/edge/ratelimit"
)

// What is kept in Redis, each under its own key, so that it may lie in any slot:
//
//	human:used:<id>    a used ticket; kept until it could no longer be used anyway
//	human:slide:<id>   where the tile of a slide belongs; deleted by the first read
//	human:failed:<of>  how often a user, or an address before a login, failed a slide
const (
	usedPrefix   = "human:used:"
	slidePrefix  = "human:slide:"
	failedPrefix = "human:failed:"
)

// failuresKept is how long a failure counts, from the first one on.
const failuresKept = 10 * time.Minute

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{usedPrefix, slidePrefix, failedPrefix}

const (
	// storeTimeout bounds a call: Redis answers in a millisecond, and for a shopper
	// an error that asks for a retry is better than a long wait.
	storeTimeout = time.Second
	// maxClockGap is how far the clocks of two instances, or ours and a provider's,
	// may differ. A used ticket is remembered for that much longer than it is valid.
	maxClockGap = time.Minute
)

// errStore means that Redis did not answer. Only the log gets the cause.
var errStore = errors.New("humancheck: Redis did not answer")

func ticketKeyOf(prefix string, t *ticket) string {
	return prefix + base64.RawURLEncoding.EncodeToString(t.id[:])
}

// use marks a ticket as used; errUsed if it already was.
func (s *Service) use(ctx context.Context, t *ticket) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	left := max(0, t.expires().Sub(s.deps.Clock.Now())) + maxClockGap
	err := s.deps.Redis.SetArgs(ctx, ticketKeyOf(usedPrefix, t), 1, redis.SetArgs{Mode: "NX", TTL: left}).Err()
	if errors.Is(err, redis.Nil) {
		return errUsed
	}
	if err != nil {
		return fmt.Errorf("%w: mark a ticket used: %w", errStore, err)
	}
	return nil
}

// keep stores the answer to a slide.
func (s *Service) keep(ctx context.Context, t *ticket, answer int) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.deps.Redis.Set(ctx, ticketKeyOf(slidePrefix, t), answer, challengeLifetime+maxClockGap).Err(); err != nil {
		return fmt.Errorf("%w: keep a slide's answer: %w", errStore, err)
	}
	return nil
}

// answer reads and deletes a slide's answer, and reads how often its subject failed
// lately; errUsed if it was read before.
func (s *Service) answer(ctx context.Context, t *ticket, sub Subject) (answer, failures int, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	pipe := s.deps.Redis.Pipeline()
	stored, failed := pipe.GetDel(ctx, ticketKeyOf(slidePrefix, t)), pipe.Get(ctx, failedKey(sub))
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, 0, fmt.Errorf("%w: take a slide's answer: %w", errStore, err)
	}
	answer, err = stored.Int()
	if errors.Is(err, redis.Nil) {
		return 0, 0, errUsed
	}
	if err == nil && !errors.Is(failed.Err(), redis.Nil) {
		failures, err = failed.Int()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%w: take a slide's answer: %w", errStore, err)
	}
	return answer, failures, nil
}

func failedKey(sub Subject) string {
	if sub.User != 0 {
		return failedPrefix + ratelimit.UserKey(sub.User)
	}
	return failedPrefix + sub.address()
}

// countFailure adds one to the failures of a subject.
func (s *Service) countFailure(ctx context.Context, sub Subject) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout) // count even if the client hangs up
	defer cancel()
	key, pipe := failedKey(sub), s.deps.Redis.Pipeline()
	pipe.Incr(ctx, key)
	pipe.ExpireNX(ctx, key, failuresKept)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("%w: count a failed slide: %w", errStore, err)
	}
	return nil
}
