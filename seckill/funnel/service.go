// Package funnel is what operators watch of a sale: the funnel of an item, a session or an
// activity, the war room, each also as a stream, and the report of a session. It only
// reads: the plan and inventory's books in Postgres and Redis, and what all instances
// counted (platform/watch/tally). These are read one after the other, so that during a
// rush the figures are moments apart; verify proves that they agree.
package funnel

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/platform/base/clock"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/tally"
	"stampede/seckill/catalogue"
)

// Deps are what the funnel reads; all but Standby are required.
type Deps struct {
	DB        *pgxpool.Pool
	Standby   *pg.Standby // reads the curves
	Stock     *inventory.Service
	Catalogue *catalogue.Catalogue
	Clock     clock.Clock
	Log       *slog.Logger
	Zone      *time.Location // the shop's, of times in reports
}

// Service answers the operators. Safe for concurrent use.
type Service struct {
	deps     Deps
	funnels  follows[itemFunnelView]
	rooms    follows[warRoomView]
	stopping chan struct{} // closed by EndStreams
	endOnce  sync.Once
}

// New returns the service; it reads nothing yet.
func New(deps Deps) *Service {
	return &Service{
		deps: deps, stopping: make(chan struct{}),
		funnels: follows[itemFunnelView]{log: deps.Log}, rooms: follows[warRoomView]{log: deps.Log},
	}
}

// Routes registers the operators' routes.
func (s *Service) Routes(api httpx.API) {
	s.funnelRoutes(api)
	s.reportRoute(api)
	s.warRoomRoutes(api)
}

// EndStreams ends what operators follow. A stop calls it before requests drain, which
// would otherwise wait for the streams.
func (s *Service) EndStreams(context.Context) error {
	s.endOnce.Do(func() { close(s.stopping) })
	return nil
}

// books reads where the units of the published items among these are: a draft, or an
// item that is long over, has no live data. With an error it returns what it could read.
func (s *Service) books(ctx context.Context, ids ...int64) (map[int64]inventory.Book, error) {
	published := slices.DeleteFunc(slices.Clone(ids), func(id int64) bool {
		_, ok := s.deps.Catalogue.Item(id)
		return !ok
	})
	if len(published) == 0 {
		return nil, nil
	}
	books, err := s.deps.Stock.BooksOf(ctx, published...)
	if err != nil {
		return books, fmt.Errorf("funnel: read books of %d items: %w", len(published), err)
	}
	return books, nil
}

// points reads a curve, which may be the sum of a million rows.
func (s *Service) points(ctx context.Context, from, until time.Time, step time.Duration, items ...int64) ([]tally.Point, error) {
	return pg.Read(ctx, s.deps.Standby, s.deps.DB, func(ctx context.Context, db pg.DB) ([]tally.Point, error) {
		return tally.Curve(ctx, db, from, until, step, items...)
	})
}

// booksOf renders an item's books.
func booksOf(r *inventory.BookRow) funnelBooks {
	return funnelBooks{
		Unlimited: r.Unlimited, Total: r.Total, Available: r.Available, Held: r.Held, Sold: r.Sold, Backup: r.Backup,
		WrittenOff: r.WrittenOff, Remaining: r.RedisRemaining, InFlight: r.InFlight, ReleasePending: r.ReleasePending, RetakePending: r.RetakePending, Difference: r.Difference,
	}
}
