package inventory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/inventoryevent"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/store/lease"
)

// ErrBusy means that another instance is loading the item, or has just done so.
var ErrBusy = fault.New(fault.Conflict, "load-busy", fault.T("The item is being loaded already", "商品正在预热，请稍后再试"),
	fault.T("Another instance is loading this item.", "其他实例正在预热该商品。"),
	fault.T("Wait until the item is loaded, then try again.", "请等待商品预热完成后再试。"))

// errLeaseLost ends a Load whose lease expired before it could be renewed.
var errLeaseLost = errors.New("inventory: the lease on the load expired")

// loadStall is for how long a Load may make no progress before it is ended, to be
// started over: longer than any single step, and at least twice the publish
// deadline. A Load that goes on takes the time that it needs.
const loadStall = 30 * time.Second

// errStalled ends a Load that has made no progress for loadStall.
var errStalled = errors.New("inventory: the load makes no progress")

// errKeysLost ends a Load whose keys are not all in the Redis in which it is
// about to open the item: another server has taken over since the fence, or
// another Load freed them.
var errKeysLost = errors.New("inventory: Redis lost keys of the load")

// Load writes an item into Redis from the books in Postgres: preheat, rebuild
// and repair alike. It fences the item, waits until its grants in flight are
// written, counts what is available and who holds the rest, and opens the item
// under a new epoch. It may take seconds, or as long as the order writer is
// behind.
//
// A Load that ends at any point leaves the item fenced or unchanged; the next
// one starts over. ErrBusy says that another instance is loading it; ErrNoStock
// that the item has no stock row.
func (s *Service) Load(ctx context.Context, itemID int64) error {
	return s.LoadWith(ctx, itemID, func(ctx context.Context, load func(context.Context) error) error { return load(ctx) })
}

// LoadWith runs work under the item's lease and passes the Load to it, so that
// no other instance loads the item between work's check whether that is needed,
// the Load, and work's record that it is done. Its errors are Load's and
// work's.
func (s *Service) LoadWith(ctx context.Context, itemID int64, work func(ctx context.Context, load func(context.Context) error) error) error {
	started, loaded := time.Now(), false
	ctx, alive, end := watch(ctx, s.stall)
	defer end()
	err := s.underLease(ctx, itemID, func(ctx context.Context, itemID, token int64) error {
		return work(ctx, func(ctx context.Context) error {
			loaded = true
			return s.load(ctx, itemID, token, alive)
		})
	})
	switch {
	case errors.Is(err, ErrBusy):
		s.metrics.loads.WithLabelValues("busy").Inc()
	case err != nil:
		s.metrics.loads.WithLabelValues("failed").Inc()
	case loaded:
		s.metrics.loads.WithLabelValues("done").Inc()
		s.metrics.loadTime.Observe(time.Since(started).Seconds())
	}
	return err
}

// watch returns a context that ends with errStalled when alive has not been called
// for as long as stall. end frees its timer.
func watch(ctx context.Context, stall time.Duration) (watched context.Context, alive, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(stall, func() { cancel(errStalled) })
	return ctx, func() { timer.Reset(stall) }, func() { timer.Stop(); cancel(nil) }
}

// loadLease is the lease on writing an item into Redis, or removing it there.
func loadLease(itemID int64) string { return "load:" + strconv.FormatInt(itemID, 10) }

// underLease runs work while this instance holds the item's lease, and cancels
// it if the lease cannot be renewed.
func (s *Service) underLease(ctx context.Context, itemID int64, work func(ctx context.Context, itemID, token int64) error) error {
	l, ok, err := lease.Acquire(ctx, s.deps.DB, loadLease(itemID), s.holder, s.cfg.LeaseTTL)
	if err != nil {
		return fmt.Errorf("inventory: load item %d: %w", itemID, err)
	}
	if !ok {
		return fmt.Errorf("inventory: load item %d: %w", itemID, ErrBusy)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		tick := time.NewTicker(s.cfg.LeaseTTL / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if ok, err := lease.Renew(ctx, s.deps.DB, l, s.cfg.LeaseTTL); err != nil || !ok {
					cancel(errors.Join(errLeaseLost, err))
					return
				}
			}
		}
	}()
	err = work(ctx, itemID, l.Token)
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errLeaseLost) || errors.Is(cause, errStalled)) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	cancel(nil)
	<-renewing
	// The next Load should not have to wait for the lease to expire, even if this
	// one ended because its caller did.
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.LeaseTTL)
	defer stop()
	if releaseErr := lease.Release(end, s.deps.DB, l); releaseErr != nil {
		s.deps.Log.WarnContext(ctx, "load lease not released", "item_id", itemID, "error", releaseErr)
	}
	return err
}

// load is one Load under its lease: fence, drain, settle, count, write, apply.
// Wherever it returns, the item is fenced or open, and a Load from the beginning is safe.
func (s *Service) load(ctx context.Context, itemID, token int64, alive func()) error {
	f, err := s.fence(ctx, itemID, token)
	if err != nil {
		return err
	}
	f.alive = alive
	alive()
	if err := s.reached("fenced"); err != nil {
		return err
	}
	if err := s.drain(ctx, itemID, f); err != nil {
		return err
	}
	if err := s.settleHolds(ctx, f); err != nil {
		return err
	}
	if err := s.reached("drained"); err != nil {
		return err
	}
	if err := s.raiseEpoch(ctx, itemID, f.epoch); err != nil {
		return err
	}
	if err := s.reached("counted"); err != nil {
		return err
	}
	writers, err := s.rewrite(ctx, itemID, f)
	if err != nil {
		return err
	}
	if err := s.compare(ctx, itemID, writers); err != nil {
		return err
	}
	if err := s.reached("written"); err != nil {
		return err
	}
	holders := 0
	for _, w := range writers {
		if err := w.open(ctx); err != nil {
			return err
		}
		holders += w.users - 1
	}
	// A change committed after the books were read may have been applied to the
	// replaced state only.
	if err := s.Apply(ctx, itemID); err != nil {
		return err
	}
	s.announce(ctx, inventoryevent.SubjectLoaded, inventoryevent.Loaded{ItemID: itemID, Epoch: f.epoch})
	s.deps.Log.InfoContext(ctx, "item loaded", "item_id", itemID, "epoch", f.epoch, "holders", holders)
	return nil
}

// quiet says for how much a Load may have to wait.
type quiet uint8

const (
	busy    quiet = iota // grants may not have reached the stream yet
	settled              // nothing was granted under this epoch, the last one, and its own Load waited for the ones before
	unused               // never loaded before
)

// fenced is what a Load knows after it has fenced the item.
type fenced struct {
	epoch int64         // the epoch that this Load will write
	items []Item        // the item's shards
	old   map[Key]int64 // each shard's epoch in Redis, 0 without a state
	// run is the run id of each shard's Redis. It is read before the first key of
	// the new epoch is written, so that all of them are in that run.
	run   map[Key]string
	quiet quiet
	since time.Time // when the last grant may have been made, if busy
	alive func()    // says that the Load goes on, see watch
}

// fence stops the item and fixes the epoch that this Load will write: the
// lease's token, or more if needed to exceed every epoch that Redis or Postgres
// has seen, in case one of them was restored from a backup.
func (s *Service) fence(ctx context.Context, itemID, token int64) (fenced, error) {
	rows, err := inventorydb.New(s.deps.DB).StockOfItem(ctx, itemID)
	if err != nil {
		return fenced{}, fmt.Errorf("inventory: read stock of item %d: %w", itemID, err)
	}
	if len(rows) == 0 {
		return fenced{}, fmt.Errorf("inventory: load item %d: %w", itemID, ErrNoStock)
	}
	f := fenced{epoch: token, quiet: unused, old: make(map[Key]int64, len(rows)), run: make(map[Key]string, len(rows))}
	for _, st := range stocksOf(rows) {
		state, found, err := s.State(ctx, st.item())
		if err != nil {
			return fenced{}, err
		}
		f.epoch = max(f.epoch, st.Epoch+1)
		if found {
			f.epoch = max(f.epoch, state.Epoch+1, state.fencedFor+1)
		}
	}
	if err := s.reached("planned"); err != nil {
		return fenced{}, err
	}
	for _, st := range stocksOf(rows) {
		item := st.item()
		r, err := fenceScript.run(ctx, s.deps.Redis, 4, []string{item.stateKey()}, f.epoch)
		if err != nil {
			return fenced{}, err
		}
		switch {
		case r.int(0) == fenceRefused:
			return fenced{}, fmt.Errorf("inventory: load item %d: epoch %d was overtaken by %d: %w", itemID, f.epoch, r.int(1), ErrBusy)
		case r.int(0) == fenceNoState && st.Epoch == 0:
		case r.int(0) == fenceDone && r.int(1) == st.Epoch && r.int(2) == 0 && r.int(3) == 1:
			f.quiet = min(f.quiet, settled)
		default:
			f.quiet = busy
			since := time.Now()
			if change, restarted := runChangeOf(r); restarted {
				since = s.runs.first(change, since)
			}
			if since.After(f.since) {
				f.since = since
			}
		}
		if f.run[st.Key], err = r.text(5); err != nil {
			return fenced{}, err
		}
		f.items, f.old[st.Key] = append(f.items, item), r.int(1)
		if st.Epoch != r.int(1) {
			// A Load that wrote Postgres and then ended left keys that no state will
			// ever name.
			if err := s.deps.Redis.Unlink(ctx, item.epochKeys(st.Epoch)...).Err(); err != nil {
				return fenced{}, fmt.Errorf("inventory: free keys of item %d: %w", itemID, err)
			}
		}
	}
	return f, nil
}

// runChangeOf reads from fence.lua's answer whether the state was loaded into
// another run of Redis than the current one.
func runChangeOf(r reply) (runChange, bool) {
	if r.int(0) != fenceDone || r.int(3) == 1 {
		return runChange{}, false
	}
	from, err := r.text(4)
	to, err2 := r.text(5)
	return runChange{from, to}, err == nil && err2 == nil
}

// The codes of fence.lua.
const (
	fenceDone    = 0
	fenceNoState = 1
	fenceRefused = 2
)

// drain waits until every grant made before the fence is written or refused:
// first those that may still be in publication, then those in the stream.
func (s *Service) drain(ctx context.Context, itemID int64, f fenced) error {
	if f.quiet == unused {
		return nil
	}
	if f.quiet == busy {
		if err := s.awaitPublishers(ctx, itemID, f); err != nil {
			return err
		}
		f.alive()
	}
	return s.awaitWriter(ctx, itemID, f)
}

// awaitWriter waits until the order writer has acknowledged every grant of the
// item that is in the stream now. The Load goes on for as long as the writer does.
func (s *Service) awaitWriter(ctx context.Context, itemID int64, f fenced) error {
	start, err := s.deps.Grants.State(ctx)
	if err != nil {
		return loading(itemID, err)
	}
	var before uint64
	// The pause doubles from 10 ms, a writer's batch, to 250 ms, which is not
	// noticeable in a Load.
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if done, err := s.deps.Grants.Done(ctx, itemID, start.Last); err != nil || done {
			return loading(itemID, err)
		}
		now, err := s.deps.Grants.State(ctx)
		if err != nil {
			return loading(itemID, err)
		}
		if now.Handled() > before {
			f.alive()
		}
		before = now.Handled()
		if err := app.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("inventory: load item %d: wait for the order writer: %w", itemID, err)
		}
	}
}

// loading says of an error which item was being loaded; nil remains nil.
func loading(itemID int64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("inventory: load item %d: %w", itemID, err)
}
