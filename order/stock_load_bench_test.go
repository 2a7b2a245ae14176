package order

import (
	"fmt"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
)

// BenchmarkLoad measures inventory's Load of items with many live orders, from
// their rows here: with the item's keys lost, with all of them intact, and with
// a hundredth of the holders lost and as many unknown to Postgres. go_MiB is the
// peak of this process above what it had before, redis_x the peak of Redis
// relative to the loaded item.
func BenchmarkLoad(b *testing.B) {
	for _, live := range []int{300_000, 1_000_000, 3_000_000} {
		b.Run(strconv.Itoa(live), func(b *testing.B) {
			rdb := redistest.Start(b, "--appendfsync", "everysec").Client
			s := setupOn(b, pgtest.DB(b), rdb)
			batch := s.item(int32(live))
			item := inventory.Item{ID: batch.ItemID, ActivityID: batch.ActivityID}
			s.placeMany(batch.ItemID, live)
			empty := redisMemory(b, rdb)
			loaded := 0.0
			for _, c := range []struct {
				name    string
				prepare func()
			}{
				{"lost", func() { rdb.FlushAll(b.Context()) }},
				{"intact", func() { rdb.HSet(b.Context(), itemKey(item, "state"), "run_id", "00") }},
				{"differing", func() {
					epoch := rdb.HGet(b.Context(), itemKey(item, "state"), "epoch").Val()
					users := itemKey(item, epoch+":users")
					if _, err := rdb.Pipelined(b.Context(), func(p redis.Pipeliner) error {
						for user := range live / 100 {
							p.HDel(b.Context(), users, strconv.Itoa(user*100+1))
							p.HSet(b.Context(), users, 1_000_000_000+user, ids.NewFor(int64(user)).String())
						}
						return nil
					}); err != nil {
						b.Fatal(err)
					}
				}},
			} {
				b.Run(c.name, func(b *testing.B) {
					var goPeak, redisPeak float64
					for b.Loop() {
						b.StopTimer()
						if c.name != "lost" && loaded == 0 {
							if err := s.stock.Load(b.Context(), item.ID); err != nil {
								b.Fatal(err)
							}
						}
						c.prepare()
						stop := watchPeaks(b, rdb)
						b.StartTimer()
						if err := s.stock.Load(b.Context(), item.ID); err != nil {
							b.Fatal(err)
						}
						b.StopTimer()
						g, r := stop()
						loaded = redisMemory(b, rdb) - empty
						goPeak, redisPeak = max(goPeak, g), max(redisPeak, (r-empty)/loaded)
						b.StartTimer()
					}
					b.ReportMetric(goPeak/(1<<20), "go_MiB")
					b.ReportMetric(redisPeak, "redis_x")
					b.ReportMetric(loaded/(1<<20), "item_MiB")
				})
			}
		})
	}
}

// itemKey names one of inventory's keys of an item without a rule of its
// activity.
func itemKey(i inventory.Item, what string) string {
	return fmt.Sprintf("{g:i%d:0}:%d:%s", i.ID, i.ID, what)
}

// placeMany writes unpaid orders of users 1 … n and takes their units, without
// the writer.
func (s *bundle) placeMany(item int64, n int) {
	s.t.Helper()
	at, user := time.Now(), int64(0)
	columns := []string{"bucket", "order_no", "user_id", "item_id", "activity_id", "session_id", "epoch", "quantity", "unit_price", "currency", "title", "status", "pay_deadline"}
	rows := pgx.CopyFromFunc(func() ([]any, error) {
		if user == int64(n) {
			return nil, nil
		}
		user++
		no := ids.NewFor(user)
		return []any{no.Bucket(), no, user, item, 100 + item, int64(7), int64(1), int32(1), int64(9900), "CNY", "x", orderevent.StatusPending, at.Add(time.Hour)}, nil
	})
	if _, err := s.db.CopyFrom(s.t.Context(), pgx.Identifier{"orders", "orders"}, columns, rows); err != nil {
		s.t.Fatal(err)
	}
	s.exec(`UPDATE inventory.stock SET available = available - $1 WHERE item_id = $2`, n, item)
	s.exec(`ANALYZE orders.orders`)
}

// watchPeaks samples the memory of this process and of Redis until stop, which
// returns the peaks in bytes: of the process above what it had, of Redis in all.
func watchPeaks(b *testing.B, rdb *redis.Client) (stop func() (process, store float64)) {
	b.Helper()
	debug.FreeOSMemory()
	process := func() float64 {
		sample := []runtimemetrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		runtimemetrics.Read(sample)
		return float64(sample[0].Value.Uint64() - sample[1].Value.Uint64())
	}
	before := process()
	var over atomic.Bool
	peaks := make(chan [2]float64)
	go func() {
		var p [2]float64
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for last := false; !last; <-tick.C {
			last = over.Load()
			p = [2]float64{max(p[0], process()-before), max(p[1], redisMemory(b, rdb))}
		}
		peaks <- p
	}()
	return func() (float64, float64) {
		over.Store(true)
		p := <-peaks
		return p[0], p[1]
	}
}

func redisMemory(b *testing.B, rdb *redis.Client) float64 {
	b.Helper()
	used, err := strconv.ParseFloat(rdb.InfoMap(b.Context(), "memory").Item("Memory", "used_memory"), 64)
	if err != nil {
		b.Error(err)
	}
	return used
}
