package seckill

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/ids"
	"stampede/seckill/internal/seckilldb"
)

const (
	// preheatEvery is how soon a lost state is noticed when no rush asked for it.
	preheatEvery = time.Second
	// roundTimeout bounds one look over the items, so that a hanging server does
	// not keep the worker from stopping.
	roundTimeout = 5 * time.Second
	// repairEvery is how often changes are brought into Redis that their own
	// request and event failed to bring there. Each costs one read per item.
	repairEvery = 10 * time.Second
	// healPause is the least time between two looks at one item that rushes asked
	// for.
	healPause = 200 * time.Millisecond
)

// preheater sees to it that every item that is due is in Redis: from its
// preheat time until it closes, and again whenever Redis or an edit made that
// untrue. Every instance runs one; a lease lets one of them load an item.
type preheater struct {
	deps       Deps
	catalogue  *Catalogue
	alarmAfter int
	holder     string

	mu    sync.Mutex
	items map[int64]*preheatRecord // by item; trimmed to what the catalogue knows
	line  loadLine

	loads *prometheus.CounterVec
}

func newPreheater(cfg Config, deps Deps, catalogue *Catalogue) *preheater {
	p := &preheater{
		deps: deps, catalogue: catalogue, alarmAfter: cfg.PreheatAlarmAfter, holder: ids.New().String(),
		items: make(map[int64]*preheatRecord), line: loadLine{parallel: preheatParallel},
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_seckill_loads_total", Help: "Loads that the preheat started, by how they ended.",
		}, []string{"result"}),
	}
	deps.Metrics.MustRegister(p.loads)
	return p
}

// run looks after the items until ctx ends, and returns when no Load of this
// instance is under way any more.
func (p *preheater) run(ctx context.Context) error {
	tick := time.NewTicker(preheatEvery)
	defer tick.Stop()
	defer p.line.workers.Wait() // each Load reports its own error
	var repaired time.Time
	look := func() {
		p.round(ctx)
		if time.Since(repaired) >= repairEvery {
			repaired = time.Now()
			p.repair(ctx)
		}
	}
	for look(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			look()
		case id := <-p.catalogue.heal:
			p.healOne(ctx, id)
		}
	}
}

// round looks at every item that is due and starts the Loads that are needed.
// The looking is one query and one short script per item, so it is done here,
// item after item, and the Loads begin when all have been looked at: then the
// most urgent ones come first.
func (p *preheater) round(ctx context.Context) {
	defer p.work(ctx)
	now := p.deps.Clock.Now()
	var due []*Item
	var dueIDs []int64
	known := make(map[int64]bool)
	for _, item := range p.catalogue.Items() {
		known[item.ID] = true
		if dueForRedis(item, now) {
			due, dueIDs = append(due, item), append(dueIDs, item.ID)
		}
	}
	p.trim(known)
	if len(due) == 0 {
		return
	}
	look, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	owed, err := seckilldb.New(p.deps.DB).LoadsOwed(look, dueIDs)
	if err != nil {
		p.complain(ctx, fmt.Errorf("seckill: look for owed loads: %w", err))
		return // without Postgres nothing can be loaded either
	}
	for _, item := range due {
		ready, err := p.deps.Stock.Ready(look, item.Stock())
		if err != nil {
			p.complain(ctx, err)
			return // what keeps one from being looked at keeps all
		}
		if !ready || slices.Contains(owed, item.ID) {
			p.start(item, false)
		}
	}
}

// healOne looks at an item that a rush found fenced, soon after the last look
// at the earliest, so that a thousand fenced rushes are one look.
func (p *preheater) healOne(ctx context.Context, id int64) {
	item, ok := p.catalogue.Item(id)
	if !ok || !dueForRedis(item, p.deps.Clock.Now()) || !p.mayHeal(id) {
		return
	}
	look, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	if needed, _, err := p.needed(look, item); err != nil {
		p.complain(ctx, err)
	} else if needed {
		p.start(item, true)
		p.work(ctx)
	}
}

// complain logs what kept this round from looking, unless the process stops.
func (p *preheater) complain(ctx context.Context, err error) {
	if ctx.Err() == nil {
		p.deps.Log.WarnContext(ctx, "items not looked at", "error", err)
	}
}

// dueForRedis reports whether an item has to be decidable in Redis. An item
// that is closed needs no Load: late returns are Postgres's alone.
func dueForRedis(item *Item, now time.Time) bool {
	return item.OnSale && !now.Before(item.PreheatAt) && now.Before(item.ClosesAt)
}

// repair brings committed changes of living items into Redis once more. Only
// newer revisions count there, so it changes nothing where all is well.
func (p *preheater) repair(ctx context.Context) {
	now := p.deps.Clock.Now()
	for _, item := range p.catalogue.Items() {
		if !dueForRedis(item, now) {
			continue
		}
		if err := p.deps.Stock.Apply(ctx, item.ID); err != nil {
			if ctx.Err() == nil {
				p.deps.Log.WarnContext(ctx, "changes not brought into redis", "item_id", item.ID, "error", err)
			}
			return // what keeps one from it keeps all; the next round tries again
		}
	}
}
