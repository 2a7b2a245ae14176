package order

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

const (
	// loadSlots is how many read queries run at once: with Redis down, thousands
	// of polls share two connections and the order writer keeps its own.
	loadSlots = 2
	// loadLimit is how many numbers one query reads.
	loadLimit = 256
	// loadTimeout bounds a query that many readers wait for.
	loadTimeout = 5 * time.Second
	// localSeconds is how long the process remembers what it read. freecache
	// counts whole seconds on the clock, so an entry lives 0 to 1 s: never longer
	// than the second in which a change has to become visible.
	localSeconds = 1
)

// loader coalesces the reads of many readers: a reader that finds a slot free
// queries all numbers that wait, its own and the others'. There is no timer and
// no background goroutine; the slower Postgres is, the more numbers share a
// query.
//
// mu guards waiting; a slot is held while a query runs; mu is never held then.
type loader struct {
	query   func(ctx context.Context, nos []ids.ID) (map[ids.ID]orderevent.Order, error)
	slots   chan struct{}
	mu      sync.Mutex
	waiting map[ids.ID]*loading
}

// loading is one number's place in a query; fields are set before done closes.
type loading struct {
	done  chan struct{}
	order orderevent.Order
	found bool
	err   error
}

func newLoader(query func(context.Context, []ids.ID) (map[ids.ID]orderevent.Order, error)) *loader {
	return &loader{query: query, slots: make(chan struct{}, loadSlots), waiting: make(map[ids.ID]*loading)}
}

// load returns the order as Postgres had it after the call began.
func (l *loader) load(ctx context.Context, no ids.ID) (orderevent.Order, bool, error) {
	l.mu.Lock()
	mine := l.waiting[no]
	if mine == nil {
		mine = &loading{done: make(chan struct{})}
		l.waiting[no] = mine
	}
	l.mu.Unlock()
	for {
		select {
		case <-mine.done:
			return mine.order, mine.found, mine.err
		case <-ctx.Done():
			return orderevent.Order{}, false, ctx.Err()
		case l.slots <- struct{}{}:
			l.run(ctx)
			<-l.slots
			// Another reader's run may have included this number, or this run was full:
			// check again.
		}
	}
}

// run queries the numbers that wait now. The caller holds a slot.
func (l *loader) run(ctx context.Context) {
	l.mu.Lock()
	taken := make(map[ids.ID]*loading, min(len(l.waiting), loadLimit))
	nos := make([]ids.ID, 0, min(len(l.waiting), loadLimit))
	for no, w := range l.waiting {
		if len(nos) == loadLimit {
			break
		}
		taken[no] = w
		nos = append(nos, no)
		delete(l.waiting, no) // readers that arrive from now on need a later read
	}
	l.mu.Unlock()
	if len(nos) == 0 {
		return
	}
	// Other readers wait for this query too: it must not end with one reader's
	// request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	orders, err := l.query(ctx, nos)
	for no, w := range taken {
		w.order, w.found = orders[no]
		w.err = err
		close(w.done)
	}
}

// Get returns an order from the cache or Postgres; false when there is none.
// "None" may be up to a second old.
func (s *Service) Get(ctx context.Context, no ids.ID) (orderevent.Order, bool, error) {
	o, ok, err := s.cache.get(ctx, no)
	if err != nil {
		s.deps.Log.DebugContext(ctx, "order cache not readable, reading Postgres", "error", err)
	}
	if ok {
		return o, true, nil
	}
	if o, known, ok := s.recall(no); ok {
		return o, known, nil
	}
	return s.loader.load(ctx, no)
}

// readThrough is the loader's query: it reads many orders, puts them into the
// cache and remembers for a moment those that the cache could not store.
func (s *Service) readThrough(ctx context.Context, nos []ids.ID) (map[ids.ID]orderevent.Order, error) {
	s.metrics.loads.Add(float64(len(nos)))
	found, err := s.readRows(ctx, nos)
	if err != nil {
		return nil, err
	}
	orders := slices.Collect(maps.Values(found))
	noRoom, err := s.fill(ctx, orders)
	if err != nil || noRoom > 0 {
		for i := range orders {
			s.remember(orders[i].No, appendCached(nil, &orders[i]))
		}
	}
	for _, no := range nos {
		if _, ok := found[no]; !ok {
			s.remember(no, nil)
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
func (s *Service) fill(ctx context.Context, orders []orderevent.Order) (noRoom int, err error) {
	if time.Now().UnixNano() < s.fillFrom.Load() {
		return 0, errFillPause
	}
	ctx, cancel := context.WithTimeout(ctx, cacheRead)
	defer cancel()
	if noRoom, err = s.cache.fill(ctx, orders); err != nil {
		s.fillFrom.Store(time.Now().Add(fillPause).UnixNano())
		s.deps.Log.DebugContext(ctx, "order cache not filled", "error", err)
	}
	return noRoom, err
}

// readRows reads orders from Postgres; numbers without a row are left out.
func (s *Service) readRows(ctx context.Context, nos []ids.ID) (map[ids.ID]orderevent.Order, error) {
	rows, err := readMany(ctx, s.deps.DB, nos)
	if err != nil {
		return nil, err
	}
	orders := make(map[ids.ID]orderevent.Order, len(rows))
	for i := range rows {
		orders[rows[i].No] = rows[i]
	}
	return orders, nil
}

// remember keeps an order's cache entry, or the fact that there is none, for
// localSeconds.
func (s *Service) remember(no ids.ID, raw []byte) {
	_ = s.local.Set(no[:], raw, localSeconds) // fails only for entries above 1/1024 of the cache
}

// recall returns what remember kept: the order, whether there is one, and
// whether anything was kept at all.
func (s *Service) recall(no ids.ID) (o orderevent.Order, known, ok bool) {
	raw, err := s.local.Get(no[:])
	if err != nil {
		return orderevent.Order{}, false, false
	}
	if len(raw) == 0 {
		return orderevent.Order{}, false, true
	}
	if o, err = readCached(raw); err != nil || !s.cache.announced.allows(no, o.Version) {
		return orderevent.Order{}, false, false
	}
	return o, true, true
}
