package inventory

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/failpoint"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/proof"
)

// The points between the steps of a Load at which a test ends the process.
var (
	loadFenced = failpoint.NewErr("load-fenced",
		"A Load has stopped its item and has not read the books yet.")
	loadCounted = failpoint.NewErr("load-counted",
		"A Load has raised the epoch in Postgres, and Redis does not have the new keys yet.")
	loadWritten = failpoint.NewErr("load-written",
		"A Load has written the keys of the new epoch, and the state that opens the item does not name them yet.")
)

// Bus is what Load and the returns need of platform/store/bus.
type Bus interface {
	Broadcast(subject string, data []byte) error
}

// Holds reads an item's orders in the snapshot that a Load has of them. What may
// be many is passed in chunks, each valid until the function returns; the
// function's error ends the reading and is returned. order implements it.
type Holds interface {
	// Live passes the live orders: one per user.
	Live(ctx context.Context, tx pgx.Tx, itemID int64, each func([]Held) error) error
	// Ended passes the numbers that ended so recently that their paths may still be
	// used.
	Ended(ctx context.Context, tx pgx.Tx, itemID int64, each func([]Tombstone) error) error
	// Closed passes the orders that were closed unpaid, the last one of each user
	// without a live order. It is only called for items that a user may buy only
	// once.
	Closed(ctx context.Context, tx pgx.Tx, itemID int64, each func([]Closed) error) error
}

// Books reads what the orders say about units, for the checks. order implements
// it.
type Books interface {
	// LiveUnits sums the units of live orders per item.
	LiveUnits(ctx context.Context) (map[int64]Units, error)
	// Statuses returns the status of each number that has an order row.
	Statuses(ctx context.Context, nos []ids.ID) (map[ids.ID]string, error)
	// EndedWithin returns those of the orders that were closed, or refunded, that recently, by
	// Postgres's clock.
	EndedWithin(ctx context.Context, nos []ids.ID, within time.Duration) (map[ids.ID]bool, error)
}

// Units are an item's units in live orders.
type Units struct {
	Held int64 // not paid yet
	Sold int64
}

// Grants are the messages under way to the order writer; seckill/queue implements it.
type Grants interface {
	State(ctx context.Context) (bus.QueueState, error)
	// Done reports whether every message of an item up to a sequence is written.
	Done(ctx context.Context, itemID int64, upTo uint64) (bool, error)
	// Republish publishes grants once more whose messages may be lost. It returns when
	// they are stored; an error says that some may not be.
	Republish(ctx context.Context, itemID int64, holds []StaleHold) error
}

// Deps are the module's dependencies.
type Deps struct {
	DB      *pgxpool.Pool // inventory's own connection budget
	Redis   redis.UniversalClient
	Bus     Bus    // nil in a command that neither loads nor settles
	Grants  Grants // as Bus
	Holds   Holds
	Books   Books
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Service is the stock of every item. It is safe for concurrent use.
type Service struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	holder  string // this instance's name on leases
	// epochs remembers the last epoch seen per Item (int64), as the first guess of
	// calls that get none. A wrong guess costs one more call.
	epochs      sync.Map
	grants      sync.Map // what this process was granted, with SingleInstance: item id → *granting
	unasked     granting
	runs        runs
	keepers     keepers
	reconciling sync.Mutex    // one Reconcile at a time: it reads whole items
	compared    sync.Map      // Item → fingerprint of items at rest that a comparison found right
	bookCache   sync.Map      // item id → cachedRow
	writing     chan struct{} // a place for each Load that may keep a connection while it writes
	stall       time.Duration // loadStall; tests shorten it
	// recheck is proof.Recheck; tests shorten it and those below.
	recheck                               time.Duration
	compareTick, compareEvery, differsFor time.Duration
	retakeAgain                           time.Duration
	// failpoint replaces the fail points between the steps of a Load, for tests
	// that end one of several Services in a process.
	failpoint func(step string) error
}

// New returns the service. It starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	s := &Service{
		cfg: cfg, deps: deps, metrics: newMetrics(deps.Metrics), holder: ids.New().String(), recheck: proof.Recheck,
		stall: max(loadStall, 2*cfg.PublishDeadline), writing: make(chan struct{}, max(1, deps.DB.Config().MaxConns/2)),
	}
	s.keepers.alarmAfter, s.keepers.alarmEvery, s.keepers.sooner = failingAfter, failingEvery, make(chan struct{}, 1)
	s.compareTick, s.compareEvery, s.differsFor = compareTick, compareEvery, differsFor+cfg.UnitsReturnWithin
	s.retakeAgain = retakeAgain
	return s, nil
}

// reached is called between two steps of a Load: the next Load has to repair a
// crash at that point.
func (s *Service) reached(step string) error {
	if s.failpoint != nil {
		return s.failpoint(step)
	}
	switch step {
	case "fenced":
		return loadFenced.Err()
	case "counted":
		return loadCounted.Err()
	case "written":
		return loadWritten.Err()
	default: // "planned" and "drained" leave the same state as the step before
		return nil
	}
}
