package reservation_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"stampede/seckill/catalogue"
	"stampede/seckill/rush"
)

// BenchmarkReserve measures reservations on one instance, over its API, by 64
// concurrent shoppers. With a cap they wait for each other's commit at its
// counter.
func BenchmarkReserve(b *testing.B) {
	for _, c := range []struct {
		name string
		plan []plan
	}{{"without cap", nil}, {"with cap", []plan{capped(1000), func(_, _, item map[string]any) { item["stock"] = 10_000 }}}} {
		b.Run(c.name, func(b *testing.B) {
			s := open(b, c.plan...)
			s.window(-time.Hour, 85*time.Second)
			var user atomic.Int64
			b.SetParallelism(32)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if r := s.reserve(user.Add(1)); r.status != http.StatusCreated {
						b.Errorf("%d %s", r.status, r.raw)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reservations/s")
		})
	}
}

// BenchmarkCheck measures what the door's check adds to a path, for 64
// concurrent shoppers out of 100,000.
func BenchmarkCheck(b *testing.B) {
	const users = 100_000
	s := open(b)
	s.sql(`INSERT INTO seckill.reservations (item_id, user_id) SELECT $1, u FROM generate_series(1, $2::bigint) u`, s.item.ID, users)
	s.sql(`ANALYZE seckill.reservations`)
	free := *s.item
	free.ReserveFrom, free.ReserveUntil = time.Time{}, time.Time{}
	run := func(name string, d *desk, item *catalogue.Item) {
		b.Run(name, func(b *testing.B) {
			var next atomic.Int64
			now := s.clock.Now()
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := d.svc.Check(context.Background(), &rush.Applicant{User: next.Add(1)%users + 1, Item: item, Now: now}); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
		})
	}
	run("no reservation required", s.desk, &free)
	run("postgres, still open", s.desk, s.item)
	s.window(-time.Hour, -closed)
	run("postgres first, then memory", s.desk, s.item)
	run("redis first, then memory", s.instance(s.db, s.rdb), s.item)
	run("memory", s.desk, s.item)
}
