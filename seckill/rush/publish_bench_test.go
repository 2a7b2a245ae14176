package rush

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// BenchmarkPublish measures the durable publication of 256 grants in one message, as
// a lane does it before it answers. The baseline appends the same bytes to a file
// and syncs it, each before the next: the minimum for any store that promises to
// lose nothing. It keeps no index, detects no duplicates and has no reader. On both
// sides nearly all of the time is waiting for the disk.
func BenchmarkPublish(b *testing.B) {
	batch := seckillevent.Batch{
		ID: ids.New(), ItemID: 1, ActivityID: 1, SessionID: 1, Epoch: 1, UnitPrice: 9900, Currency: "CNY", Title: "限量版跑鞋", PayWindow: 15 * time.Minute,
		Grants: make([]seckillevent.Grant, 256),
	}
	for i := range batch.Grants {
		user := int64(i) + 1
		batch.Grants[i] = seckillevent.Grant{No: ids.NewFor(user), User: user, Quantity: 1, Seq: user}
	}
	data, subject := batch.Encode(nil), seckillevent.GrantsSubject(batch.ItemID)
	perSecond := func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(b.N*len(batch.Grants))/b.Elapsed().Seconds(), "grants/s")
	}
	b.Run("baseline", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "grants"))
		require.NoError(b, err)
		defer func() { _ = f.Close() }()
		for b.Loop() {
			if _, err := f.Write(data); err != nil {
				b.Fatal(err)
			}
			require.NoError(b, f.Sync())
		}
		perSecond(b)
	})
	b.Run("ours", func(b *testing.B) {
		nats := bustest.Open(b, func(c *bus.Config) { c.Queues[0].MaxBytes = 8 << 30 })
		for b.Loop() {
			require.NoError(b, nats.Publish(b.Context(), subject, ids.New(), data))
		}
		perSecond(b)
	})
}
