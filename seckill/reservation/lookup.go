package reservation

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/ids"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
)

const (
	// settleAfter is how long after the closing an answer counts as final: longer
	// than a statement that began in time takes to commit, and longer than this
	// process's clock may be off.
	settleAfter = 5 * time.Second
	// lookupTimeout bounds one batch, so that its callers fail soon if there is
	// no answer.
	lookupTimeout = 2 * time.Second
	// redisTimeout is the part of it that Redis may use up, so that the rest is
	// enough for Postgres when Redis hangs.
	redisTimeout = 250 * time.Millisecond
	// setKept is how long a set stays in Redis after its item's end, for requests
	// still in progress; setJitter keeps a thousand sets from expiring together.
	setKept   = time.Minute
	setJitter = time.Minute
)

// question is whether a user holds a reservation of an item.
type question struct {
	user    int64
	item    int64
	settled int64 // when the window closed in Unix ms, if the answer is final; else 0
	expires int64 // when Redis may forget the answer, Unix ms

	have answer
	err  error
}

// answer is what is known about a user and an item.
type answer struct {
	held  bool
	human bool // and it was earned with a human check
}

// Where an answer came from, for the metric.
const (
	fromMemory   = "memory"
	fromRedis    = "redis"
	fromPostgres = "postgres"
	fromNowhere  = "nowhere"
)

// find returns what is known about a user and an item whose session requires
// reservations.
func (s *Service) find(ctx context.Context, item *catalogue.Item, user int64) (answer, error) {
	q := &question{user: user, item: item.ID, expires: item.ClosesAt.Add(setKept).UnixMilli()}
	if s.deps.Clock.Now().Sub(item.ReserveUntil) > settleAfter {
		q.settled = item.ReserveUntil.UnixMilli()
		if have, ok := s.recall(q); ok {
			s.lookups.WithLabelValues(fromMemory).Inc()
			return have, nil
		}
	}
	if err := s.asking.Ask(ctx, q); err != nil {
		return answer{}, inWords(err)
	}
	return q.have, q.err
}

// lookUp answers a batch: final answers from Redis if they are there, the rest
// from Postgres. The batch belongs to all its callers, so it does not end when
// one of them leaves.
func (s *Service) lookUp(batch []*question) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	rest := s.askRedis(ctx, batch)
	if err := s.askPostgres(ctx, rest); err != nil {
		s.lookups.WithLabelValues(fromNowhere).Add(float64(len(rest)))
		s.deps.Log.WarnContext(ctx, "reservation lookup failed", "questions", len(rest), "error", err)
		for _, q := range rest {
			q.err = errBusy.Because(err)
		}
		rest = nil
	}
	for _, q := range batch {
		if q.err == nil && q.settled != 0 {
			s.remember(q)
		}
	}
	s.tellRedis(ctx, rest)
}

const (
	// setPrefix begins the names of the sets.
	setPrefix = "rv:"
	// lockPrefix begins the names of the locks.
	lockPrefix = "reserve:"
)

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{setPrefix, lockPrefix}

// setKey is the name of the set of an item's reservations in a user's bucket. A
// member is twice the user's id, plus one if the user passed a human check:
// small integers, which Redis packs into some ten bytes each. The closing time
// is part of the name, so that a moved window starts with empty sets; the
// bucket, so that no set grows large and the sets spread over slots.
func (q *question) setKey() string {
	b := make([]byte, 0, 48)
	b = append(b, setPrefix...)
	b = strconv.AppendInt(b, q.item, 10)
	b = append(b, ':')
	b = strconv.AppendInt(b, q.settled, 10)
	b = append(b, ':')
	return string(strconv.AppendInt(b, int64(ids.Bucket(q.user)), 10))
}

// askRedis answers what the sets contain and returns the rest. A missing user
// says nothing: sets are filled as users come.
func (s *Service) askRedis(ctx context.Context, batch []*question) (rest []*question) {
	pipe := s.deps.Redis.Pipeline()
	found := make([]*redis.BoolSliceCmd, len(batch))
	for i, q := range batch {
		if q.settled != 0 {
			found[i] = pipe.SMIsMember(ctx, q.setKey(), 2*q.user, 2*q.user+1)
		}
	}
	if pipe.Len() == 0 {
		return batch
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if _, err := pipe.Exec(ctx); err != nil {
		s.deps.Log.DebugContext(ctx, "reservation lookup in redis failed", "error", err) // Postgres answers instead, which the metric shows
		return batch
	}
	for i, q := range batch {
		if found[i] == nil || !found[i].Val()[0] && !found[i].Val()[1] {
			rest = append(rest, q)
			continue
		}
		q.have = answer{held: true, human: found[i].Val()[1]}
	}
	s.lookups.WithLabelValues(fromRedis).Add(float64(len(batch) - len(rest)))
	return rest
}

// askPostgres answers all of a batch or returns an error.
func (s *Service) askPostgres(ctx context.Context, batch []*question) error {
	if len(batch) == 0 {
		return nil
	}
	in := seckilldb.ReservationsAmongParams{ItemIds: make([]int64, len(batch)), UserIds: make([]int64, len(batch))}
	for i, q := range batch {
		in.ItemIds[i], in.UserIds[i] = q.item, q.user
	}
	rows, err := seckilldb.New(s.deps.DB).ReservationsAmong(ctx, in)
	if err != nil {
		return fmt.Errorf("reservation: look up %d: %w", len(batch), err)
	}
	type pair struct{ item, user int64 }
	have := make(map[pair]answer, len(rows))
	for _, r := range rows {
		have[pair{r.ItemID, r.UserID}] = answer{held: true, human: r.HumanOk}
	}
	for _, q := range batch {
		q.have = have[pair{q.item, q.user}]
		if len(rows) > 0 && rows[0].At.UnixMilli() <= q.settled+settleAfter.Milliseconds() {
			q.settled = 0 // this process's clock is fast: by Postgres's the answer may still change
		}
	}
	s.lookups.WithLabelValues(fromPostgres).Add(float64(len(batch)))
	return nil
}

// tellRedis adds users whose reservation is final to their sets. What could not be
// written is looked up again next time.
func (s *Service) tellRedis(ctx context.Context, batch []*question) {
	pipe := s.deps.Redis.Pipeline()
	for _, q := range batch {
		if q.settled == 0 || !q.have.held {
			continue
		}
		key, member := q.setKey(), 2*q.user
		if q.have.human {
			member++
		}
		pipe.SAdd(ctx, key, member)
		pipe.PExpireAt(ctx, key, time.UnixMilli(q.expires).Add(rand.N(setJitter))) //nolint:gosec // jitter is no secret
	}
	if pipe.Len() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if _, err := pipe.Exec(ctx); err != nil {
		s.deps.Log.DebugContext(ctx, "caching reservations in redis failed", "error", err)
	}
}

const (
	// yesSeconds is how long this process caches that a user has a reservation:
	// longer than a shopper requests paths, and gone soon after to free the memory.
	yesSeconds = 600
	// noSeconds is how long it caches that a user has none, in freecache's whole
	// seconds: 1 … 2 s. It is this short because it only spares Postgres users who
	// retry repeatedly, and a row that an operator adds manually should count
	// immediately.
	noSeconds = 2
)

// The bits of a cached answer.
const (
	bitHeld = 1 << iota
	bitHuman
)

// memoryKey is an answer's key: item, user and closing time, for the reasons of
// setKey.
func (q *question) memoryKey() [24]byte {
	var k [24]byte
	binary.BigEndian.PutUint64(k[:], uint64(q.item))
	binary.BigEndian.PutUint64(k[8:], uint64(q.user))
	binary.BigEndian.PutUint64(k[16:], uint64(q.settled))
	return k
}

// remember caches a final answer.
func (s *Service) remember(q *question) {
	var bits byte
	seconds := noSeconds
	if q.have.held {
		bits, seconds = bitHeld, yesSeconds
	}
	if q.have.human {
		bits |= bitHuman
	}
	key := q.memoryKey()
	_ = s.memory.Set(key[:], []byte{bits}, seconds) // an entry of 25 bytes always fits
}

// recall returns a cached answer.
func (s *Service) recall(q *question) (answer, bool) {
	key := q.memoryKey()
	v, err := s.memory.Get(key[:])
	if err != nil || len(v) != 1 {
		return answer{}, false
	}
	return answer{held: v[0]&bitHeld != 0, human: v[0]&bitHuman != 0}, true
}
