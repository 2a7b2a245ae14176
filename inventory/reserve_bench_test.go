package inventory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// BenchmarkDecision measures decisions under the load of a busy lane: batches of 256 from two concurrent workers, on
// a Redis that syncs. The baseline is one pipelined round trip for each batch that makes Redis store as many marks,
// HSETNX user → number, and deduct them from one counter: the same facts stored and synced, by plain commands. It
// checks no window, epoch, limit or stock, keeps no record of open holds, and can oversell; nothing that decides can
// do less.
func BenchmarkDecision(b *testing.B) {
	const batch, workers = 256, 2
	db, rdb := pgtest.Durable(b)
	u := setupOn(b, db, rdb)
	id, user := int64(0), int64(1<<40)
	for _, side := range []string{"baseline", "ours"} {
		b.Run(side, func(b *testing.B) {
			require.NoError(b, rdb.FlushDB(b.Context()).Err())
			id++
			item, epoch := u.loaded(onSale(id, MaxUnits))
			decide := func(attempts []Attempt, into *Decision) error {
				err := u.Reserve(b.Context(), item, epoch, attempts, into)
				if err == nil && into.Results[batch-1].Verdict != Granted {
					err = fmt.Errorf("the gate is %s", into.Gate)
				}
				return err
			}
			if side == "baseline" {
				decide = func(attempts []Attempt, _ *Decision) error {
					_, err := rdb.Pipelined(b.Context(), func(pipe redis.Pipeliner) error {
						for i := range attempts {
							pipe.HSetNX(b.Context(), "users", strconv.FormatInt(attempts[i].User, 10), attempts[i].No.String())
						}
						pipe.DecrBy(b.Context(), "remaining", batch)
						return nil
					})
					return err
				}
			}
			all := make([][]Attempt, workers*b.N)
			for k := range all {
				all[k] = make([]Attempt, batch)
				for i := range all[k] {
					user++
					all[k][i] = Attempt{User: user, No: ids.NewFor(user), Quantity: 1}
				}
			}
			var next atomic.Int64
			var group sync.WaitGroup
			b.ResetTimer()
			for range workers {
				group.Go(func() {
					var into Decision
					for k := next.Add(1); k <= int64(len(all)); k = next.Add(1) {
						if err := decide(all[k-1], &into); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(len(all)*batch)/b.Elapsed().Seconds(), "decisions/s")
		})
	}
}

// BenchmarkShards sells one item on a Redis Cluster of three masters until nothing is left, to a crowd of twice as many
// shoppers as there are units, who come in one order, some thousands at a time. It reports decisions for a second of all
// masters' processors and of the busiest one's, which is what a sale can reach, and how unfair shards make it: the share
// of the crowd that came between the first who got nothing and the last who got a unit.
func BenchmarkShards(b *testing.B) {
	cluster := redistest.Shards(b, 3)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(strings.TrimPrefix(cluster.URL, "redis-cluster://"), ",")})
	defer func() { require.NoError(b, rdb.Close()) }()
	u := setupOn(b, pgtest.DB(b), nil)
	id := int64(0)
	for _, shards := range []int16{1, 4, 12} {
		b.Run(fmt.Sprint("K=", shards), func(b *testing.B) {
			for range b.N {
				id++
				c := shardedCrowd{b: b, s: u.on(rdb), shards: shards, first: 2 * crowdUnits}
				c.s.store.StockShards = int(shards)
				c.item = u.create(onSale(id, crowdUnits))
				require.NoError(b, c.s.Load(b.Context(), c.item.ID))
				before := usedBy(cluster)
				c.sell()
				all, most := 0.0, 0.0
				for i, spent := range usedBy(cluster) {
					all, most = all+spent-before[i], max(most, spent-before[i])
				}
				b.ReportMetric(2*crowdUnits/all, "decisions/cpu-s")
				b.ReportMetric(2*crowdUnits/most, "decisions/busiest-s")
				b.ReportMetric(float64(max(0, c.last-c.first))/(2*crowdUnits)*100, "%unfair")
			}
		})
	}
}

const (
	crowdUnits = 60_000
	crowdBatch = 256
	crowdWave  = 12 * crowdBatch
)

// usedBy are the seconds of processor that each primary has used.
func usedBy(cluster *redistest.Cluster) (spent []float64) {
	for _, node := range cluster.Primaries {
		cpu := node.Client.InfoMap(context.Background(), "cpu").Val()["CPU"]
		user, _ := strconv.ParseFloat(cpu["used_cpu_user"], 64)
		sys, _ := strconv.ParseFloat(cpu["used_cpu_sys"], 64)
		spent = append(spent, user+sys)
	}
	return spent
}

// shardedCrowd is a crowd in one order at an item.
type shardedCrowd struct {
	b           *testing.B
	s           *Service
	item        Item
	shards      int16
	mu          sync.Mutex
	first, last int // who got nothing, and who got a unit
	sold        int
}

func (c *shardedCrowd) sell() {
	st, _, err := c.s.State(c.b.Context(), c.item)
	require.NoError(c.b, err)
	for wave := 0; wave < 2*crowdUnits; wave += crowdWave {
		lines := make([][]Attempt, c.shards)
		for n := wave; n < min(wave+crowdWave, 2*crowdUnits); n++ {
			a := one(int64(n))
			home := HomeOf(a.No.Bucket(), int(c.shards))
			lines[home] = append(lines[home], a)
		}
		var group sync.WaitGroup
		for shard, line := range lines {
			group.Go(func() {
				for part := range slices.Chunk(line, crowdBatch) {
					c.decide(c.item.Counter(int16(shard)), st.Epoch, part) //nolint:gosec // below MostShards
				}
			})
		}
		group.Wait()
	}
	require.Equal(c.b, "sold", c.sold, crowdUnits)
}

// decide is what a lane does with a batch.
func (c *shardedCrowd) decide(home Item, epoch int64, part []Attempt) {
	for len(part) > 0 {
		var d Decision
		if err := c.s.Reserve(c.b.Context(), home, epoch, part, &d); err != nil || d.Gate != Open {
			c.b.Error(err, d.Gate)
			return
		}
		var short []Attempt
		c.mu.Lock()
		for i, r := range d.Results {
			if r.Verdict == Granted {
				c.sold, c.last = c.sold+1, max(c.last, int(part[i].User))
			} else {
				short = append(short, part[i])
			}
		}
		c.mu.Unlock()
		if part = short; len(part) == 0 {
			return
		}
		w, err := c.s.Borrow(c.b.Context(), home, c.shards, int64(len(part)))
		if err != nil {
			c.b.Error(err)
			return
		}
		if w.Remaining == 0 {
			c.mu.Lock()
			c.first = min(c.first, int(part[0].User))
			c.mu.Unlock()
			return
		}
	}
}
