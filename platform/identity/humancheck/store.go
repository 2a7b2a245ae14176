package humancheck

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// What is kept in Redis, each under its own key, so that it may lie in any slot:
//
//	human:used:<id>    a used ticket; kept until it could no longer be used anyway
//	human:slide:<id>   where the tile of a slide belongs; deleted by the first read
const (
	usedPrefix  = "human:used:"
	slidePrefix = "human:slide:"
)

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{usedPrefix, slidePrefix}

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

// answer reads and deletes a slide's answer; errUsed if it was read before.
func (s *Service) answer(ctx context.Context, t *ticket) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	text, err := s.deps.Redis.GetDel(ctx, ticketKeyOf(slidePrefix, t)).Result()
	if errors.Is(err, redis.Nil) {
		return 0, errUsed
	}
	if err != nil {
		return 0, fmt.Errorf("%w: take a slide's answer: %w", errStore, err)
	}
	answer, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%w: a slide's answer is not a number: %w", errStore, err)
	}
	return answer, nil
}
