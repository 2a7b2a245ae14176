package revoke

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/app"
	"stampede/platform/identity/revoke/internal/revokedb"
	"stampede/platform/store/pulse"
)

const (
	// pollEvery is half of the promised second; the rest is for a slow read.
	pollEvery = 500 * time.Millisecond
	// pollTimeout bounds a read of what is new, which takes less than a millisecond
	// on an idle machine: one that takes this long has lost its connection.
	pollTimeout = 2 * time.Second
	// loadTimeout bounds the first read of a connection, which returns every row.
	loadTimeout = 10 * time.Second
	// tellWithin bounds how long Tell blocks its caller.
	tellWithin = time.Second
)

// reader is one connection and what was read on it.
type reader struct {
	conn *pgxpool.Conn // nil before the first read and after a failed one
	// horizon is the oldest transaction that was still running at the last read:
	// everything older was read. Ids and times would not do, because a transaction
	// may commit after one that began later. A new connection starts over, because
	// after a failover the numbers of transactions may continue below the horizon.
	horizon string
}

// close returns the connection to its pool, which drops it if it is broken.
func (r *reader) close() {
	if r.conn != nil {
		r.conn.Release()
		r.conn = nil
	}
}

// Load reads all revocations, so that the first request meets an instance that knows
// them.
func (s *Service) Load(ctx context.Context) error {
	var r reader
	defer r.close()
	return s.read(ctx, &r)
}

// poll reads new revocations when a pulse says that something was committed, twice a second where there is no pulse or
// reading failed, and when Tell asks, until ctx ends.
func (s *Service) poll(ctx context.Context) error {
	var r reader
	defer r.close()
	return app.Loop{
		Every: pollEvery, Kick: s.wake, Due: s.deps.Pulse.Changed("revocations", pulse.Commits),
		Log: s.deps.Log, Failed: "reading revocations failed, answering from memory",
		Do: func(ctx context.Context) error {
			asked := s.takeAsked() // before the read, which therefore sees what they have committed
			defer func() {
				for _, done := range asked {
					close(done)
				}
			}()
			return s.read(ctx, &r)
		},
	}.Run(ctx)
}

// read puts the revocations into force that r has not returned yet, and a few that
// it has.
func (s *Service) read(ctx context.Context, r *reader) (err error) {
	within := pollTimeout
	if r.conn == nil {
		within = loadTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("revoke: read revocations: %w", err)
			r.close()
		}
	}()
	began := time.Since(s.began)
	if r.conn == nil {
		if r.conn, err = s.deps.DB.Acquire(ctx); err != nil {
			return err
		}
		r.horizon = "0"
	}
	rows, err := revokedb.New(r.conn).RevocationsSince(ctx, r.horizon)
	if err != nil {
		return err
	}
	for _, row := range rows {
		r.horizon = row.Horizon
	}
	s.list.add(rows)
	s.lastRead.Store(int64(began))
	return nil
}

// Tell puts committed revocations into force on this instance before it returns,
// unless Postgres does not answer within a second. The other instances, and this one
// if Tell is not called, find them at their next read.
func (s *Service) Tell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellWithin) // the client may have left
	defer cancel()
	done := make(chan struct{})
	s.mu.Lock()
	s.asked = append(s.asked, done)
	s.mu.Unlock()
	app.Kick(s.wake) // a read that has not begun serves this caller too
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// takeAsked returns the callers of Tell who wait for the next read.
func (s *Service) takeAsked() []chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}
