package seckill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stampede/inventory"
	"stampede/platform/alarm"
	"stampede/platform/lease"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
)

const (
	// loadTimeout bounds one Load: its drain waits for the publish deadline and
	// the item's backlog. What takes longer is tried again.
	loadTimeout = 30 * time.Second
	// preheatLeaseTTL keeps other instances away for as long as one Load may
	// take; the lease is released when it is done.
	preheatLeaseTTL = loadTimeout + 5*time.Second
	// A failed Load of an item is tried again after preheatRetryLeast, then after
	// twice as long each time up to preheatRetryMost.
	preheatRetryLeast = time.Second
	preheatRetryMost  = 30 * time.Second
)

// preheatRecord is what this instance remembers of an item.
type preheatRecord struct {
	busy     bool      // waits for its Load on this instance, or is being loaded
	notUntil time.Time // when the next Load may begin, after failures
	looked   time.Time // when a rush last had it looked at
	failures int       // Loads failed in a row
}

// record returns the item's record; p.mu is held.
func (p *preheater) record(id int64) *preheatRecord {
	r := p.items[id]
	if r == nil {
		r = &preheatRecord{}
		p.items[id] = r
	}
	return r
}

// trim forgets the items that the catalogue has forgotten.
func (p *preheater) trim(known map[int64]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, r := range p.items {
		if !known[id] && !r.busy {
			delete(p.items, id)
		}
	}
}

// mayHeal reports whether a rush may have the item looked at again, and notes
// that it did. An item that waits for its Load moves to the front instead.
func (p *preheater) mayHeal(id int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(id)
	if r.busy {
		p.line.hurry(id)
		return false
	}
	if time.Since(r.looked) < healPause {
		return false
	}
	r.looked = time.Now()
	return true
}

// underLease loads the item if that is still needed once this instance alone
// may: another one may have done it between the look and the lease. ErrBusy says
// that another is at it.
func (p *preheater) underLease(ctx context.Context, item *catalogue.Item) error {
	held, ok, err := lease.Acquire(ctx, p.deps.DB, "preheat:"+rowID(item.ID).String(), p.holder, preheatLeaseTTL)
	if err == nil && !ok {
		err = inventory.ErrBusy
	}
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
		defer cancel()
		if err := lease.Release(ctx, p.deps.DB, held); err != nil {
			p.deps.Log.WarnContext(ctx, "preheat lease left to expire", "item_id", item.ID, "error", err)
		}
	}()
	needed, wanted, err := p.needed(ctx, item)
	if err != nil || !needed {
		return err
	}
	return p.load(ctx, item.ID, wanted)
}

// needed reports whether the item has to be loaded, and which request of an
// edit a Load that starts now will answer.
func (p *preheater) needed(ctx context.Context, item *catalogue.Item) (needed bool, wanted int32, err error) {
	ready, err := p.deps.Stock.Ready(ctx, item.Stock())
	if err != nil {
		return false, 0, fmt.Errorf("seckill: look at item %d: %w", item.ID, err)
	}
	row, err := seckilldb.New(p.deps.DB).LoadWanted(ctx, item.ID)
	if err != nil {
		return false, 0, fmt.Errorf("seckill: look for loads owed to item %d: %w", item.ID, err)
	}
	return !ready || row.LoadWanted > row.LoadDone, row.LoadWanted, nil
}

// load has inventory load one item and notes which wish it has answered: an edit
// that came meanwhile has wished again and is owed another Load.
func (p *preheater) load(ctx context.Context, id int64, wanted int32) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	if err := p.deps.Stock.Load(ctx, id); err != nil {
		return fmt.Errorf("seckill: load item %d: %w", id, err)
	}
	if err := seckilldb.New(p.deps.DB).LoadDone(ctx, seckilldb.LoadDoneParams{ID: id, Answered: wanted}); err != nil {
		return fmt.Errorf("seckill: note load of item %d: %w", id, err)
	}
	p.loads.WithLabelValues("done").Inc()
	return nil
}

// loaded forgets the failures of an item that is as it should be, whoever has
// seen to it.
func (p *preheater) loaded(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.items[id]; r != nil {
		r.failures = 0
	}
}

// loadEnded notes how a Load ended: what failed waits longer each time, and asks
// for a person when it has failed often enough. That another instance is at it
// says nothing: there it may fail as it does here.
func (p *preheater) loadEnded(ctx context.Context, id int64, err error) {
	p.mu.Lock()
	r := p.record(id)
	r.busy = false
	switch {
	case ctx.Err() != nil || errors.Is(err, inventory.ErrBusy): // on a stop, whoever goes on loads the item
		p.mu.Unlock()
		return
	case err == nil:
		r.failures = 0
		p.mu.Unlock()
		return
	}
	r.failures++
	failures := r.failures
	r.notUntil = time.Now().Add(min(preheatRetryLeast<<min(failures-1, 10), preheatRetryMost))
	p.mu.Unlock()

	p.loads.WithLabelValues("failed").Inc()
	p.deps.Log.WarnContext(ctx, "item not loaded", "item_id", id, "failures", failures, "error", err)
	if failures < p.alarmAfter {
		return
	}
	raised := alarm.Raise(ctx, p.deps.DB, alarm.PreheatFailed, catalogue.ItemSubject(id), fmt.Sprintf("%d times in a row, at last: %v", failures, err))
	if raised != nil {
		p.deps.Log.WarnContext(ctx, "alarm not raised", "code", string(alarm.PreheatFailed), "item_id", id, "error", raised)
	}
}
