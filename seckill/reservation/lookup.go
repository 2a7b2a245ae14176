package reservation

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"stampede/platform/edge/httpx"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/rush"
)

const (
	// settleAfter is how long after the closing an answer counts as final: longer
	// than a statement that began in time takes to commit, and longer than this
	// process's clock may be off.
	settleAfter = 5 * time.Second
	// lookupTimeout bounds one batch, so that its callers fail soon if there is
	// no answer.
	lookupTimeout = 2 * time.Second
)

// question is whether a user holds a reservation of an item.
type question struct {
	user    int64
	item    int64
	settled int64 // when the window closed in Unix ms, if the answer is final; else 0

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
	fromPostgres = "postgres"
	fromNowhere  = "nowhere"
)

// find returns what is known about a user and an item whose session requires
// reservations.
func (s *Service) find(ctx context.Context, item *catalogue.Item, user int64) (answer, error) {
	q := &question{user: user, item: item.ID}
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

// lookUp answers a batch. The batch belongs to all its callers, so it does not end when
// one of them leaves.
func (s *Service) lookUp(batch []*question) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	if err := s.askPostgres(ctx, batch); err != nil {
		s.lookups.WithLabelValues(fromNowhere).Add(float64(len(batch)))
		s.deps.Log.WarnContext(ctx, "reservation lookup failed", "questions", len(batch), "error", err)
		for _, q := range batch {
			q.err = errBusy.Because(err)
		}
		return
	}
	s.lookups.WithLabelValues(fromPostgres).Add(float64(len(batch)))
	for _, q := range batch {
		if q.settled != 0 {
			s.remember(q)
		}
	}
}

// askPostgres answers all of a batch or returns an error.
func (s *Service) askPostgres(ctx context.Context, batch []*question) error {
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
	return nil
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

// memoryKey is an answer's key. The closing time is part of it, so that a window that an
// operator moves starts without answers.
func (q *question) memoryKey() [24]byte {
	var k [24]byte
	binary.BigEndian.PutUint64(k[:], uint64(q.item))
	binary.BigEndian.PutUint64(k[8:], uint64(q.user))
	binary.BigEndian.PutUint64(k[16:], uint64(q.settled))
	return k
}

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

func (s *Service) recall(q *question) (answer, bool) {
	key := q.memoryKey()
	v, err := s.memory.Get(key[:])
	if err != nil || len(v) != 1 {
		return answer{}, false
	}
	return answer{held: v[0]&bitHeld != 0, human: v[0]&bitHuman != 0}, true
}

// Check is a rush.DoorCheck: if the session requires a reservation, only users
// who have one pass. Without an answer from Postgres no shopper passes.
func (s *Service) Check(ctx context.Context, a *rush.Applicant) error {
	if a.Item.ReserveUntil.IsZero() {
		return nil
	}
	have, err := s.find(ctx, a.Item, a.User)
	switch {
	case err != nil:
		return err
	case have.held:
		return nil
	case a.Now.Before(a.Item.ReserveUntil):
		return errNotHeldYet.With("reservation_closes_at", httpx.Moment(a.Item.ReserveUntil))
	default:
		return ErrNotHeld
	}
}

// Proved reports whether a user passed a human check when reserving an item, so
// that the door requires none for the path. An error means that this is unknown
// at the moment.
func (s *Service) Proved(ctx context.Context, user, itemID int64) (bool, error) {
	item, ok := s.deps.Items.Item(itemID)
	if !ok || item.ReserveUntil.IsZero() {
		return false, nil
	}
	have, err := s.find(ctx, item, user)
	return have.held && have.human, err
}
