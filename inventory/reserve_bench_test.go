package inventory

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
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
