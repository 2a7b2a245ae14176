package preheat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/inventory"
	"stampede/platform/base/clock"
	"stampede/platform/base/fault"
	"stampede/platform/watch/alarm"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
)

const (
	// checkEvery is how soon a lost state is noticed if no rush reports it.
	checkEvery = time.Second
	// checkTimeout bounds one check of the items, so that a hanging server does
	// not keep the worker from stopping.
	checkTimeout = 5 * time.Second
	// healPause is the minimum time between two checks of one item that rushes
	// reported.
	healPause = 200 * time.Millisecond
)

// Deps are the preheat's dependencies; all are required.
type Deps struct {
	DB        *pgxpool.Pool // seckill's
	Stock     *inventory.Service
	Catalogue *catalogue.Catalogue
	Clock     clock.Clock
	Log       *slog.Logger
	Metrics   prometheus.Registerer
}

// Service keeps every item that is due loaded in Redis.
type Service struct {
	deps Deps

	last  atomic.Pointer[look] // nil before the first check
	mu    sync.Mutex
	items map[int64]*record // by item; trimmed to what the catalogue knows
	queue queue

	loads *prometheus.CounterVec
}

// New returns the preheat; Run does its work.
func New(deps Deps) *Service {
	s := &Service{
		deps: deps, items: make(map[int64]*record), queue: queue{parallel: loadsAtOnce},
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_seckill_loads_total", Help: "Loads that the preheat started, by result.",
		}, []string{"result"}),
	}
	deps.Metrics.MustRegister(s.loads)
	return s
}

// Run checks the items until ctx ends, and returns when none of this instance's
// Loads is in progress.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	defer s.queue.workers.Wait() // each Load reports its own error
	for s.check(ctx); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.check(ctx)
		case id := <-s.deps.Catalogue.Fenced():
			s.heal(ctx, id)
		}
	}
}

// check checks every item that is due, starts the Loads that are needed, and
// applies changes to Redis that neither their own request nor their event could.
// The Loads start after all items have been checked, so that the most urgent ones
// go first. An item whose Redis node does not answer is left to a later check and
// does not delay the others.
func (s *Service) check(ctx context.Context) {
	defer s.startLoads(ctx)
	found := new(look)
	defer func() {
		found.at = time.Now()
		s.last.Store(found)
	}()
	now := s.deps.Clock.Now()
	var due []*catalogue.Item
	var dueIDs []int64
	var stock []inventory.Item
	known := make(map[int64]bool)
	for _, item := range s.deps.Catalogue.Items() {
		known[item.ID] = true
		if item.DueInRedis(now) {
			due, dueIDs, stock = append(due, item), append(dueIDs, item.ID), append(stock, item.Stock())
		}
	}
	s.trim(known)
	if len(due) == 0 {
		return
	}
	within, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	owed, err := seckilldb.New(s.deps.DB).LoadsOwed(within, dueIDs)
	if err != nil {
		found.err = fmt.Errorf("seckill: read owed loads: %w", err)
		s.warn(ctx, found.err)
		return // without Postgres nothing can be loaded either
	}
	owing := make(map[int64]int32, len(owed)) // the last request that a Load answered, by item
	for _, row := range owed {
		owing[row.ID] = row.LoadDone
	}
	standings, failed := s.deps.Stock.Health(within, stock)
	found.err = failed
	for i, item := range due {
		switch standings[i] {
		case inventory.Unseen:
			continue // nor could it be loaded
		case inventory.Behind:
			failed = errors.Join(failed, s.deps.Stock.Apply(within, item.ID))
		default:
		}
		answered, owes := owing[item.ID]
		if standings[i].Unready() && !now.Before(item.OpensAt) {
			fenced := alarm.Finding{Subject: inventory.ItemSubject(item.ID), Detail: standings[i].Why()}
			found.fenced = append(found.fenced, fenced)
			if first := owes && answered == 0; !first || s.isSlow(item.ID) {
				found.degraded = append(found.degraded, fenced)
			}
		}
		if standings[i].Unready() || owes {
			s.enqueue(item, false)
		} else {
			s.loaded(item.ID)
		}
	}
	if failed != nil {
		s.warn(ctx, failed)
	}
}

// heal checks an item that a rush found fenced, at most once per healPause, so
// that a thousand fenced rushes cause one check.
func (s *Service) heal(ctx context.Context, id int64) {
	item, ok := s.deps.Catalogue.Item(id)
	if !ok || !item.DueInRedis(s.deps.Clock.Now()) || !s.mayHeal(id) {
		return
	}
	look, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if needed, _, err := s.needed(look, item); err != nil {
		s.warn(ctx, err)
	} else if needed {
		s.enqueue(item, true)
		s.startLoads(ctx)
	}
}

// warn logs a failed check or update, unless the process is stopping.
func (s *Service) warn(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.deps.Log.WarnContext(ctx, "item health check failed", "error", err)
	}
}

var alarmItemFenced = alarm.Define("item-fenced", alarm.Critical,
	fault.T("An item whose sale is open is not loaded. Shoppers are asked to retry.",
		"某商品已到开抢时间但尚未加载，顾客会被要求稍后重试。"),
	fault.T("Check the health of Redis, NATS and Postgres and the log line \"item not loaded\". If the order writer is behind, the item opens when the writer has caught up.",
		"检查 Redis、NATS 和 Postgres 的状态以及日志 \"item not loaded\"。若订单写入滞后，追上后商品会自动开放。"))

const (
	// fencedFor is how long an item on sale may go without decisions before an
	// alarm calls an operator: three times what a Load with busy publishers
	// takes.
	fencedFor = 20 * time.Second
	// fencedEvery is how often the last check is examined.
	fencedEvery = 5 * time.Second
	// lookExpires is the age beyond which the last check says nothing: the slowest
	// one, and a few more seconds.
	lookExpires = checkTimeout + 5*checkEvery
)

// look is what a check found about the items on sale. It is immutable once it is
// Service.last.
type look struct {
	at       time.Time
	fenced   []alarm.Finding // those that Redis does not decide, with the reason
	degraded []alarm.Finding // fenced without those whose first Load has just begun
	err      error           // some could not be checked
}

// FencedProbe finds items whose sale is open but that Redis does not decide,
// whatever the reason: failing Loads have their own alarm, but a Load that waits
// for the order writer does not fail. A Redis that does not answer has its own
// alarm, and hides only the items that it stores.
func (s *Service) FencedProbe() alarm.Probe {
	return alarm.Probe{Alarm: alarmItemFenced, Every: fencedEvery, For: fencedFor, Shared: true, Look: func(context.Context) ([]alarm.Finding, error) {
		if s.last.Load() == nil {
			return nil, nil // at the start, when this process has no finding that could be over
		}
		l := s.lastLook()
		return l.fenced, l.err
	}}
}

// Deciding returns an error if the last check found items on sale that Redis does
// not decide, or could not tell. It reads nothing. An item published while its sale is
// open has fencedFor for its first Load.
func (s *Service) Deciding(context.Context) error {
	l := s.lastLook()
	if len(l.degraded) > 0 {
		return fmt.Errorf("seckill: %d items on sale do not sell, for example %s: %s", len(l.degraded), l.degraded[0].Subject, l.degraded[0].Detail)
	}
	return l.err
}

// lastLook returns what the last check found.
func (s *Service) lastLook() look {
	l := s.last.Load()
	if l == nil {
		return look{err: errors.New("seckill: the items are not checked yet")}
	}
	if age := time.Since(l.at); age > lookExpires {
		return look{err: fmt.Errorf("seckill: the items were checked %s ago", age.Round(time.Second))}
	}
	return *l
}
