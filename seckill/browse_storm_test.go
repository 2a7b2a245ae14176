package seckill

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coocood/freecache"
	"github.com/redis/go-redis/v9"

	"stampede/seckill/internal/seckilltest"
)

// stillClock stands still until it is moved, so that no answer grows old while a
// crowd is served.
type stillClock struct{ at atomic.Pointer[time.Time] }

func newStillClock() *stillClock {
	c := new(stillClock)
	c.at.Store(new(time.Now().UTC()))
	return c
}

func (c *stillClock) Now() time.Time          { return *c.at.Load() }
func (c *stillClock) advance(d time.Duration) { c.at.Store(new(c.Now().Add(d))) }

// stillSeconds is the clock as freecache reads it.
type stillSeconds struct{ *stillClock }

func (c stillSeconds) Now() uint32 { return uint32(c.stillClock.Now().Unix()) } //nolint:gosec // until 2106

// window is a shop window whose questions to Postgres and Redis are counted.
type window struct {
	*desk
	still    *stillClock
	queries  *counter
	commands *lookups
}

// lookups counts the commands that a client sends, without those that open a
// connection; a pipeline counts as one.
type lookups struct{ seckilltest.RedisCalls }

func opensConnection(cmd redis.Cmder) bool {
	return slices.Contains([]string{"hello", "client", "auth", "select"}, cmd.Name())
}

func (l *lookups) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	counted := l.RedisCalls.ProcessHook(next)
	return func(ctx context.Context, cmd redis.Cmder) error {
		if opensConnection(cmd) {
			return next(ctx, cmd)
		}
		return counted(ctx, cmd)
	}
}

func (l *lookups) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	counted := l.RedisCalls.ProcessPipelineHook(next)
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 && opensConnection(cmds[0]) {
			return next(ctx, cmds)
		}
		return counted(ctx, cmds)
	}
}

func newWindow(t *testing.T) *window {
	t.Helper()
	y := newYard(t)
	w := &window{still: newStillClock(), commands: new(lookups)}
	pool, queries := y.counted()
	rdb := redis.NewClient(y.Redis.Options())
	t.Cleanup(func() { _ = rdb.Close() })
	w.queries = queries
	w.desk = y.desk(func(_ *Config, deps *Deps) { deps.DB, deps.Redis, deps.Clock = pool, rdb, w.still })
	rdb.AddHook(w.commands)
	w.svc.browser.cache.kept = freecache.NewCacheCustomTimer(8<<20, stillSeconds{w.still})
	return w
}

// crowd has so many look at the same moment and returns what that asked of
// Postgres and Redis.
func (w *window) crowd(browsers, want int, path func(i int) string) (queries, commands int64) {
	w.T.Helper()
	queries, commands = w.queries.n.Load(), w.commands.N.Load()
	var readers sync.WaitGroup
	for i := range browsers {
		readers.Go(func() {
			if r := w.as("", http.MethodGet, path(i), nil); r.status != want {
				w.T.Errorf("%s: %d %s", path(i), r.status, r.raw)
			}
		})
	}
	readers.Wait()
	return w.queries.n.Load() - queries, w.commands.N.Load() - commands
}

// Penetration: ids that nobody published, those of drafts among them, never get
// as far as Postgres, and each asks Redis once at most.
func TestUnknownIDsNeverReachPostgres(t *testing.T) {
	t.Parallel()
	w := newWindow(t)
	w.publish(time.Hour)
	draft := w.draft(time.Hour)
	const guesses = 200
	for name, c := range map[string]struct {
		path   func(i int) string
		redis  int64 // most commands of the first crowd
		repeat int64 // and of the second
	}{
		"items":               {func(i int) string { return fmt.Sprint("/api/v1/items/", 500_000+i) }, 0, 0},
		"sessions":            {func(i int) string { return fmt.Sprint("/api/v1/sessions/", 500_000+i) }, guesses, 0},
		"the draft's item":    {func(int) string { return "/api/v1/items/" + draft.item }, 0, 0},
		"the draft's session": {func(int) string { return "/api/v1/sessions/" + draft.session }, 1, 0},
		"no ids":              {func(i int) string { return fmt.Sprint("/api/v1/items/x", i) }, 0, 0},
	} {
		queries, commands := w.crowd(guesses, http.StatusNotFound, c.path)
		if queries != 0 || commands > c.redis {
			t.Errorf("%s: %d statements and %d commands, want 0 and at most %d", name, queries, commands, c.redis)
		}
		if queries, commands = w.crowd(guesses, http.StatusNotFound, c.path); queries != 0 || commands > c.repeat {
			t.Errorf("%s once more: %d statements and %d commands", name, queries, commands)
		}
	}
}

// What is remembered of ids that do not exist is bounded: no list of guesses
// makes the process grow.
func TestTheNegativeCacheIsBounded(t *testing.T) {
	t.Parallel()
	const bytes = 512 << 10 // the least that freecache takes
	c := &browseCache{kept: freecache.NewCache(bytes), now: time.Now}
	nothing := func(context.Context) (any, time.Time, error) { return nil, time.Time{}, nil }
	const guesses = 16_000
	for i := range guesses {
		if r, err := c.get(t.Context(), fmt.Sprint("i", i), nothing); err != nil || len(r.raw) != 0 {
			t.Fatal(r, err)
		}
	}
	// An entry takes its header of 24 bytes, the key and the stamp.
	if n := c.kept.EntryCount(); n == 0 || n > bytes/24 || c.kept.EvacuateCount() == 0 {
		t.Errorf("%d of %d guesses are kept in %d bytes", n, guesses, bytes)
	}
}

// Breakdown: the page that everybody looks at is gone from memory, and then from
// Redis, too.
func TestAHotPageIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWindow(t)
	s := w.publish(time.Hour)
	const browsers = 1000
	for path, most := range map[string]int64{
		"/api/v1/sessions/" + s.session: 2, // the view and the stock of its item
		"/api/v1/items/" + s.item:       2,
		"/api/v1/sessions":              3, // the index and the views, in pipelines
	} {
		// The page before this one left only its own views in Redis.
		if err := w.svc.views.ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.forgetBrowse()
		queries, commands := w.crowd(100, http.StatusOK, func(int) string { return path })
		if queries != 0 || commands == 0 || commands > most {
			t.Errorf("%s: %d statements and %d commands, want 0 and at most %d", path, queries, commands, most)
		}
		if queries, commands = w.crowd(10, http.StatusOK, func(int) string { return path }); queries+commands != 0 {
			t.Errorf("%s from memory: %d statements and %d commands", path, queries, commands)
		}
		lose := func() {
			w.forgetBrowse()
			if err := w.Redis.FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		lose()
		before := w.queries.n.Load()
		w.do(http.StatusOK, http.MethodGet, path, nil)
		once := w.queries.n.Load() - before
		lose()
		if queries, _ = w.crowd(browsers, http.StatusOK, func(int) string { return path }); queries == 0 || queries > once {
			t.Errorf("%s lost in Redis: %d statements for %d readers, and %d for one", path, queries, browsers, once)
		}
	}
}

// Avalanche: pages that were made at the same moment do not grow old at the same
// moment.
func TestPagesGrowOldOneByOne(t *testing.T) {
	t.Parallel()
	clock := newStillClock()
	c := &browseCache{kept: freecache.NewCacheCustomTimer(8<<20, stillSeconds{clock}), now: clock.Now}
	const pages = 2000
	made := 0
	look := func() int {
		before := made
		for i := range pages {
			if _, err := c.get(t.Context(), fmt.Sprint("s", i), func(context.Context) (any, time.Time, error) {
				made++
				return map[string]int{"id": i}, time.Time{}, nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		return made - before
	}
	if n := look(); n != pages {
		t.Fatalf("%d pages made, want %d", n, pages)
	}
	clock.advance(browseLeast - time.Millisecond)
	if n := look(); n != 0 {
		t.Errorf("%d pages made again within the least time", n)
	}
	for step, total := 0, 0; step < 10; step++ {
		clock.advance(browseJitter / 10)
		n := look()
		if total += n; n < pages/20 || n > pages/5 {
			t.Errorf("step %d: %d of %d pages grew old at once; a tenth should", step, n, pages)
		}
		if step == 9 && total < pages*9/10 {
			t.Errorf("after the longest time %d of %d pages were made again", total, pages)
		}
	}
}
