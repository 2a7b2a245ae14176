package revoke

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/identity/revoke/internal/revokedb"
)

const (
	// lookEvery is half of what a lost broadcast may cost, so that one look may fail.
	lookEvery = 500 * time.Millisecond
	// lookTimeout bounds a look at Postgres, which takes less than a millisecond on
	// an idle machine. With redisTimeout for each of a read and a write it leaves
	// the next turn before staleAfter.
	lookTimeout  = 300 * time.Millisecond
	redisTimeout = 150 * time.Millisecond
	// loadTimeout bounds the first look, which reads everything.
	loadTimeout = 10 * time.Second
)

// keepLooking takes a look twice a second until ctx ends.
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
				s.deps.Log.WarnContext(ctx, "revocations are not read from Postgres", "error", err)
			} else {
				s.deps.Log.InfoContext(ctx, "revocations are read from Postgres again")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// keep says whether the connection stays with the looks between them.
func (s *Service) keep(kept bool) {
	s.turn <- struct{}{}
	s.kept = kept
	s.endTurn()
}

// endTurn lets the next one look.
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

// Load takes the first look, so that the first request finds an instance that
// knows. Without it the workers do.
func (s *Service) Load(ctx context.Context) error { return s.look(ctx, time.Now()) }

// look puts everything into force that was committed before asked, unless a look
// that began later has done so while this one waited for its turn. It tells what
// nobody had told. Where Postgres does not answer, Redis counts, and the error
// still says what is wrong with Postgres.
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
		if fresh := s.list.add(entries); !first { // a start has no news
			s.tell(ctx, fresh)
		}
		s.seen = written
		s.looked.Store(int64(began))
		return nil
	}
	if first {
		return err // only Postgres has all of them
	}
	began, written = time.Since(s.began), s.deps.Clock.Now()
	redisErr := s.readRedis(ctx)
	if redisErr != nil {
		s.m.looks.WithLabelValues("nowhere").Inc()
		return fmt.Errorf("%w; and from Redis: %w", err, redisErr)
	}
	s.m.looks.WithLabelValues("redis").Inc()
	s.seen = written
	s.looked.Store(int64(began))
	return err
}

// readPostgres returns the rows that no look has shown yet, and a few that have.
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

const (
	// recentKey is the sorted set of what was told lately.
	recentKey = "rv:recent"
	// redisKeeps is how long an entry stays there. An instance that has read no
	// store for as long cannot catch up from Redis.
	redisKeeps = time.Hour
	// overlap bridges the error of the clock by which Redis is asked what is new.
	overlap = 10 * time.Second
)

// readRedis puts into force what was told since the last look.
func (s *Service) readRedis(ctx context.Context) error {
	since := s.seen.Add(-overlap)
	if s.deps.Clock.Now().Sub(since) > redisKeeps {
		return fmt.Errorf("revoke: no store was read for %s", redisKeeps)
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
