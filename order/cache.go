package order

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"stampede/order/orderevent"
	"stampede/platform/ids"
)

//go:embed lua/put.lua
var putSource string

var putScript = redis.NewScript(putSource)

// What put.lua returns.
const (
	putStored = 1
	putKept   = 0
	putNoRoom = -1
)

const (
	// cacheRead bounds the wait for Redis on a shopper's way; beyond it Postgres
	// answers. It is well above any pause of a healthy Redis.
	cacheRead = 500 * time.Millisecond
	// cacheWrite bounds one pipeline of writes; the event subscription repeats
	// what did not get through.
	cacheWrite = time.Second
	// pipelineLimit is how many commands go out at once: enough to forget the
	// round trip, few enough to keep the reply buffer small.
	pipelineLimit = 512
)

// cache is the orders in Redis: "o:{<bucket>}:<number>" → the order; see
// appendCached.
//
// An entry never goes back in time: put.lua compares versions, and a new order
// is set only where there is none. Staleness is bounded in every case:
//
//   - the change reached Redis: at once;
//   - Redis has no memory for it: the old entry is deleted in the same script;
//     a reader that had read Postgres before the change may still put the old
//     version back once there is memory, for FillTTL at most;
//   - Redis cannot be reached: the event subscription repeats the change until
//     it can; an entry that outlives even that ends with CacheTTL.
type cache struct {
	rdb     redis.UniversalClient
	ttl     time.Duration
	fillTTL time.Duration
	room    *rate.Limiter // one token per order that may have the long lifetime
	metrics *metrics
}

func newCache(rdb redis.UniversalClient, cfg Config, m *metrics) *cache {
	// A bucket of half the orders that is filled with the other half during one
	// lifetime lets at most all of them through within any lifetime.
	half := cfg.CacheMaxOrders / 2
	return &cache{
		rdb: rdb, ttl: cfg.CacheTTL, fillTTL: cfg.FillTTL, metrics: m,
		room: rate.NewLimiter(rate.Limit(float64(half)/cfg.CacheTTL.Seconds()), half),
	}
}

// lifetime is how long that many more orders may stay.
func (c *cache) lifetime(orders int) time.Duration {
	if c.room.AllowN(time.Now(), orders) {
		return c.ttl
	}
	return c.fillTTL
}

func cacheKey(no ids.ID) string {
	b := make([]byte, 0, len("o:{1023}:")+32)
	b = append(b, "o:{"...)
	b = strconv.AppendInt(b, int64(no.Bucket()), 10)
	b = append(b, "}:"...)
	b, _ = no.AppendText(b) // hex digits cannot fail
	return string(b)
}

// get returns the cached order; false when there is none.
func (c *cache) get(ctx context.Context, no ids.ID) (orderevent.Order, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, cacheRead)
	defer cancel()
	raw, err := c.rdb.Get(ctx, cacheKey(no)).Bytes()
	if errors.Is(err, redis.Nil) {
		c.metrics.cacheReads.WithLabelValues("miss").Inc()
		return orderevent.Order{}, false, nil
	}
	if err != nil {
		c.metrics.cacheReads.WithLabelValues("error").Inc()
		return orderevent.Order{}, false, fmt.Errorf("order: read cache: %w", err)
	}
	o, err := readCached(raw)
	if err != nil || o.No != no {
		// Not written by this program; Postgres knows better and put.lua replaces it.
		c.metrics.cacheReads.WithLabelValues("error").Inc()
		return orderevent.Order{}, false, nil
	}
	c.metrics.cacheReads.WithLabelValues("hit").Inc()
	return o, true, nil
}

// putNew stores orders that just came to be. Whatever is there already is as
// new or newer, so it stays. by counts those that became readable by it.
func (c *cache) putNew(ctx context.Context, orders []orderevent.Order, by string) error {
	ctx, cancel := context.WithTimeout(ctx, cacheWrite)
	defer cancel()
	var failed error
	// One buffer for all: a value stays valid when the buffer moves on.
	buf := make([]byte, 0, min(len(orders), pipelineLimit)*cachedBytes)
	ttl := c.lifetime(len(orders))
	stored := 0
	defer func() { c.metrics.visible.WithLabelValues(by).Add(float64(stored)) }()
	for start := 0; start < len(orders); start += pipelineLimit {
		end := min(start+pipelineLimit, len(orders))
		buf = buf[:0]                                                      // the pipeline before has sent what it held
		cmds, _ := c.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the commands carry the errors
			for i := start; i < end; i++ {
				from := len(buf)
				buf = appendCached(buf, &orders[i])
				pipe.SetNX(ctx, cacheKey(orders[i].No), buf[from:len(buf):len(buf)], ttl)
			}
			return nil
		})
		for _, cmd := range cmds {
			// Without memory there is no older entry to be misled by either.
			put, err := cmd.(*redis.BoolCmd).Result() //nolint:errcheck // SetNX made it
			if put {
				stored++
			}
			if err != nil && !outOfMemory(err) {
				failed = err
			}
		}
		if failed != nil {
			return fmt.Errorf("order: cache new orders: %w", failed)
		}
	}
	return nil
}

// putMissing stores orders of which this is the first version, unless they
// are there. The writer has normally put them, so it asks before it sends them
// a second time.
func (c *cache) putMissing(ctx context.Context, orders []orderevent.Order) error {
	asking, cancel := context.WithTimeout(ctx, cacheWrite)
	defer cancel()
	cmds, _ := c.rdb.Pipelined(asking, func(pipe redis.Pipeliner) error { // the commands carry the errors
		for i := range orders {
			pipe.Exists(asking, cacheKey(orders[i].No))
		}
		return nil
	})
	var missing []orderevent.Order
	for i, cmd := range cmds {
		n, err := cmd.(*redis.IntCmd).Result() //nolint:errcheck // Exists made it
		if err != nil {
			return fmt.Errorf("order: look for orders in the cache: %w", err)
		}
		if n == 0 {
			missing = append(missing, orders[i])
		}
	}
	return c.putNew(ctx, missing, visibleByEvent)
}

// put stores changed orders where the cache has an older version or none. It
// returns nil when afterwards no reader finds an older version, stored or not.
func (c *cache) put(ctx context.Context, orders []orderevent.Order) error {
	_, _, err := c.putFor(ctx, orders, c.lifetime(len(orders)))
	return err
}

// fill stores what a reader found in Postgres and returns how many orders
// there was no memory for.
func (c *cache) fill(ctx context.Context, orders []orderevent.Order) (noRoom int, err error) {
	stored, noRoom, err := c.putFor(ctx, orders, c.fillTTL)
	c.metrics.visible.WithLabelValues(visibleByReader).Add(float64(stored))
	return noRoom, err
}

func (c *cache) putFor(ctx context.Context, orders []orderevent.Order, ttl time.Duration) (stored, noRoom int, err error) {
	ctx, cancel := context.WithTimeout(ctx, cacheWrite)
	defer cancel()
	for start := 0; start < len(orders); start += pipelineLimit {
		part := orders[start:min(start+pipelineLimit, len(orders))]
		put, none, err := c.putPart(ctx, part, ttl)
		stored, noRoom = stored+put, noRoom+none
		if err != nil {
			return stored, noRoom, fmt.Errorf("order: cache orders: %w", err)
		}
	}
	return stored, noRoom, nil
}

// putPart runs put.lua for each order in one pipeline, first by the script's
// hash and, on a server that does not know it, once more by its text.
func (c *cache) putPart(ctx context.Context, orders []orderevent.Order, ttl time.Duration) (stored, noRoom int, err error) {
	seconds := int64(ttl / time.Second)
	for _, run := range []func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd{putScript.EvalSha, putScript.Eval} {
		var unknown []orderevent.Order
		cmds, _ := c.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the commands carry the errors
			for i := range orders {
				run(ctx, pipe, []string{cacheKey(orders[i].No)}, appendCached(nil, &orders[i]), orders[i].Version, seconds)
			}
			return nil
		})
		for i, cmd := range cmds {
			outcome, cmdErr := cmd.(*redis.Cmd).Int() //nolint:errcheck // run made it
			switch {
			case cmdErr == nil:
				c.metrics.cachePuts.WithLabelValues(putOutcome(outcome)).Inc()
				switch outcome {
				case putStored:
					stored++
				case putNoRoom:
					noRoom++
				}
			case redis.HasErrorPrefix(cmdErr, "NOSCRIPT"):
				unknown = append(unknown, orders[i])
			default:
				err = cmdErr
			}
		}
		if orders = unknown; len(orders) == 0 || err != nil {
			return stored, noRoom, err
		}
	}
	return stored, noRoom, errors.New("redis knows put.lua neither by hash nor by text")
}

func putOutcome(n int) string {
	switch n {
	case putStored:
		return "stored"
	case putKept:
		return "kept"
	default:
		return "no_room"
	}
}

func outOfMemory(err error) bool { return strings.HasPrefix(err.Error(), "OOM ") }
