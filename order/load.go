package order

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coocood/freecache"

	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/batch"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/race"
)

const (
	// loadsAtOnce is how many read queries run at once: with Redis down, thousands
	// of polls share two connections and the order writer keeps its own.
	loadsAtOnce = 2
	// loadLimit is how many numbers one query reads.
	loadLimit = 256
	// loadReaders is how many readers are answered together, often of fewer orders.
	loadReaders = 1024
	// loadWaiting bounds the readers that wait: about a second of work.
	loadWaiting = 64 * 1024
	// loadTimeout bounds a query that many readers wait for.
	loadTimeout = 5 * time.Second
	// localSeconds is how long the process remembers what it read. freecache
	// counts whole seconds on the clock, so an entry lives 0 to 1 s: never longer
	// than the second in which a change has to become visible.
	localSeconds = 1
)

// errReaders is the answer to a reader beyond loadWaiting.
var errReaders = fault.Plain(fault.Unavailable,
	fault.T("Too many orders are being read right now. Try again in a moment.", "查询订单的请求过多，请稍后重试。")).After(time.Second)

// lookups read single orders: from the cache, from what this process just read, and from
// Postgres, where readers share queries. They also keep the cache. Safe for concurrent use.
type lookups struct {
	core
	local *freecache.Cache
	loads batch.Coalescer[lookup]
	// fillFrom is when readers may fill the cache again, in nanoseconds since
	// 1970.
	fillFrom atomic.Int64
}

func newLookups(c core) *lookups {
	ls := &lookups{core: c, local: freecache.NewCache(race.Cache(c.cfg.CacheBytes))}
	ls.loads = batch.Coalescer[lookup]{Answer: ls.answer, MaxBatch: loadReaders, Parallel: loadsAtOnce, MaxWaiting: loadWaiting}
	return ls
}

// lookup is a reader's wait for an order in Postgres.
type lookup struct {
	no    ids.ID
	order orderevent.Order
	found bool
	err   error
}

// load returns the order as Postgres had it after the call began. Readers that
// come while queries run share the next one: the slower Postgres is, the more
// numbers a query reads.
func (ls *lookups) load(ctx context.Context, no ids.ID) (orderevent.Order, bool, error) {
	l := lookup{no: no}
	err := ls.loads.Ask(ctx, &l)
	if errors.Is(err, batch.ErrBusy) {
		err = errReaders
	}
	if err != nil {
		return orderevent.Order{}, false, err
	}
	return l.order, l.found, l.err
}

// answer reads the orders that readers wait for, each once. Its queries end with
// no reader's request, because others wait for them too.
func (ls *lookups) answer(readers []*lookup) {
	of := make(map[ids.ID][]*lookup, len(readers))
	for _, l := range readers {
		of[l.no] = append(of[l.no], l)
	}
	for nos := range slices.Chunk(slices.Collect(maps.Keys(of)), loadLimit) {
		ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
		orders, err := ls.readThrough(ctx, nos)
		cancel()
		for _, no := range nos {
			for _, l := range of[no] {
				l.order, l.found = orders[no]
				l.err = err
			}
		}
	}
}

// Get returns an order from the cache or Postgres; false when there is none.
// "None" may be up to a second old.
func (ls *lookups) Get(ctx context.Context, no ids.ID) (orderevent.Order, bool, error) {
	o, ok, err := ls.cache.get(ctx, no)
	if err != nil {
		ls.deps.Log.DebugContext(ctx, "order cache not readable, reading Postgres", "error", err)
	}
	if ok {
		return o, true, nil
	}
	if o, known, ok := ls.recall(no); ok {
		return o, known, nil
	}
	return ls.load(ctx, no)
}

// readThrough reads many orders from Postgres, puts them into the
// cache and remembers for a moment those that the cache could not store.
func (ls *lookups) readThrough(ctx context.Context, nos []ids.ID) (map[ids.ID]orderevent.Order, error) {
	ls.metrics.loads.Add(float64(len(nos)))
	found, err := table.Many(ctx, ls.deps.DB, nos)
	if err != nil {
		return nil, err
	}
	orders := slices.Collect(maps.Values(found))
	noRoom, err := ls.fill(ctx, orders)
	if err != nil || noRoom > 0 {
		for i := range orders {
			ls.remember(orders[i].No, appendCached(nil, &orders[i]))
		}
	}
	for _, no := range nos {
		if _, ok := found[no]; !ok {
			ls.remember(no, nil)
		}
	}
	return found, nil
}

// fillPause is how long fills are skipped after the cache failed to accept one:
// while Redis hangs, each attempt would keep hundreds of readers waiting, and
// the process remembers what they read.
const fillPause = time.Second

// errFillPause is the reason for a fill that was not attempted.
var errFillPause = errors.New("order: the cache did not take the last filling")

// fill puts what readers found into the cache. They wait for it, so it has the
// same bound as their read.
func (ls *lookups) fill(ctx context.Context, orders []orderevent.Order) (noRoom int, err error) {
	if time.Now().UnixNano() < ls.fillFrom.Load() {
		return 0, errFillPause
	}
	ctx, cancel := context.WithTimeout(ctx, cacheRead)
	defer cancel()
	if noRoom, err = ls.cache.fill(ctx, orders); err != nil {
		ls.fillFrom.Store(time.Now().Add(fillPause).UnixNano())
		ls.deps.Log.DebugContext(ctx, "order cache not filled", "error", err)
	}
	return noRoom, err
}

// remember keeps an order's cache entry, or the fact that there is none, for
// localSeconds.
func (ls *lookups) remember(no ids.ID, raw []byte) {
	_ = ls.local.Set(no[:], raw, localSeconds) // fails only for entries above 1/1024 of the cache
}

// recall returns what remember kept: the order, whether there is one, and
// whether anything was kept at all.
func (ls *lookups) recall(no ids.ID) (o orderevent.Order, known, ok bool) {
	raw, err := ls.local.Get(no[:])
	if err != nil {
		return orderevent.Order{}, false, false
	}
	if len(raw) == 0 {
		return orderevent.Order{}, false, true
	}
	if o, err = readCached(raw); err != nil || !ls.cache.announced.allows(no, o.Version) {
		return orderevent.Order{}, false, false
	}
	return o, true, true
}
