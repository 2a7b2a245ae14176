package order

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coocood/freecache"
	"github.com/redis/go-redis/v9"

	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/redisx"
)

// replayAge is the age from which an event counts as a repetition, sent again
// because EVENTS lost it, and not as news, which arrives within a second. A
// backlog of that age costs one read of Postgres per event.
const replayAge = 5 * time.Second

// cacheChanged puts an event's orders into the cache. It is the fallback: the
// writer does so right after its commit, and if its process dies in between,
// this does.
func (ls *lookups) cacheChanged(ctx context.Context, m bus.Msg) error {
	if ls.cached.has(ctx, m.ID) {
		return nil
	}
	changed, err := orderevent.Decode(m.Data)
	if err != nil {
		return fmt.Errorf("order: decode %s: %w", m.Subject, err)
	}
	replayed := !m.ID.IsZero() && time.Since(m.ID.Time()) > replayAge
	if m.Attempt > 1 || replayed {
		// Later changes may have been cached in between, and then lost with the cache's
		// memory in a failover: only Postgres knows whether this event is current. An
		// order that Postgres no longer has is not.
		nos := make([]ids.ID, len(changed.Orders))
		for i := range changed.Orders {
			nos[i] = changed.Orders[i].No
		}
		now, err := table.Many(ctx, ls.deps.DB, nos)
		if err != nil {
			return err
		}
		changed.Orders = slices.Collect(maps.Values(now))
	}
	switch {
	case !replayed && (m.Subject == orderevent.SubjectCreated || m.Subject == orderevent.SubjectRefused):
		return ls.cache.putNew(ctx, changed.Orders, visibleByEvent)
	default:
		return ls.cache.put(ctx, changed.Orders)
	}
}

// announcedSeconds is how long the cache may keep an older version: as long as
// the put of a change is attempted, see cacheAttempts.
const announcedSeconds = 3600

// announcedRest is how long pushes go on without the cache after it has failed: a put
// that Redis does not answer takes a second (cacheWrite).
const announcedRest = 10 * time.Second

// announced remembers the newest version of each changed order that shoppers
// may have been told by a push. The cache can be behind it: a put fails while
// Redis is away, and the entry from before is readable again earlier than the
// put is repeated.
type announced struct {
	versions *freecache.Cache
	putAfter atomic.Int64 // Unix time in ns; until then pushes do not wait for the cache
}

// BeforePush is called with changes before some of them are pushed to sockets of this
// instance. Afterwards no poll on this instance answers with an older version, nor does one
// elsewhere with an older version than a pushed one, unless Redis takes no writes: the
// other instances may not have seen the event yet, and read the cache. Safe for concurrent
// use.
func (ls *lookups) BeforePush(ctx context.Context, changed, pushed []orderevent.Order) {
	for i := range changed {
		if o := &changed[i]; o.Version > 1 && ls.cache.announced.allows(o.No, o.Version) {
			var v [4]byte
			binary.LittleEndian.PutUint32(v[:], uint32(o.Version))               //nolint:gosec // versions rise from 1
			_ = ls.cache.announced.versions.Set(o.No[:], v[:], announcedSeconds) // fails only for large entries
		}
	}
	if len(pushed) == 0 || time.Now().UnixNano() < ls.cache.announced.putAfter.Load() {
		return
	}
	if err := ls.cache.put(ctx, pushed); err != nil {
		// The subscription of the cache repeats the put; pushes must not wait for it again.
		ls.cache.announced.putAfter.Store(time.Now().Add(announcedRest).UnixNano())
		ls.deps.Log.WarnContext(ctx, "orders are pushed before the cache has them: polls on other instances may be behind", "orders", len(pushed), "error", err)
	}
}

// allows reports whether a version is at least as new as what was announced.
func (a *announced) allows(no ids.ID, version int32) bool {
	var buf [4]byte
	v, err := a.versions.GetWithBuf(no[:], buf[:])
	return err != nil || len(v) != len(buf) || uint32(version) >= binary.LittleEndian.Uint32(v) //nolint:gosec // as above
}

// takeoversEvery is how soon the cache is emptied after a failover: a change has
// to be visible within a second.
const takeoversEvery = time.Second

// watchTakeovers empties the cache of every Redis server that took over from
// another one or restarted. Its entries may be older than what shoppers have
// already seen: a replica lacks the last changes, as does a log synced every
// second, and the subscription has long acknowledged the events of these changes.
// There is no way to tell which entries are stale, so all are deleted; Postgres
// answers until the cache is filled again.
func (ls *lookups) watchTakeovers(ctx context.Context) error {
	takeovers := redisx.NewTakeovers(ls.deps.Redis, cacheTakeovers)
	return app.Loop{
		Every: takeoversEvery, Log: ls.deps.Log, Failed: "order cache failover check failed",
		Do: func(ctx context.Context) error { return takeovers.Look(ctx, ls.cache.empty) },
	}.Run(ctx)
}

// empty removes every cached order of one server.
func (c *cache) empty(ctx context.Context, server redis.Cmdable) error {
	hashes := server.Scan(ctx, 0, cachePrefix+"*", 1000).Iterator()
	for hashes.Next(ctx) {
		// One by one: in a cluster the hashes lie in different slots, and there are
		// few.
		if err := server.Unlink(ctx, hashes.Val()).Err(); err != nil {
			return fmt.Errorf("order: empty the cache: %w", err)
		}
	}
	if err := hashes.Err(); err != nil {
		return fmt.Errorf("order: empty the cache: %w", err)
	}
	return nil
}

// cachedEvents records which of the writer's events contain orders that this
// process has put into the cache itself, so that their subscription need not
// decode thousands of orders to find each of them there. It may forget some; the
// subscription then decodes them. Safe for concurrent use.
type cachedEvents struct {
	mu   sync.Mutex
	byID map[ids.ID]*cachePut
}

// cachedEventsKept is many seconds' worth of events at some 4,000 orders each, which is
// longer than the relay takes; then it forgets all of them.
const cachedEventsKept = 1024

// cachePut is one put by the writer. ok is set before done closes.
type cachePut struct {
	done chan struct{}
	ok   bool
}

// begin notes that the orders of events are being put; end reports whether that
// succeeded.
func (c *cachedEvents) begin(events []ids.ID) (end func(ok bool)) {
	p := &cachePut{done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil || len(c.byID) >= cachedEventsKept {
		c.byID = make(map[ids.ID]*cachePut)
	}
	for _, id := range events {
		c.byID[id] = p
	}
	return func(ok bool) { p.ok = ok; close(p.done) }
}

// has reports whether this process has put an event's orders into the cache. It
// waits while they are being put.
func (c *cachedEvents) has(ctx context.Context, event ids.ID) bool {
	c.mu.Lock()
	p := c.byID[event]
	c.mu.Unlock()
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return p.ok
	case <-ctx.Done():
		return false
	}
}
