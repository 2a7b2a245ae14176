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

// Bus is what revocations need of the bus; *bus.Bus in production.
type Bus interface {
	Broadcast(subject string, data []byte) error
	OnBroadcast(subject string, fn func(data []byte)) (stop func(), err error)
	Healthy(ctx context.Context) error
}

// Deps is what the Service is given.
type Deps struct {
	// DB gives up one of its connections to the looks for as long as the workers run.
	DB      *pgxpool.Pool
	Redis   redis.UniversalClient
	Bus     Bus
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Clock is that of the tokens; it follows the Redis server's.
	Clock clock.Clock
}

// Service knows and makes revocations. Safe for concurrent use.
type Service struct {
	deps  Deps
	list  *list
	began time.Time

	// turn is held by whoever looks. It guards the fields below.
	turn    chan struct{}
	conn    *pgxpool.Conn // of the looks; nil until the first and after one failed
	kept    bool          // conn stays between looks, while a worker takes them
	horizon string        // everything below was seen in Postgres; empty before the first look
	seen    time.Time     // what was written before is known, by Clock
	untold  []entry       // what Redis was not told yet

	looked atomic.Int64 // when the last look began that succeeded, since began; 0 before the first
	m      metrics
}

// New returns a Service that knows nothing yet; see Load.
func New(deps Deps) *Service {
	known := newList()
	return &Service{deps: deps, list: known, began: time.Now(), turn: make(chan struct{}, 1), m: newMetrics(deps.Metrics, known)}
}

// grace is how much longer than a token's life its revocation is kept: the
// database's clock, by which rows expire, may differ from the tokens'.
const grace = 10 * time.Minute

// Logins ends the access tokens of logins, with rows in tx. Call Tell after the
// commit. why is a word or two for whoever reads the table, at most 64 characters.
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
// tx. Call it late in tx, when whatever would issue another token to the wrong
// person is locked out, and Tell after the commit.
func (s *Service) User(ctx context.Context, tx pgx.Tx, why string, user int64) error {
	err := revokedb.New(tx).RevokeUser(ctx, revokedb.RevokeUserParams{UserID: user, IssuedBefore: s.deps.Clock.Now(), Why: why, Keep: auth.LongestLife + grace})
	if err != nil {
		return fmt.Errorf("revoke: end a user's tokens: %w", err)
	}
	return nil
}

// staleAfter is how long the last look counts. It is the promise: within a second
// a revocation is in force. Looks are half a second apart.
const staleAfter = time.Second

var errCutOff = fault.Plain(fault.Unavailable,
	"Whether this login is still valid cannot be checked right now. Try again in a moment.").After(time.Second)

// Revoked reports whether a principal's token has ended. It costs two look-ups in
// memory. Its error is the fault "unavailable" of an instance that is cut off.
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

// connected reports whether broadcasts arrive. A full stream of grants says
// nothing against it.
func (s *Service) connected(ctx context.Context) bool {
	err := s.deps.Bus.Healthy(ctx)
	return err == nil || errors.Is(err, bus.ErrFull)
}

// Version is another number after each revocation that came into force here.
func (s *Service) Version() uint64 { return s.list.version.Load() }

// Workers returns the loops that keep the list right.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{
		{Name: "revocations", Run: s.keepLooking},
		{Name: "revocations-heard", Run: s.listen},
		{Name: "revocations-tidy", Run: s.tidy},
	}
}
