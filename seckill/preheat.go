package seckill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/inventory"
	"stampede/platform/ids"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
)

const (
	// preheatEvery is how soon a lost state is noticed when no rush asked for it.
	preheatEvery = time.Second
	// roundTimeout bounds one look over the items, so that a hanging server does
	// not keep the worker from stopping.
	roundTimeout = 5 * time.Second
	// healPause is the least time between two looks at one item that rushes asked
	// for.
	healPause = 200 * time.Millisecond
)

// preheater sees to it that every item that is due is in Redis: from its
// preheat time until it closes, and again whenever Redis or an edit made that
// untrue. Every instance runs one; a lease lets one of them load an item.
type preheater struct {
	deps       Deps
	catalogue  *catalogue.Catalogue
	alarmAfter int
	holder     string

	mu    sync.Mutex
	items map[int64]*preheatRecord // by item; trimmed to what the catalogue knows
	line  loadLine

	loads *prometheus.CounterVec
}

func newPreheater(cfg Config, deps Deps, items *catalogue.Catalogue) *preheater {
	p := &preheater{
		deps: deps, catalogue: items, alarmAfter: cfg.PreheatAlarmAfter, holder: ids.New().String(),
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
	for p.round(ctx); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			p.round(ctx)
		case id := <-p.catalogue.Fenced():
			p.healOne(ctx, id)
		}
	}
}

// round looks at every item that is due, starts the Loads that are needed and
// brings changes into Redis that neither their own request nor their event could.
// The Loads begin when all items have been looked at: then the most urgent ones
// come first. An item whose node of Redis does not answer is left to a later
// round and keeps none of the others waiting.
func (p *preheater) round(ctx context.Context) {
	defer p.work(ctx)
	now := p.deps.Clock.Now()
	var due []*catalogue.Item
	var dueIDs []int64
	var stock []inventory.Item
	known := make(map[int64]bool)
	for _, item := range p.catalogue.Items() {
		known[item.ID] = true
		if item.DueInRedis(now) {
			due, dueIDs, stock = append(due, item), append(dueIDs, item.ID), append(stock, item.Stock())
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
	standings, failed := p.deps.Stock.Look(look, stock)
	for i, item := range due {
		switch standings[i] {
		case inventory.Unseen:
			continue // nor could it be loaded
		case inventory.Behind:
			failed = errors.Join(failed, p.deps.Stock.Apply(look, item.ID))
		default:
		}
		if standings[i].Unready() || slices.Contains(owed, item.ID) {
			p.start(item, false)
		} else {
			p.loaded(item.ID)
		}
	}
	if failed != nil {
		p.complain(ctx, failed)
	}
}

// healOne looks at an item that a rush found fenced, soon after the last look
// at the earliest, so that a thousand fenced rushes are one look.
func (p *preheater) healOne(ctx context.Context, id int64) {
	item, ok := p.catalogue.Item(id)
	if !ok || !item.DueInRedis(p.deps.Clock.Now()) || !p.mayHeal(id) {
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

// complain logs what could not be looked at or brought up to date, unless the
// process stops.
func (p *preheater) complain(ctx context.Context, err error) {
	if ctx.Err() == nil {
		p.deps.Log.WarnContext(ctx, "items not looked at", "error", err)
	}
}
