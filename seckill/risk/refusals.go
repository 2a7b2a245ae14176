package risk

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

const (
	// refusalsKey and the minute are the key of the hash user → refusals in
	// that minute.
	refusalsKey = "risk:refusals:"
	// keepCounters is how long such a hash is kept: the dry run reads this minute
	// and the previous one.
	keepCounters = 3 * time.Minute
	// flushEvery is how soon a refusal counts on all instances.
	flushEvery = 500 * time.Millisecond
	// maxRefusing bounds the users counted between two flushes; further users
	// are not counted, and a user who is still being refused is counted in the
	// next.
	maxRefusing = 20_000
)

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{refusalsKey}

// refusals are the refusals not yet counted in Redis.
type refusals struct {
	mu      sync.Mutex
	pending map[int64]int64 // user → refusals
}

// Refused counts a refusal at the door. It never blocks.
func (s *Service) Refused(user int64) {
	s.refusals.mu.Lock()
	defer s.refusals.mu.Unlock()
	if _, known := s.refusals.pending[user]; known || len(s.refusals.pending) < maxRefusing {
		s.refusals.pending[user]++
	}
}

func (r *refusals) take() map[int64]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.pending
	r.pending = map[int64]int64{}
	return taken
}

func minuteKey(t time.Time) string { return refusalsKey + strconv.FormatInt(t.Unix()/60, 10) }

// flushRefusals adds the pending refusals to the minute's counters and marks
// users who have reached a rule's threshold. What Redis did not take is dropped:
// a refusal matters for a minute.
func (s *Service) flushRefusals(ctx context.Context) error {
	taken := s.refusals.take()
	if len(taken) == 0 {
		return nil
	}
	now := s.deps.Clock.Now()
	key := minuteKey(now)
	counts := make(map[int64]*redis.IntCmd, len(taken))
	_, err := s.deps.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for user, n := range taken {
			counts[user] = p.HIncrBy(ctx, key, strconv.FormatInt(user, 10), n)
		}
		p.Expire(ctx, key, keepCounters)
		return nil
	})
	if err != nil {
		return fmt.Errorf("count refusals: %w", err)
	}
	p := s.current.Now()
	for i := range p.rules {
		r := &p.rules[i]
		if r.Kind != Refusals || r.over(now) {
			continue
		}
		var hit []Hit
		for user, c := range counts {
			if c.Val() >= int64(r.Threshold) {
				hit = append(hit, Hit{User: user, Count: c.Val(), Until: now.Add(r.Window)})
			}
		}
		if len(hit) == 0 {
			continue
		}
		if err := s.current.Change(ctx, func(tx pgx.Tx) (bool, error) { return putMarks(ctx, tx, r.ID, hit) }); err != nil {
			return err
		}
	}
	return nil
}

// refusalHits returns the users that a rule applies to by the counters of this
// minute and the previous one.
func (s *Service) refusalHits(ctx context.Context, r *Rule) ([]Hit, error) {
	now := s.deps.Clock.Now()
	most := map[int64]int64{}
	for _, at := range [...]time.Time{now, now.Add(-time.Minute)} {
		// In chunks: one reply for a minute's hundred thousand users would
		// block Redis.
		rows := s.deps.Redis.HScan(ctx, minuteKey(at), 0, "", 1000).Iterator()
		for rows.Next(ctx) {
			user, err := strconv.ParseInt(rows.Val(), 10, 64)
			if err != nil || !rows.Next(ctx) {
				break
			}
			n, err := strconv.ParseInt(rows.Val(), 10, 64)
			if err == nil && n >= int64(r.Threshold) {
				most[user] = max(most[user], n)
			}
		}
		if err := rows.Err(); err != nil {
			return nil, fmt.Errorf("read refusals: %w", err)
		}
	}
	hits := make([]Hit, 0, len(most))
	for user, n := range most {
		hits = append(hits, Hit{User: user, Count: n, Until: now.Add(r.Window)})
	}
	return worst(hits, s.set.MaxOffenders), nil
}
