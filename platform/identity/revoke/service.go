package revoke

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/identity/revoke/internal/revokedb"
	"stampede/platform/store/bus"
)

// Bus is the part of the bus that revocations use; *bus.Bus in production.
type Bus interface {
	Broadcast(subject string, data []byte) error
	OnBroadcast(subject string, fn func(data []byte)) (stop func(), err error)
	Healthy(ctx context.Context) error
}

// Deps are the Service's dependencies.
type Deps struct {
	// DB lends one connection to the reads for as long as the workers run.
	DB      *pgxpool.Pool
	Redis   redis.UniversalClient
	Bus     Bus
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Clock is the tokens' clock; it follows the Redis server's.
	Clock clock.Clock
}

// Service keeps and issues revocations. Safe for concurrent use.
type Service struct {
	deps  Deps
	list  *list
	began time.Time

	// turn is held by the running read. It guards the fields below.
	turn    chan struct{}
	conn    *pgxpool.Conn // for reads; nil before the first and after a failed one
	kept    bool          // conn is kept between reads, while the worker runs
	horizon string        // everything below was read from Postgres; empty before the first read
	seen    time.Time     // everything written before it is known, by Clock
	untold  []entry       // not written to Redis yet

	looked atomic.Int64 // start of the last successful read, since began; 0 before the first
	m      metrics
}

// New returns a Service that knows no revocations yet; see Load.
func New(deps Deps) *Service {
	known := newList()
	return &Service{deps: deps, list: known, began: time.Now(), turn: make(chan struct{}, 1), m: newMetrics(deps.Metrics, known)}
}

// grace is how much longer than a token's life its revocation is kept: rows expire
// by the database's clock, which may differ from the tokens'.
const grace = 10 * time.Minute

// Logins ends the access tokens of logins, with rows in tx. Call Tell after the
// commit. why is a word or two for a reader of the table, at most 64 characters.
func (s *Service) Logins(ctx context.Context, tx pgx.Tx, why string, logins ...int64) error {
	if len(logins) == 0 {
		return nil
	}
	err := revokedb.New(tx).RevokeLogins(ctx, revokedb.RevokeLoginsParams{Logins: logins, Why: why, Keep: auth.LongestLoginLife + grace})
	if err != nil {
		return fmt.Errorf("revoke: end logins: %w", err)
	}
	return nil
}

// User ends every access token of a user that was issued until now, with a row in
// tx. Call it late in tx, when every step that could issue another token to the
// wrong person is locked out, and call Tell after the commit.
func (s *Service) User(ctx context.Context, tx pgx.Tx, why string, user int64) error {
	err := revokedb.New(tx).RevokeUser(ctx, revokedb.RevokeUserParams{UserID: user, IssuedBefore: s.deps.Clock.Now(), Why: why, Keep: auth.LongestLife + grace})
	if err != nil {
		return fmt.Errorf("revoke: end a user's tokens: %w", err)
	}
	return nil
}

// staleAfter is how long the last read counts. It implements the promise that a
// revocation is in force within a second. Reads are half a second apart.
const staleAfter = time.Second

var errCutOff = fault.Plain(fault.Unavailable,
	"Whether this login is still valid cannot be checked right now. Try again in a moment.").After(time.Second)

// Revoked reports whether a principal's token has ended. It costs two lookups in
// memory. An instance that is cut off returns the fault "unavailable".
func (s *Service) Revoked(ctx context.Context, p auth.Principal) (bool, error) {
	if s.list.covers(p, s.deps.Clock.Now) {
		return true, nil
	}
	looked := time.Duration(s.looked.Load())
	if looked != 0 && (time.Since(s.began)-looked <= staleAfter || s.connected(ctx)) {
		return false, nil
	}
	s.m.cutOff.Inc()
	return false, errCutOff
}

// connected reports whether broadcasts arrive. A full stream of grants does not
// affect them.
func (s *Service) connected(ctx context.Context) bool {
	err := s.deps.Bus.Healthy(ctx)
	return err == nil || errors.Is(err, bus.ErrFull)
}

// Version changes with each revocation that comes into force on this instance.
func (s *Service) Version() uint64 { return s.list.version.Load() }

// Workers returns the loops that keep the list current.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{
		{Name: "revocations", Run: s.keepLooking},
		{Name: "revocations-heard", Run: s.listen},
		{Name: "revocations-tidy", Run: s.tidy},
	}
}
