package reservation

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coocood/freecache"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
	"stampede/platform/base/batch"
	"stampede/platform/base/clock"
	"stampede/platform/base/fault"
	"stampede/platform/base/race"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/humancheck"
	"stampede/platform/store/redisx"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
)

// clockTolerance is how far this process's clock may be off before it refuses
// what Postgres might grant; the same as the rush's default.
const clockTolerance = time.Second

// Items is the catalogue: what is published.
type Items interface {
	Item(id int64) (*catalogue.Item, bool)
}

// Human makes the human check; humancheck.Service is one.
type Human interface {
	Check(ctx context.Context, kind humancheck.Kind, sub humancheck.Subject, solution string) error
}

// Deps are the package's dependencies; all are required.
type Deps struct {
	DB      *pgxpool.Pool // the seckill module's budget of connections
	Locks   *redisx.Locks // by which a user's requests take turns
	Items   Items
	Human   Human
	Clock   clock.Clock // the Redis server's time, by estimate
	Log     *slog.Logger
	Metrics prometheus.Registerer

	PathLead time.Duration // how long before the opening paths are issued; the rush's setting
}

// Service grants and looks up reservations. Safe for concurrent use.
type Service struct {
	deps Deps
	// memory caches final answers; see remember.
	memory *freecache.Cache
	asking batch.Coalescer[question]
	giving batch.Coalescer[wish]

	answers *prometheus.CounterVec
	lookups *prometheus.CounterVec
}

const (
	// batchMost bounds one batch: 512 take Postgres a few milliseconds, and larger
	// batches do not reduce the cost per request further.
	batchMost = 512
	// batchesAtOnce run concurrently: while one waits for Postgres the other is
	// assembled, and a crowd uses no more than these connections of the module,
	// whatever delays it.
	batchesAtOnce = 2
	// waitingMost is well below a second of work.
	waitingMost = 16 * 1024
)

// memoryBytes fits some 100,000 answers: more shoppers than one instance issues
// paths to in a minute. freecache's minimum is 512 KiB.
const memoryBytes = 8 << 20

// New returns the service; it reads nothing yet.
func New(deps Deps) *Service {
	auto := promauto.With(deps.Metrics)
	s := &Service{
		deps: deps, memory: freecache.NewCache(race.Cache(memoryBytes)),
		answers: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_seckill_reservations_total",
			Help: "Requests to reserve an item, by code: reserved, held (already had one), given-up, or the refusal's code.",
		}, []string{"code"}),
		lookups: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_seckill_reservation_lookups_total",
			Help: "Lookups of a user's reservation, by the source of the answer: memory, postgres, nowhere.",
		}, []string{"from"}),
	}
	s.asking = batch.Coalescer[question]{Answer: s.lookUp, MaxBatch: batchMost, Parallel: batchesAtOnce, MaxWaiting: waitingMost}
	s.giving = batch.Coalescer[wish]{Answer: s.give, MaxBatch: batchMost, Parallel: batchesAtOnce, MaxWaiting: waitingMost}
	for _, code := range []string{codeReserved, codeHeld, codeGivenUp} {
		s.answers.WithLabelValues(code) // from the first scrape on, so that the first rate is right
	}
	for _, from := range []string{fromMemory, fromPostgres, fromNowhere} {
		s.lookups.WithLabelValues(from)
	}
	return s
}

// Codes under which successful answers are counted; refusals are counted under
// their own.
const (
	codeReserved = "reserved"
	codeHeld     = "held"
	codeGivenUp  = "given-up"
)

func (s *Service) count(code string, err error) {
	if err != nil {
		code = fault.From(err).Code
	}
	s.answers.WithLabelValues(code).Inc()
}

// Settings are what an operator may set about reservations.
type Settings struct {
	ReservationsPerMinute int `default:"10" env:"STAMPEDE_RESERVATIONS_PER_MINUTE" help:"Requests a minute in which one user may reserve, look up or cancel, over all instances; 0 is no limit." min:"0" max:"1000000" group:"Limits and proxies:" rare:""`
}

// Limit is the rate limit of reserving and of cancelling.
func (s Settings) Limit() httpx.Limit {
	return httpx.Limit{Rule: ratelimit.Rule{Name: "reservation", Count: s.ReservationsPerMinute, Per: time.Minute}, Of: httpx.OfUser}
}

const (
	// forgetEvery is a few times a day: the deleted rows are months old.
	forgetEvery = 6 * time.Hour
	// forgetAtMost bounds what one statement deletes, so that it holds its row locks
	// for some tens of milliseconds and a million rows are split over many
	// transactions.
	forgetAtMost = 10_000
)

// Worker deletes reservations of sessions that ended longer than keep ago. Every
// instance runs it; they share the work, because each skips rows that another is
// deleting.
func (s *Service) Worker(keep time.Duration) app.Worker {
	loop := app.Loop{
		Every: forgetEvery, Log: s.deps.Log, Failed: "deleting old reservations failed",
		Do: func(ctx context.Context) error { return s.forget(ctx, keep, forgetAtMost) },
	}
	return app.Worker{Name: "reservation-housekeeping", Run: loop.Run}
}

// forget makes one round, atMost rows at a time. What it deleted before an
// error or the end of ctx stays deleted.
func (s *Service) forget(ctx context.Context, keep time.Duration, atMost int32) error {
	q := seckilldb.New(s.deps.DB)
	items, err := q.LongReservedItems(ctx, keep.Seconds())
	if err != nil {
		return fmt.Errorf("reservation: find old reservations: %w", err)
	}
	for _, id := range items {
		total := int64(0)
		for {
			gone, err := q.ForgetReservations(ctx, seckilldb.ForgetReservationsParams{ItemID: id, RowLimit: atMost})
			if err != nil {
				return fmt.Errorf("reservation: delete reservations of item %d: %w", id, err)
			}
			if total += gone; gone < int64(atMost) {
				break
			}
		}
		if err := q.ForgetReservationCount(ctx, id); err != nil {
			return fmt.Errorf("reservation: delete reservation count of item %d: %w", id, err)
		}
		s.deps.Log.InfoContext(ctx, "old reservations deleted", "item_id", id, "rows", total)
	}
	return nil
}
