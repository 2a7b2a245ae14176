package inventory

import (
	"strconv"
	"testing"

	"stampede/platform/ids"
)

// BenchmarkReserve shows decisions a second of the set-wise script, each batch
// granting all: the dearest answer there is.
func BenchmarkReserve(b *testing.B) {
	for _, size := range []int{1, 64, 256, 512} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			u := setup(b)
			n := onSale(1, 0)
			n.Unlimited = true
			item, epoch := u.loaded(n)
			attempts := make([]Attempt, size)
			var d Decision
			user := int64(1 << 40)
			for b.Loop() {
				b.StopTimer()
				for i := range attempts {
					user++
					attempts[i] = Attempt{User: user, No: ids.NewFor(user), Quantity: 1}
				}
				b.StartTimer()
				if err := u.Reserve(b.Context(), item, epoch, attempts, &d); err != nil || d.Results[size-1].Verdict != Granted {
					b.Fatalf("%v, %v", err, d.Gate)
				}
				b.StopTimer()
				nos := make([]ids.ID, size)
				for i := range attempts {
					nos[i] = attempts[i].No
				}
				// The order writer keeps up, as it must: holds stay few.
				if err := u.Persisted(b.Context(), item, epoch, nos); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
