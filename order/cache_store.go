package order

import (
	"context"
	_ "embed" // the script is in its own file
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

//go:embed lua/put.lua
var putSource string

var putScript = redis.NewScript(putSource)

const (
	// storeLimit is how many orders one call of put.lua takes: it blocks Redis for
	// about half a millisecond, as a decision does.
	storeLimit = 512
	// callsLimit is how many calls are pipelined together: enough to amortize the
	// round trip, few enough to keep the reply buffer small.
	callsLimit = 64
)

// cachePlace says which hashes an order lies in. Numbers carry the time they
// were minted at, so the orders of a rush share a few hashes, and a hash can
// expire as a whole when all of its orders are old.
type cachePlace struct {
	group  int16 // the bucket modulo cacheGroups
	period int64 // of the number's time
}

const (
	// cacheGroups spreads the orders of one period over the nodes of a cluster.
	// More groups would leave fewer of a transaction's orders per command.
	cacheGroups = 4
	// cachePeriodBits makes a period 2^15 ms, 33 s: longer than it takes to write
	// most of the orders minted together, short enough that Redis frees a hash in
	// a few milliseconds.
	cachePeriodBits = 15
)

func placeOf(no ids.ID) cachePlace {
	return cachePlace{group: no.Bucket() % cacheGroups, period: no.Time().UnixMilli() >> cachePeriodBits}
}

// keys returns the hash of the long-lived orders and that of the short-lived
// ones, both in one slot: "o:{<group>:<period>}:long" and "…:short", from the
// number's 16 bytes to the order; see appendCached.
func (p cachePlace) keys() []string {
	b := make([]byte, 0, len("o:{0:}:short")+20)
	b = strconv.AppendInt(append(b, cachePrefix...), int64(p.group), 10)
	b = strconv.AppendInt(append(b, ':'), p.period, 10)
	base := string(append(b, "}:"...))
	return []string{base + "long", base + "short"}
}

const (
	// cachePrefix begins every key of the cache.
	cachePrefix = "o:{"
	// cacheTakeovers begins the keys that record for which server it was emptied.
	cacheTakeovers = "order-cache:"
)

// RedisKeys are the prefixes of the module's keys.
var RedisKeys = []string{cachePrefix, cacheTakeovers}

// stay is how long an order stays in the cache, and in which hash.
type stay struct {
	long     bool // in the hash of long-lived orders
	lifetime time.Duration
}

// lifeSpread is the part of its lifetime by which one hash may outlive another:
// the orders of a rush are written within seconds and must not all expire within
// as few. An hour or two of a day is spread enough.
const lifeSpread = 10

// lifetime is as.lifetime, and for long-lived orders up to a part of it more.
// The extra is derived from the place, so that a second write to a hash does
// not pick another one. A short-lived order must never stay longer.
func (p cachePlace) lifetime(as stay) time.Duration {
	if !as.long {
		return as.lifetime
	}
	const steps = 64
	spread := as.lifetime / lifeSpread / steps
	// Knuth's multiplier spreads neighbouring places far apart.
	step := uint64(p.period*cacheGroups+int64(p.group)) * 0x9E3779B97F4A7C15 >> 58 //nolint:gosec // any bits will do
	return as.lifetime + time.Duration(step)*spread                                //nolint:gosec // below steps
}

// How put.lua treats an existing entry.
const (
	onlyNew = "new"
	ifNewer = "newer"
)

// stored counts the outcomes: orders stored in the cache, orders for which a
// version as new was there, and orders that there was no memory for.
type stored struct{ stored, kept, noRoom int64 }

// storeCall is one call of put.lua.
type storeCall struct {
	keys []string
	args []any
}

// store runs put.lua for all orders.
func (c *cache) store(ctx context.Context, orders []orderevent.Order, how string, as stay) (sum stored, err error) {
	ctx, cancel := context.WithTimeout(ctx, cacheWrite)
	defer cancel()
	for part := range slices.Chunk(storeCalls(orders, how, as), callsLimit) {
		if err := c.callAll(ctx, part, &sum); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// storeCalls groups orders by their places.
func storeCalls(orders []orderevent.Order, how string, as stay) []storeCall {
	places := make(map[cachePlace][]int, cacheGroups)
	for i := range orders {
		at := placeOf(orders[i].No)
		places[at] = append(places[at], i)
	}
	target := "2"
	if as.long {
		target = "1"
	}
	calls := make([]storeCall, 0, len(places))
	for at, mine := range places {
		keys, seconds := at.keys(), strconv.FormatInt(int64(at.lifetime(as)/time.Second), 10)
		for part := range slices.Chunk(mine, storeLimit) {
			args := make([]any, 0, 4+2*len(part))
			args = append(args, target, seconds, how, len(part))
			calls = append(calls, storeCall{keys, appendOrders(args, orders, part)})
		}
	}
	return calls
}

// appendOrders appends the numbers of some orders and then their entries, all
// sliced from one string, so that a call takes a few allocations and not one per
// order.
func appendOrders(args []any, orders []orderevent.Order, which []int) []any {
	buf := make([]byte, 0, len(which)*cachedBytes)
	ends := make([]int, 0, 2*len(which))
	for _, i := range which {
		buf = append(buf, orders[i].No[:]...)
		ends = append(ends, len(buf))
	}
	for _, i := range which {
		buf = appendCached(buf, &orders[i])
		ends = append(ends, len(buf))
	}
	all, texts := string(buf), make([]string, len(ends))
	start := 0
	for i, end := range ends {
		texts[i], start = all[start:end], end
		args = append(args, &texts[i])
	}
	return args
}

// callAll makes calls in one pipeline, first by the script's hash and, on a
// server that does not have it cached, once more by its source.
func (c *cache) callAll(ctx context.Context, calls []storeCall, sum *stored) error {
	for _, run := range []func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd{putScript.EvalSha, putScript.Eval} {
		var unknown []storeCall
		var failed error
		cmds, _ := c.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the commands carry the errors
			for _, call := range calls {
				run(ctx, pipe, call.keys, call.args...)
			}
			return nil
		})
		for i, cmd := range cmds {
			figures, err := cmd.(*redis.Cmd).Int64Slice() //nolint:errcheck // run made it
			switch {
			case err == nil && len(figures) == 3:
				sum.stored += figures[0]
				sum.kept += figures[1]
				sum.noRoom += figures[2]
			case err == nil:
				failed = fmt.Errorf("put.lua returned %d numbers, want 3", len(figures))
			case redis.HasErrorPrefix(err, "NOSCRIPT"):
				unknown = append(unknown, calls[i])
			default:
				failed = err
			}
		}
		if calls = unknown; len(calls) == 0 || failed != nil {
			return failed
		}
	}
	return errors.New("redis runs put.lua neither by hash nor by source")
}
