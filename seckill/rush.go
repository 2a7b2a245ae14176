package seckill

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coocood/freecache"
	"golang.org/x/time/rate"

	"stampede/inventory/inventoryevent"
	"stampede/platform/app"
	"stampede/platform/bus"
	"stampede/platform/clock"
)

// rush is the half of the module that hands out paths and takes rushes.
type rush struct {
	cfg       RushConfig
	deps      Deps
	catalogue *Catalogue
	clock     clock.Clock
	keys      *pathKeys
	stock     stock
	lanes     *lanes
	metrics   *rushMetrics
	ratesMu   sync.Mutex // one reading of the admission rates at a time
	strangers *rate.Limiter
	checks    []DoorCheck      // of those who ask for a path
	overLimit func(user int64) // hears of those who ask too often; may be nil
	// shortestPay is the shortest payment window that every provider in use takes.
	shortestPay time.Duration
}

func newRush(cfg Config, deps Deps, catalogue *Catalogue) (*rush, error) {
	ring, err := newPathKeys(append([][]byte{deps.SigningKey}, cfg.Rush.PreviousSigningKeys...)...)
	if err != nil {
		return nil, err
	}
	ls := &lanes{
		cfg: cfg.Rush, catalogue: catalogue, stock: deps.Stock, bus: deps.Bus,
		flags: freecache.NewCache(flagCacheBytes), numbers: newNumbers(cfg.Rush.NumberMemoryBytes), log: deps.Log, trace: deps.Trace,
	}
	if ls.metrics, err = newRushMetrics(deps.Metrics, ls.depths); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return &rush{
		cfg: cfg.Rush, deps: deps, catalogue: catalogue, clock: deps.Clock,
		keys: ring, stock: deps.Stock, lanes: ls, metrics: ls.metrics, strangers: newStrangerLimit(),
		shortestPay: cfg.ShortestPayWindow,
	}, nil
}

// Funnel is how this instance answered rushes for an item since it started, by
// code: "queued" and "repeated" are the 202s, "left" those whose client went
// away in line, everything else the refusals' codes.
func (s *Service) Funnel(itemID int64) map[string]int64 { return s.rush.metrics.funnel(itemID) }

func (r *rush) subscriptions() []bus.Subscription { return nil }

func (r *rush) workers() []app.Worker {
	return []app.Worker{
		{Name: "seckill-lanes", Run: r.keepLanes},
		{Name: "seckill-holds", Run: newSweeper(r.cfg, r.deps, r.catalogue, r.stock, r.lanes.bus, r.metrics).Run},
	}
}

// laneCare is how often lanes are looked after. The lane of an item that is
// gone costs two sleeping goroutines, so there is no hurry.
const laneCare = 2 * time.Second

// keepLanes listens for returned units, ends the lanes of items that are gone,
// and drains all of them when ctx ends. Handlers must be done by then: the
// process stops serving before it stops its workers.
func (r *rush) keepLanes(ctx context.Context) error {
	r.lanes.draining.Store(false)
	for subject, fn := range map[string]func([]byte){
		inventoryevent.SubjectReturned: r.lanes.onReturned,
		inventoryevent.SubjectLoaded:   r.lanes.onLoaded,
		subjectAdmission:               func([]byte) { r.readRates(ctx) },
	} {
		stop, err := r.deps.Bus.OnBroadcast(subject, fn)
		if err != nil {
			return fmt.Errorf("seckill: listen to %s: %w", subject, err)
		}
		defer stop() //nolint:gocritic // three of them, for as long as the lanes
	}
	defer r.lanes.drain()
	tick := time.NewTicker(laneCare)
	defer tick.Stop()
	for {
		r.readRates(ctx)
		r.lanes.endGone(func(item int64) bool {
			it, ok := r.catalogue.Item(item)
			return ok && it.OnSale
		})
		r.metrics.trim(func(item int64) bool { _, ok := r.catalogue.Item(item); return ok })
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
