package order

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

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
	cacheWrite = 2 * time.Second
	// pipelineLimit is how many commands go out at once: enough to forget the
	// round trip, few enough to keep the reply buffer small.
	pipelineLimit = 512
)

// cache is the orders in Redis: "o:{<bucket>}:<number>" → the order as JSON.
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
	metrics *metrics
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
	var o orderevent.Order
	if err := json.Unmarshal(raw, &o); err != nil || o.No != no {
		// Not written by this program; Postgres knows better and put.lua replaces it.
		c.metrics.cacheReads.WithLabelValues("error").Inc()
		return orderevent.Order{}, false, nil
	}
	c.metrics.cacheReads.WithLabelValues("hit").Inc()
	return o, true, nil
}

// putNew stores orders that just came to be. Whatever is there already is as
// new or newer, so it stays.
func (c *cache) putNew(ctx context.Context, orders []orderevent.Order) error {
	ctx, cancel := context.WithTimeout(ctx, cacheWrite)
	defer cancel()
	var failed error
	// One buffer for all: a value stays valid when the buffer moves on. An order
	// takes some 450 bytes.
	buf := make([]byte, 0, min(len(orders), pipelineLimit)*512)
	for start := 0; start < len(orders); start += pipelineLimit {
		end := min(start+pipelineLimit, len(orders))
		buf = buf[:0]                                                      // the pipeline before has sent what it held
		cmds, _ := c.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the commands carry the errors
			for i := start; i < end; i++ {
				from := len(buf)
				buf = orders[i].AppendJSON(buf)
				pipe.SetNX(ctx, cacheKey(orders[i].No), buf[from:len(buf):len(buf)], c.ttl)
			}
			return nil
		})
		for _, cmd := range cmds {
			// Without memory there is no older entry to be misled by either.
			if err := cmd.Err(); err != nil && !outOfMemory(err) {
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
// are there. The writer has normally put them, so it asks before it sends some
// 500 bytes an order a second time.
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
		n, err := cmd.(*redis.IntCmd).Result()
		if err != nil {
			return fmt.Errorf("order: look for orders in the cache: %w", err)
		}
		if n == 0 {
			missing = append(missing, orders[i])
		}
	}
	return c.putNew(ctx, missing)
}

// put stores changed orders where the cache has an older version or none. It
// returns nil when afterwards no reader finds an older version, stored or not.
func (c *cache) put(ctx context.Context, orders []orderevent.Order) error {
	_, err := c.putFor(ctx, orders, c.ttl)
	return err
}

// fill stores what a reader found in Postgres and returns how many orders
// there was no memory for.
func (c *cache) fill(ctx context.Context, orders []orderevent.Order) (noRoom int, err error) {
	return c.putFor(ctx, orders, c.fillTTL)
}

func (c *cache) putFor(ctx context.Context, orders []orderevent.Order, ttl time.Duration) (noRoom int, err error) {
	ctx, cancel := context.WithTimeout(ctx, cacheWrite)
	defer cancel()
	for start := 0; start < len(orders); start += pipelineLimit {
		part := orders[start:min(start+pipelineLimit, len(orders))]
		n, err := c.putPart(ctx, part, ttl)
		noRoom += n
		if err != nil {
			return noRoom, fmt.Errorf("order: cache orders: %w", err)
		}
	}
	return noRoom, nil
}

// putPart runs put.lua for each order in one pipeline, first by the script's
// hash and, on a server that does not know it, once more by its text.
func (c *cache) putPart(ctx context.Context, orders []orderevent.Order, ttl time.Duration) (noRoom int, err error) {
	seconds := int64(ttl / time.Second)
	for _, run := range []func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd{putScript.EvalSha, putScript.Eval} {
		var unknown []orderevent.Order
		cmds, _ := c.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the commands carry the errors
			for i := range orders {
				run(ctx, pipe, []string{cacheKey(orders[i].No)}, orders[i].AppendJSON(nil), orders[i].Version, seconds)
			}
			return nil
		})
		for i, cmd := range cmds {
			outcome, cmdErr := cmd.(*redis.Cmd).Int()
			switch {
			case cmdErr == nil:
				c.metrics.cachePuts.WithLabelValues(putOutcome(outcome)).Inc()
				if outcome == putNoRoom {
					noRoom++
				}
			case redis.HasErrorPrefix(cmdErr, "NOSCRIPT"):
				unknown = append(unknown, orders[i])
			default:
				err = cmdErr
			}
		}
		if orders = unknown; len(orders) == 0 || err != nil {
			return noRoom, err
		}
	}
	return noRoom, errors.New("redis knows put.lua neither by hash nor by text")
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

// sampleLimit bounds how many entries a check looks at; a mistake that the
// program makes would not hide among twenty thousand orders.
const sampleLimit = 20_000

// sample returns cached orders: those of the given numbers, or whichever a scan
// meets first when only is nil. Entries that are no orders are left out.
func (c *cache) sample(ctx context.Context, only []ids.ID) ([]orderevent.Order, error) {
	keys := make([]string, len(only))
	for i, no := range only {
		keys[i] = cacheKey(no)
	}
	if only == nil {
		var err error
		if keys, err = c.scan(ctx); err != nil {
			return nil, err
		}
	}
	var orders []orderevent.Order
	for start := 0; start < len(keys); start += pipelineLimit {
		cmds, err := c.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, key := range keys[start:min(start+pipelineLimit, len(keys))] {
				pipe.Get(ctx, key)
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("order: read cached orders: %w", err)
		}
		for _, cmd := range cmds {
			var o orderevent.Order
			if raw, err := cmd.(*redis.StringCmd).Bytes(); err == nil && json.Unmarshal(raw, &o) == nil {
				orders = append(orders, o)
			}
		}
	}
	return orders, nil
}

// scan lists at most sampleLimit keys of the cache, on every node of a cluster.
func (c *cache) scan(ctx context.Context) ([]string, error) {
	var mu sync.Mutex // a cluster's nodes are scanned at once
	var keys []string
	node := func(ctx context.Context, rdb redis.Cmdable) error {
		it := rdb.Scan(ctx, 0, "o:{*", 1000).Iterator()
		for it.Next(ctx) {
			mu.Lock()
			keys = append(keys, it.Val())
			full := len(keys) >= sampleLimit
			mu.Unlock()
			if full {
				return nil
			}
		}
		return it.Err()
	}
	var err error
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, rdb *redis.Client) error { return node(ctx, rdb) })
	} else {
		err = node(ctx, c.rdb)
	}
	if err != nil {
		return nil, fmt.Errorf("order: scan the cache: %w", err)
	}
	return keys, nil
}
