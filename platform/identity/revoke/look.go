package revoke

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/identity/revoke/internal/revokedb"
)

const (
	// lookEvery is half of what a lost broadcast may cost, so that one read may
	// fail.
	lookEvery = 500 * time.Millisecond
	// lookTimeout bounds a read of Postgres, which takes less than a millisecond on
	// an idle machine. Together with redisTimeout for one read and one write it
	// leaves time for the next turn before staleAfter.
	lookTimeout  = 300 * time.Millisecond
	redisTimeout = 150 * time.Millisecond
	// loadTimeout bounds the first read, which returns every row.
	loadTimeout = 10 * time.Second
)

// keepLooking reads new revocations twice a second until ctx ends.
func (s *Service) keepLooking(ctx context.Context) error {
	s.keep(true)
	defer s.keep(false)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	failing := false
	for {
		began := time.Now()
		if err := s.look(ctx, began); ctx.Err() == nil && (err != nil) != failing {
			if failing = err != nil; failing {
				s.deps.Log.WarnContext(ctx, "reading revocations from Postgres failed", "error", err)
			} else {
				s.deps.Log.InfoContext(ctx, "reading revocations from Postgres works again")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// keep sets whether the connection is kept between reads.
func (s *Service) keep(kept bool) {
	s.turn <- struct{}{}
	s.kept = kept
	s.endTurn()
}

// endTurn lets the next reader in.
func (s *Service) endTurn() {
	if !s.kept {
		s.giveBack()
	}
	<-s.turn
}

// giveBack returns the connection to its pool, which drops it if it is broken.
func (s *Service) giveBack() {
	if s.conn != nil {
		s.conn.Release()
		s.conn = nil
	}
}

// Load reads all revocations, so that the first request meets an instance that knows
// them. Without Load the workers do the first read.
func (s *Service) Load(ctx context.Context) error { return s.look(ctx, time.Now()) }

// look puts every revocation into force that was committed before asked, unless a
// read that began later did so while this one waited for its turn. It broadcasts the
// entries that this instance is the first to find. If Postgres does not answer, look
// reads Redis instead and still returns the Postgres error.
func (s *Service) look(ctx context.Context, asked time.Time) error {
	select {
	case s.turn <- struct{}{}:
		defer s.endTurn()
	case <-ctx.Done():
		return ctx.Err()
	}
	if time.Duration(s.looked.Load()) > asked.Sub(s.began) {
		return nil
	}
	first := s.horizon == ""
	began, written := time.Since(s.began), s.deps.Clock.Now()
	entries, err := s.readPostgres(ctx)
	if err == nil {
		s.m.looks.WithLabelValues("postgres").Inc()
		if fresh := s.list.add(entries); !first { // after a start nothing is new to the others
			s.tell(ctx, fresh)
		}
		s.seen = written
		s.looked.Store(int64(began))
		return nil
	}
	if first {
		return err // only Postgres has every revocation
	}
	began, written = time.Since(s.began), s.deps.Clock.Now()
	redisErr := s.readRedis(ctx)
	if redisErr != nil {
		s.m.looks.WithLabelValues("nowhere").Inc()
		return fmt.Errorf("%w; reading Redis failed too: %w", err, redisErr)
	}
	s.m.looks.WithLabelValues("redis").Inc()
	s.seen = written
	s.looked.Store(int64(began))
	return err
}

// readPostgres returns the rows that no earlier read returned, and a few that one
// did.
func (s *Service) readPostgres(ctx context.Context) (entries []entry, err error) {
	within, horizon := lookTimeout, s.horizon
	if horizon == "" {
		within, horizon = loadTimeout, "0"
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("revoke: read revocations: %w", err)
			s.giveBack()
		}
	}()
	if s.conn == nil {
		if s.conn, err = s.deps.DB.Acquire(ctx); err != nil {
			return nil, err
		}
	}
	rows, err := revokedb.New(s.conn).RevocationsSince(ctx, horizon)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		switch s.horizon = r.Horizon; {
		case r.LoginID != nil:
			entries = append(entries, entry{login: *r.LoginID, expires: r.ExpiresAt.Unix()})
		case r.UserID != nil:
			entries = append(entries, entry{user: *r.UserID, until: r.IssuedBefore.UnixMicro(), expires: r.ExpiresAt.Unix()})
		}
	}
	return entries, nil
}

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{recentKey}

const (
	// recentKey is the sorted set of recently broadcast revocations.
	recentKey = "rv:recent"
	// redisKeeps is how long an entry stays in the set. An instance that has read no
	// store for longer cannot catch up from Redis.
	redisKeeps = time.Hour
	// overlap covers the error of the clock that sets the start of a Redis read.
	overlap = 10 * time.Second
)

// readRedis puts into force what was written to Redis since the last read.
func (s *Service) readRedis(ctx context.Context) error {
	since := s.seen.Add(-overlap)
	if s.deps.Clock.Now().Sub(since) > redisKeeps {
		return fmt.Errorf("revoke: no store was readable for %s, too long to catch up from Redis", redisKeeps)
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	texts, err := s.deps.Redis.ZRangeArgs(ctx, redis.ZRangeArgs{Key: recentKey, Start: since.UnixMicro(), Stop: "+inf", ByScore: true}).Result()
	if err != nil {
		return fmt.Errorf("revoke: read revocations: %w", err)
	}
	s.hear(ctx, texts)
	return nil
}
