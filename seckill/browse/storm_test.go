package browse

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coocood/freecache"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
)

// stillClock only moves when advance is called, so that no answer expires while
// a crowd is served.
type stillClock struct{ at atomic.Pointer[time.Time] }

func newStillClock() *stillClock {
	c := new(stillClock)
	c.at.Store(new(time.Now().UTC()))
	return c
}

func (c *stillClock) Now() time.Time          { return *c.at.Load() }
func (c *stillClock) advance(d time.Duration) { c.at.Store(new(c.Now().Add(d))) }

// stillSeconds is the same clock in the form that freecache reads.
type stillSeconds struct{ *stillClock }

func (c stillSeconds) Now() uint32 { return uint32(c.stillClock.Now().Unix()) } // until 2106

// storm is a shop window that counts its reads of the plan and its Redis
// commands.
type storm struct {
	*window
	still    *stillClock
	commands *lookups
}

// lookups counts the commands that a client sends, except those that open a
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

func setupStorm(t *testing.T) *storm {
	t.Helper()
	w := &storm{still: newStillClock(), commands: new(lookups)}
	w.window = setup(t, func(deps *Deps) {
		rdb := redis.NewClient(deps.Redis.(*redis.Client).Options())
		t.Cleanup(func() { _ = rdb.Close() })
		rdb.AddHook(w.commands)
		deps.Redis, deps.Clock = rdb, w.still
	})
	w.svc.cache.kept = freecache.NewCacheCustomTimer(8<<20, stillSeconds{w.still})
	return w
}

// crowd sends the requests of so many browsers concurrently and returns how
// many reads of the plan and Redis commands they caused.
func (w *storm) crowd(browsers, want int, path func(i int) string) (plans int, commands int64) {
	w.T.Helper()
	plans, commands = w.plan.reads, w.commands.N.Load()
	var readers sync.WaitGroup
	for i := range browsers {
		readers.Go(func() {
			if r := w.get(path(i)); r.Status != want {
				w.T.Errorf("%s: %d %s", path(i), r.Status, r.Raw)
			}
		})
	}
	readers.Wait()
	return w.plan.reads - plans, w.commands.N.Load() - commands
}

// Penetration: requests for ids that were never published do not reach the
// plan, and each costs at most one Redis command.
func TestUnknownIDsNeverReachPostgres(t *testing.T) {
	t.Parallel()
	w := setupStorm(t)
	w.publish(time.Hour)
	const guesses = 200
	for name, c := range map[string]struct {
		path   func(i int) string
		redis  int64 // most commands of the first crowd
		repeat int64 // and of the second
	}{
		"items":       {func(i int) string { return fmt.Sprint("/api/v1/items/", 500_000+i) }, 0, 0},
		"sessions":    {func(i int) string { return fmt.Sprint("/api/v1/sessions/", 500_000+i) }, guesses, 0},
		"one item":    {func(int) string { return "/api/v1/items/77" }, 0, 0},
		"one session": {func(int) string { return "/api/v1/sessions/77" }, 1, 0},
		"no ids":      {func(i int) string { return fmt.Sprint("/api/v1/items/x", i) }, 0, 0},
	} {
		plans, commands := w.crowd(guesses, http.StatusNotFound, c.path)
		if plans != 0 || commands > c.redis {
			t.Errorf("%s: %d reads of the plan and %d commands, want 0 and at most %d", name, plans, commands, c.redis)
		}
		if plans, commands = w.crowd(guesses, http.StatusNotFound, c.path); plans != 0 || commands > c.repeat {
			t.Errorf("%s once more: %d reads of the plan and %d commands", name, plans, commands)
		}
	}
}

// Breakdown: the most requested page is lost from memory, and then from Redis as
// well.
func TestAHotPageIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := setupStorm(t)
	s := w.publish(time.Hour)
	const browsers = 300
	for path, most := range map[string]int64{
		"/api/v1/sessions/" + s.session: 1, // the view
		"/api/v1/items/" + s.item:       1,
		"/api/v1/sessions":              2, // the index and the views, in pipelines
	} {
		// The request before this one left only its own views in Redis.
		require.NoError(t, w.svc.views.ensure(t.Context()))
		w.forget()
		plans, commands := w.crowd(100, http.StatusOK, func(int) string { return path })
		if plans != 0 || commands == 0 || commands > most {
			t.Errorf("%s: %d reads of the plan and %d commands, want 0 and at most %d", path, plans, commands, most)
		}
		if plans, commands = w.crowd(10, http.StatusOK, func(int) string { return path }); plans != 0 || commands != 0 {
			t.Errorf("%s from memory: %d reads of the plan and %d commands", path, plans, commands)
		}
		w.flush()
		before := w.plan.reads
		w.ok(path)
		once := w.plan.reads - before
		w.flush()
		if plans, _ = w.crowd(browsers, http.StatusOK, func(int) string { return path }); plans == 0 || plans > once {
			t.Errorf("%s lost in Redis: %d reads of the plan for %d readers, and %d for one", path, plans, browsers, once)
		}
	}
}

// Avalanche: pages that were built at the same moment do not expire at the same
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
	require.Equal(t, "pages built", look(), pages)
	clock.advance(browseLeast - time.Millisecond)
	require.Equal(t, "pages rebuilt within the minimum time", look(), 0)
	for step, total := 0, 0; step < 10; step++ {
		clock.advance(browseJitter / 10)
		n := look()
		if total += n; n < pages/20 || n > pages/5 {
			t.Errorf("step %d: %d of %d pages expired together; a tenth should", step, n, pages)
		}
		if step == 9 && total < pages*9/10 {
			t.Errorf("after the maximum time %d of %d pages were rebuilt", total, pages)
		}
	}
}

// TestViewsFollowTheirModel compares put.lua with its model: the view has the
// fields and the expiry of the last put that was not older than the view at
// that time, and nothing of any other.
func TestViewsFollowTheirModel(t *testing.T) {
	t.Parallel()
	rdb := pgtest.Redis(t)
	ctx := t.Context()
	rapid.Check(t, func(rt *rapid.T) {
		const key = "view"
		require.NoError(rt, rdb.Del(ctx, key).Err())
		want, until, rev := map[string]string{}, time.Duration(0), int64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				r := rapid.Int64Range(1, 12).Draw(rt, "revision")
				ends := rapid.Int64Range(1, 100).Draw(rt, "hours")
				at := time.Now().Add(time.Duration(ends) * time.Hour)
				args, fields := []any{r, at.UnixMilli()}, map[string]string{"rev": strconv.FormatInt(r, 10)}
				for range rapid.IntRange(1, 4).Draw(rt, "fields") {
					name := "i:" + strconv.Itoa(rapid.IntRange(1, 5).Draw(rt, "field"))
					value := rapid.StringN(0, 8, 32).Draw(rt, "value")
					args, fields[name] = append(args, name, value), value
				}
				written, err := putScript.Run(ctx, rdb, []string{key}, args...).Int()
				require.NoError(rt, err)
				newer := r >= rev
				if newer {
					want, until, rev = fields, time.Duration(ends)*time.Hour, r
				}
				if (written == 1) != newer {
					rt.Fatalf("revision %d over %d answers %d", r, rev, written)
				}
			},
			"forgotten": func(*rapid.T) {
				rdb.Del(ctx, key)
				want, until, rev = map[string]string{}, 0, 0
			},
			"": func(rt *rapid.T) {
				require.Equal(rt, "view", rdb.HGetAll(ctx, key).Val(), want)
				if left := rdb.PTTL(ctx, key).Val(); rev > 0 && (left > until || left < until-time.Minute) {
					rt.Fatalf("the view is kept for %v, want %v", left, until)
				}
			},
		})
	})
}

// The negative cache is bounded: no list of guessed ids makes the process grow.
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
