// Package load writes an item into Redis from the books: preheat, rebuild and repair. Its steps are in the package
// comment of inventory.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/inventory/decide"
	"stampede/inventory/inventoryevent"
	"stampede/inventory/ledger"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/platform/base/app"
	"stampede/platform/base/failpoint"
	"stampede/platform/store/lease"
)

// Service loads items.
type Service struct {
	*stock.Store
	ledger  *ledger.Service
	decide  *decide.Service
	loads   *prometheus.CounterVec
	took    prometheus.Histogram
	runs    runs
	writing chan struct{} // a place for each Load that may keep a connection while it writes
}

// New returns the service.
func New(store *stock.Store, rows *ledger.Service, decisions *decide.Service) *Service {
	reg := promauto.With(store.Metrics)
	s := &Service{
		Store: store, ledger: rows, decide: decisions,
		writing: make(chan struct{}, max(1, store.DB.Config().MaxConns/2)),
		loads: reg.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_inventory_loads_total", Help: "Loads by outcome.",
		}, []string{"outcome"}),
		took: reg.NewHistogram(prometheus.HistogramOpts{
			Name: "stampede_inventory_load_seconds", Help: "Time of a successful Load, mostly waiting for the queue to drain.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
		}),
	}
	for _, outcome := range []string{"done", "busy", "failed"} {
		s.loads.WithLabelValues(outcome) // now, so that the first rate is right
	}
	return s
}

// points are the steps of a Load after which a test ends the process. The others leave the same state as the step
// before.
var points = map[string]*failpoint.ErrPoint{
	"fenced": failpoint.NewErr("load-fenced",
		"A Load has stopped its item and has not read the books yet."),
	"counted": failpoint.NewErr("load-counted",
		"A Load has raised the epoch in Postgres, and Redis does not have the new keys yet."),
	"written": failpoint.NewErr("load-written",
		"A Load has written the keys of the new epoch, and the state that opens the item does not name them yet."),
}

// reached is called between two steps of a Load: the next Load has to repair a crash at that point.
func (s *Service) reached(step string) error {
	return s.Reached(step, points[step])
}

// ErrStalled ends a Load that has made no progress for as long as it may stall.
var ErrStalled = errors.New("inventory: the load makes no progress")

// ErrKeysLost ends a Load whose keys are not all in the Redis in which it is about to open the item: another server
// has taken over since the fence, or another Load freed them.
var ErrKeysLost = errors.New("inventory: Redis lost keys of the load")

// Load writes an item into Redis from the books in Postgres: preheat, rebuild and repair alike. It fences the item,
// waits until its grants in flight are written, counts what is available and who holds the rest, and opens the item
// under a new epoch. It may take seconds, or as long as the order writer is behind.
//
// A Load that ends at any point leaves the item fenced or unchanged; the next one starts over. ErrBusy says that
// another instance is loading it; ErrNoStock that the item has no stock row.
func (s *Service) Load(ctx context.Context, itemID int64) error {
	return s.LoadWith(ctx, itemID, func(ctx context.Context, load func(context.Context) error) error { return load(ctx) })
}

// LoadWith runs work under the item's lease and passes the Load to it, so that no other instance loads the item
// between work's check whether that is needed, the Load, and work's record that it is done. Its errors are Load's and
// work's.
func (s *Service) LoadWith(ctx context.Context, itemID int64, work func(ctx context.Context, load func(context.Context) error) error) error {
	started, loaded := time.Now(), false
	ctx, alive, end := watch(ctx, s.Stall)
	defer end()
	err := s.UnderLease(ctx, itemID, func(ctx context.Context, token int64) error {
		return work(ctx, func(ctx context.Context) error {
			loaded = true
			return s.load(ctx, itemID, token, alive)
		})
	})
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrStalled) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	switch {
	case errors.Is(err, stock.ErrBusy):
		s.loads.WithLabelValues("busy").Inc()
	case err != nil:
		s.loads.WithLabelValues("failed").Inc()
	case loaded:
		s.loads.WithLabelValues("done").Inc()
		s.took.Observe(time.Since(started).Seconds())
	}
	return err
}

// watch returns a context that ends with ErrStalled when alive has not been called for as long as stall. end frees
// its timer.
func watch(ctx context.Context, stall time.Duration) (watched context.Context, alive, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(stall, func() { cancel(ErrStalled) })
	return ctx, func() { timer.Reset(stall) }, func() { timer.Stop(); cancel(nil) }
}

// UnderLease runs work while this instance holds the item's lease, and cancels it if the lease cannot be renewed.
func (s *Service) UnderLease(ctx context.Context, itemID int64, work func(ctx context.Context, token int64) error) error {
	held, err := lease.Hold(ctx, s.DB, s.Log, stock.LoadLease(itemID), s.Holder, s.LeaseTTL, work)
	if !held {
		return loading(itemID, cmp.Or(err, error(stock.ErrBusy)))
	}
	return err
}

// load is one Load under its lease: fence, drain, settle, count, write, apply. Wherever it returns, the item is fenced
// or open, and a Load from the beginning is safe.
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
	if err := s.raiseEpoch(ctx, itemID, f); err != nil {
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
	// A deletion committed since removed the keys before they were opened.
	if deleted, err := s.ForgetDeleted(ctx, f.items[0]); deleted || err != nil {
		return loading(itemID, cmp.Or(err, error(stock.ErrNoStock)))
	}
	// A change committed after the books were read may have been applied to the replaced state only.
	if err := s.ledger.Apply(ctx, itemID); err != nil {
		return err
	}
	s.Announce(ctx, inventoryevent.SubjectLoaded, inventoryevent.Loaded{ItemID: itemID, Epoch: f.epoch})
	s.Log.InfoContext(ctx, "item loaded", "item_id", itemID, "epoch", f.epoch, "holders", holders)
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
	epoch int64                // the epoch that this Load will write
	items []stock.Item         // the item's shards under that epoch, of which some may be new
	old   map[stock.Item]int64 // each shard's epoch in Redis, 0 without a state
	// run is the run id of each shard's Redis. It is read before the first key of the new epoch is written, so that
	// all of them are in that run.
	run   map[stock.Item]string
	quiet quiet
	since time.Time // when the last grant may have been made, if busy
	alive func()    // says that the Load goes on, see watch
}

// fence stops the item and fixes the epoch that this Load will write: the lease's token, or more if needed to exceed
// every epoch that Redis or Postgres has seen, in case one of them was restored from a backup.
func (s *Service) fence(ctx context.Context, itemID, token int64) (fenced, error) {
	rows, err := stock.OfItem(ctx, s.DB, itemID)
	if err != nil {
		return fenced{}, err
	}
	if len(rows) == 0 {
		return fenced{}, fmt.Errorf("inventory: load item %d: %w", itemID, stock.ErrNoStock)
	}
	f := fenced{epoch: token, quiet: unused, old: make(map[stock.Item]int64, len(rows)), run: make(map[stock.Item]string, len(rows))}
	for shards := s.shardsFor(rows); len(rows) < shards; {
		rows = append(rows, stock.Row{ItemID: itemID, ActivityID: rows[0].ActivityID, Shard: int16(len(rows))}) //nolint:gosec // at most stock.MostShards
	}
	for _, st := range rows {
		state, found, err := s.State(ctx, st.Item())
		if err != nil {
			return fenced{}, err
		}
		f.epoch = max(f.epoch, st.Epoch+1)
		if found {
			f.epoch = max(f.epoch, state.Epoch+1, state.FencedFor+1)
		}
	}
	if err := s.reached("planned"); err != nil {
		return fenced{}, err
	}
	for _, st := range rows {
		item := st.Item()
		r, err := lua.Fence.Call(ctx, s.Redis, 4, []string{item.StateKey()}, f.epoch)
		if err != nil {
			return fenced{}, err
		}
		switch {
		case r.Int(0) == fenceRefused:
			return fenced{}, fmt.Errorf("inventory: load item %d: epoch %d was overtaken by %d: %w", itemID, f.epoch, r.Int(1), stock.ErrBusy)
		case r.Int(0) == fenceNoState && st.Epoch == 0:
		case r.Int(0) == fenceDone && r.Int(1) == st.Epoch && r.Int(2) == 0 && r.Int(3) == 1:
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
		if f.run[item], err = r.Text(5); err != nil {
			return fenced{}, err
		}
		f.items, f.old[item] = append(f.items, item), r.Int(1)
		if st.Epoch != r.Int(1) {
			// A Load that wrote Postgres and then ended left keys that no state will ever name.
			if err := s.Redis.Unlink(ctx, item.EpochKeys(st.Epoch)...).Err(); err != nil {
				return fenced{}, fmt.Errorf("inventory: free keys of item %d: %w", itemID, err)
			}
		}
	}
	return f, nil
}

// runChangeOf reads from fence.lua's answer whether the state was loaded into another run of Redis than the current
// one.
func runChangeOf(r lua.Reply) (runChange, bool) {
	if r.Int(0) != fenceDone || r.Int(3) == 1 {
		return runChange{}, false
	}
	from, err := r.Text(4)
	to, err2 := r.Text(5)
	return runChange{from, to}, err == nil && err2 == nil
}

// The codes of fence.lua.
const (
	fenceDone    = 0
	fenceNoState = 1
	fenceRefused = 2
)

// drain waits until every grant made before the fence is written or refused: first those that may still be in
// publication, then those in the stream.
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

// awaitWriter waits until the order writer has acknowledged every grant of the item that is in the stream now. The
// Load goes on for as long as the writer does.
func (s *Service) awaitWriter(ctx context.Context, itemID int64, f fenced) error {
	start, err := s.Grants.State(ctx)
	if err != nil {
		return loading(itemID, err)
	}
	var before uint64
	// The pause doubles from 10 ms, a writer's batch, to 250 ms, which is not noticeable in a Load.
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if done, err := s.Grants.Done(ctx, itemID, start.Last); err != nil || done {
			return loading(itemID, err)
		}
		now, err := s.Grants.State(ctx)
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
