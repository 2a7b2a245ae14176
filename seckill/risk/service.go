package risk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/app"
	"stampede/platform/auth"
	"stampede/platform/blacklist"
	"stampede/platform/bus"
	"stampede/platform/clock"
	"stampede/platform/ids"
	"stampede/seckill"
)

// subjectChanged tells every instance to look at the revision.
const subjectChanged = "broadcast.risk.changed"

const (
	// pollEvery is how late an instance that missed the broadcast is.
	pollEvery = 500 * time.Millisecond
	// readTimeout keeps a Postgres that hangs from holding the loop for long.
	readTimeout = 3 * time.Second
)

// Items are what is on sale; *seckill.Catalogue is one.
type Items interface {
	Items() []*seckill.Item
}

// Orders is what is asked about orders; order implements it and main wires it.
type Orders interface {
	// OpenUnpaid returns how many orders wait for payment of each user who has at
	// least so many, of at most so many users, those with the most first.
	OpenUnpaid(ctx context.Context, atLeast, most int) (map[int64]int64, error)
}

// Blacklist says who is kept out; *blacklist.Service is one.
type Blacklist interface {
	Listed(user int64, phone, device string, addr netip.Addr) (blacklist.Entry, bool)
}

// Deps are what the package works with; all but Blacklist and Orders are
// required.
type Deps struct {
	DB        *pgxpool.Pool // the seckill module's
	Redis     redis.UniversalClient
	Bus       *bus.Bus
	Clock     clock.Clock // the Redis server's time, by estimate
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	Items     Items
	Orders    Orders    // nil: rules of the kind open_unpaid hit nobody
	Blacklist Blacklist // nil: nobody is listed
	// SigningKey is the process's key; the lots of chance derive theirs from it.
	SigningKey []byte
}

// Service decides at the door. Safe for concurrent use.
type Service struct {
	cfg       Config
	deps      Deps
	metrics   *metrics
	chanceKey []byte
	holder    string // this process, for the turn of counting

	current  atomic.Pointer[picture]
	reading  sync.Mutex // one reading at a time, so that a later one is newer
	queue    chan decision
	refusals refusals
}

// New returns the service without rules; Refresh or the worker reads them.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.DB == nil || deps.Redis == nil || deps.Bus == nil || deps.Clock == nil || deps.Log == nil || deps.Metrics == nil ||
		deps.Items == nil || len(deps.SigningKey) == 0 {
		return nil, errors.New("risk: every dependency but Orders and Blacklist is required")
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, deps: deps, metrics: m, chanceKey: auth.Derive(deps.SigningKey, "risk-chance"), holder: ids.New().String(),
		queue: make(chan decision, maxQueued), refusals: refusals{pending: map[int64]int64{}},
	}
	s.current.Store(&picture{revision: -1})
	return s, nil
}

// Workers are the package's loops.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{
		{Name: "risk-rules", Run: s.keepFresh},
		{Name: "risk-decisions", Run: s.storeDecisions},
		{Name: "risk-count", Run: s.keepCounting},
	}
}

// keepFresh follows the revision and flushes what this instance has counted.
func (s *Service) keepFresh(ctx context.Context) error {
	kicks, stop, err := s.deps.Bus.Kicks(subjectChanged)
	if err != nil {
		return fmt.Errorf("risk: %w", err)
	}
	defer stop()
	return app.Loop{
		Every: pollEvery, Kick: kicks, Do: s.Refresh, Log: s.deps.Log, Failed: "risk rules not read, the last ones stay in force",
	}.Run(ctx)
}
