package inventory

import (
	"strconv"
	"testing"

	"stampede/platform/base/ids"
)

// BenchmarkPersisted measures the order writer's update of the stock after a
// commit.
func BenchmarkPersisted(b *testing.B) {
	for _, size := range []int{64, 256, 512} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			u := setup(b)
			n := onSale(1, 0)
			n.Unlimited = true
			item, epoch := u.loaded(n)
			attempts := make([]Attempt, size)
			nos := make([]ids.ID, size)
			var d Decision
			user := int64(1 << 40)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for i := range attempts {
					user++
					nos[i] = ids.NewFor(user)
					attempts[i] = Attempt{User: user, No: nos[i], Quantity: 1}
				}
				if err := u.Reserve(b.Context(), item, epoch, attempts, &d); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := u.Persisted(b.Context(), item, epoch, nos); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "numbers/s")
		})
	}
}

// BenchmarkPersistedAll measures the same for a transaction of many items.
func BenchmarkPersistedAll(b *testing.B) {
	const items, each = 64, 4
	u := setup(b)
	written := make([]Written, items)
	for i := range written {
		n := onSale(int64(i)+1, 0)
		n.Unlimited = true
		item, epoch := u.loaded(n)
		written[i] = Written{Item: item, Epoch: epoch, Nos: make([]ids.ID, each)}
	}
	var d Decision
	user := int64(1 << 40)
	for b.Loop() {
		b.StopTimer()
		for _, w := range written {
			attempts := make([]Attempt, each)
			for i := range attempts {
				user++
				w.Nos[i] = ids.NewFor(user)
				attempts[i] = Attempt{User: user, No: w.Nos[i], Quantity: 1}
			}
			if err := u.Reserve(b.Context(), w.Item, w.Epoch, attempts, &d); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := u.PersistedAll(b.Context(), written); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*items*each)/b.Elapsed().Seconds(), "numbers/s")
}
