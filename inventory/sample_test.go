package inventory

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"stampede/platform/watch/alarm"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func (b *bundle) sampled() []proof.Outcome {
	b.t.Helper()
	return proof.Run(b.t.Context(), b.Samples())
}

// The samples pass in the middle of a sale, and find faults on either side; in
// a running server those raise an alarm.
func TestSamplesFindBrokenBooks(t *testing.T) {
	t.Parallel()
	s := midSale(t)
	s.close(s.closed.No) // its release is pending
	if got := s.sampled(); !proof.AllOK(got) {
		t.Fatalf("a sale in order: %+v", got)
	}
	// One unit too many in Redis.
	require.NoError(t, s.rdb.HIncrBy(t.Context(), s.item.stateKey(), "remaining", 1).Err())
	if got := s.sampled(); len(got[1].Violations) != 1 || got[1].Violations[0].Subject != "item 1" || !strings.Contains(got[1].Violations[0].Detail, "difference is -1") {
		t.Errorf("a unit too many in Redis: %+v", got)
	}
	require.NoError(t, s.rdb.HIncrBy(t.Context(), s.item.stateKey(), "remaining", -1).Err())
	// One unit less in the row than the orders leave.
	if _, err := s.db.Exec(t.Context(), `UPDATE inventory.stock SET available = available - 1, version = version + 1`); err != nil {
		t.Fatal(err)
	}
	if got := s.sampled(); len(got[0].Violations) != 1 || !strings.Contains(got[0].Violations[0].Detail, "the total is 20") {
		t.Errorf("a unit too few in the row: %+v", got)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		done <- alarm.NewWatch(s.db, slog.New(slog.DiscardHandler), alarm.Sampled(100*time.Millisecond, s.Samples())).Run(ctx)
	}()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		l, err := alarm.List(t.Context(), s.db, alarm.Filter{Code: alarm.BooksBroken.Code})
		return err == nil && len(l) > 0 && strings.HasSuffix(l[len(l)-1].Subject, " item 1")
	}, "the alarm")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Every second only sums are compared. Work under way is not a difference, and
// one that lasts is confirmed by the item's books.
func TestBooksProbeFindsDifferenceThatLasts(t *testing.T) {
	t.Parallel()
	s := midSale(t)
	since := map[int64]time.Time{}
	glance := func(want string) {
		t.Helper()
		found, err := s.glance(t.Context(), since)
		require.NoError(t, err)
		if got := fmt.Sprint(found); got != want {
			t.Errorf("found %s, want %s", got, want)
		}
	}
	glance("[]") // a grant is in flight
	s.differsFor = 0
	closing := s.close(s.closed.No)
	glance("[]") // a release is pending
	s.mustRelease(closing)
	s.write(s.item, s.epoch, s.inFlight)
	glance("[]")
	s.differsFor = time.Hour
	require.NoError(t, s.rdb.HIncrBy(t.Context(), s.item.stateKey(), "remaining", 1).Err())
	glance("[]")
	mustBe(t, "items and units that differ", fmt.Sprint(testutil.ToFloat64(s.metrics.differ), testutil.ToFloat64(s.metrics.difference)), "1 1")
	s.differsFor = 0
	glance("[{I2 item 1 nothing stuck: available 14, but Redis has remaining 15 + in flight 0 + release pending 0: the difference is -1.}]")
	require.NoError(t, s.rdb.HIncrBy(t.Context(), s.item.stateKey(), "remaining", -1).Err())
	glance("[]")
	mustBe(t, "items remembered", len(since), 0)
}
