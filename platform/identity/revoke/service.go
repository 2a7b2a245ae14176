package revoke

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/identity/revoke/internal/revokedb"
	"stampede/platform/store/pg"
	"stampede/platform/store/pulse"
)

// Deps are the Service's dependencies.
type Deps struct {
	// DB lends one connection to the poll for as long as the workers run.
	DB      *pgxpool.Pool
	Pulse   *pulse.Pulse // says when something was committed; nil: read twice a second
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Clock is the tokens' clock; it follows the Redis server's.
	Clock clock.Clock
}

// Service keeps and issues revocations. Safe for concurrent use.
type Service struct {
	deps     Deps
	list     *list
	began    time.Time
	lastRead atomic.Int64 // start of the last successful read, since began; 0 before the first

	wake  chan struct{} // holds a value when the poll shall read at once
	mu    sync.Mutex
	asked []chan struct{} // callers of Tell; the next read closes their channels
}

// New returns a Service that knows no revocations yet; see Load.
func New(deps Deps) *Service {
	s := &Service{deps: deps, list: newList(), began: time.Now(), wake: make(chan struct{}, 1)}
	auto := promauto.With(deps.Metrics)
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_auth_revocations", Help: "Revocations in force that this instance keeps in memory.",
	}, func() float64 { return float64(s.list.len()) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_auth_revocations_age_seconds",
		Help: "Seconds since this instance last read new revocations from Postgres, or since its start. It reads after every commit there, so this stays below some seconds.",
	}, func() float64 { return (time.Since(s.began) - time.Duration(s.lastRead.Load())).Seconds() })
	return s
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

// UserEnded reports whether every token of a user that was issued at a time has ended, by the rows: memory may be behind
// another instance, or what the caller's lock waited for.
func (s *Service) UserEnded(ctx context.Context, db pg.DB, user int64, issued time.Time) (bool, error) {
	ended, err := revokedb.New(db).UserRevoked(ctx, revokedb.UserRevokedParams{UserID: user, Issued: issued})
	if err != nil {
		return false, fmt.Errorf("revoke: read a user's revocations: %w", err)
	}
	return ended, nil
}

var errUnread = fault.Plain(fault.Unavailable,
	fault.T("Whether this login is still valid cannot be checked right now. Try again in a moment.",
		"暂时无法确认登录是否有效，请稍后重试。")).After(time.Second)

// Revoked reports whether a principal's token has ended. It costs two lookups in
// memory. Before the first read it returns the fault "unavailable".
func (s *Service) Revoked(_ context.Context, p auth.Principal) (bool, error) {
	if s.lastRead.Load() == 0 {
		return false, errUnread
	}
	return s.list.covers(p, s.deps.Clock.Now), nil
}

// Version changes with each revocation that comes into force on this instance.
func (s *Service) Version() uint64 { return s.list.version.Load() }

// Workers returns the loops that keep the list current.
func (s *Service) Workers() []app.Worker {
	tidy := app.Loop{Every: tidyEvery, Do: s.forget, Log: s.deps.Log, Failed: "deleting expired revocations failed"}
	return []app.Worker{{Name: "revocations", Run: s.poll}, {Name: "revocations-tidy", Run: tidy.Run}}
}

const (
	// tidyEvery is how long an expired entry may stay in memory and in the table.
	tidyEvery = 10 * time.Minute
	// tidyTimeout bounds one run.
	tidyTimeout = 10 * time.Second
	// tidyAtMost bounds one statement's deletes, so that it holds its row locks only
	// briefly; the next run deletes the rest.
	tidyAtMost = 10_000
)

// forget drops expired revocations from memory and from the table. Every instance runs
// it; deleting a row twice is harmless.
func (s *Service) forget(ctx context.Context) error {
	s.list.forget(s.deps.Clock.Now())
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	if err := revokedb.New(s.deps.DB).RemoveExpired(ctx, tidyAtMost); err != nil {
		return fmt.Errorf("revoke: delete expired revocations: %w", err)
	}
	return nil
}
