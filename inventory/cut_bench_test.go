package inventory

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/redistest"
)

// BenchmarkBook measures one read of the books of an item that grants 50,000 units
// a second meanwhile, and by Redis's own clock the longest command of all. Orders
// are in this process's memory, so that Postgres takes no part of the time.
func BenchmarkBook(b *testing.B) {
	const batch, every = 250, 5 * time.Millisecond
	for _, holders := range []int32{20_000, 300_000, 1_500_000} {
		b.Run(strconv.Itoa(int(holders)), func(b *testing.B) {
			u := setup(b)
			rdb := redistest.Start(b, "--slowlog-log-slower-than", "1000", "--slowlog-max-len", "100000").Client // the tests' Redis is small
			u.deps.Redis = rdb
			item := u.soldTo(onSale(1, holders+MaxUnits/4), holders)
			epoch := u.state(item).Epoch
			s := u.Service
			rdb.SlowLogReset(b.Context())
			stop := make(chan struct{})
			done := make(chan error, 1)
			go func() {
				tick := time.NewTicker(every)
				defer tick.Stop()
				attempts, nos := make([]Attempt, batch), make([]ids.ID, batch)
				var d Decision
				for user := int64(1 << 40); ; {
					select {
					case <-stop:
						done <- nil
						return
					case <-tick.C:
					}
					for i := range attempts {
						user++
						attempts[i] = one(user)
						nos[i] = attempts[i].No
					}
					err := s.Reserve(b.Context(), item, epoch, attempts, &d)
					if err == nil {
						err = s.Persisted(b.Context(), item, epoch, nos)
					}
					if err != nil {
						done <- err
						return
					}
				}
			}()
			b.ReportAllocs()
			for b.Loop() {
				if row, _, err := s.Book(b.Context(), item.ID); err != nil || row.Difference != 0 {
					b.Errorf("%+v, %v", row, err)
				}
			}
			close(stop)
			if err := <-done; err != nil {
				b.Error(err)
			}
			var longest redis.SlowLog
			for _, slow := range rdb.SlowLogGet(b.Context(), -1).Val() {
				if slow.Duration > longest.Duration {
					longest = slow
				}
			}
			b.Logf("longest command: %.80s, %s", longest.Args, longest.Duration)
			b.ReportMetric(float64(longest.Duration.Microseconds())/1e3, "ms/longest-command")
		})
	}
}
