package order

import (
	"fmt"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/seckill/seckillevent"
)

// fresh makes n orders of new users.
func (r *rush) fresh(n int) []orderevent.Order {
	at := time.Now().UTC().Truncate(time.Microsecond)
	list := make([]orderevent.Order, n)
	for i := range list {
		r.user++
		g := seckillevent.Grant{No: ids.NewFor(r.user), User: r.user, Quantity: 1, Seq: r.user}
		list[i] = orderOf(r.item, entry{grant: &g}, orderevent.StatusPending, at)
	}
	return list
}

// BenchmarkCacheNew measures what the writer puts into the cache after a
// commit.
func BenchmarkCacheNew(b *testing.B) {
	for _, n := range []int{1, 256, 1024} {
		b.Run(fmt.Sprintf("orders=%d", n), func(b *testing.B) {
			s := setup(b)
			r := rush{item: s.item(1)}
			var orders []orderevent.Order
			b.ReportAllocs()
			perSecond(b, n, func() { orders = r.fresh(n) }, func() {
				if err := s.cache.putNew(b.Context(), orders, visibleByWriter); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkCacheChange measures a later change of orders that are in the cache.
func BenchmarkCacheChange(b *testing.B) {
	s := setup(b)
	r := rush{item: s.item(1)}
	orders := r.fresh(256)
	b.ReportAllocs()
	perSecond(b, len(orders), func() {
		for i := range orders {
			orders[i].Version++
		}
	}, func() {
		if err := s.cache.put(b.Context(), orders); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkGet measures a shopper's poll for an order that is in the cache.
func BenchmarkGet(b *testing.B) {
	s := setup(b)
	r := rush{item: s.item(1)}
	orders := r.fresh(1)
	if err := s.cache.put(b.Context(), orders); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := s.Get(b.Context(), orders[0].No); err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
}
