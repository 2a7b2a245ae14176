package outbox_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// A reader who goes on after the last place meets each event once, whatever commits and whichever relay sends meanwhile;
// an event that is sent again, because the bus lost it, keeps its place.
func TestLogReaderSkipsNothing(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	relays := []*outbox.Relay{relay(pool, b), relay(pool, b)} // of two instances
	for _, r := range relays {
		pgtest.Work(t, r.Run)
	}
	const writers, each = 4, 50
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range each {
				add(t, pool, strconv.Itoa(w*each+n))
				relays[n%2].Wake()
			}
		})
	}
	seen, next, last := map[ids.ID]bool{}, int64(0), map[int]int{}
	pgtest.Eventually(t, 60*time.Second, func() bool {
		events, err := outbox.ReadLog(t.Context(), pool, next)
		require.NoError(t, err)
		for _, e := range events {
			n, err := strconv.Atoi(string(e.Payload))
			require.NoError(t, err)
			if seen[e.ID] || e.Place < next {
				t.Errorf("event %d at place %d was read before", n, e.Place)
			}
			if n < last[n/each] {
				t.Errorf("event %d comes after %d of the same writer", n, last[n/each])
			}
			seen[e.ID], next, last[n/each] = true, e.Place+1, n
		}
		return len(seen) == writers*each
	}, "every event is read")
	all.Wait()
	given, err := outbox.LastPlace(t.Context(), pool)
	require.NoError(t, err)
	require.Equal(t, "a place beyond the last", given < next-1, false)

	pgtest.Exec(t, pool, `UPDATE platform.outbox SET sent_at = NULL`) // as a recall does
	relays[0].Wake()
	allSent(t, pool)
	events, err := outbox.ReadLog(t.Context(), pool, next)
	require.NoError(t, err)
	require.Equal(t, "events with another place", len(events), 0)
	at, err := outbox.ReadLogAt(t.Context(), pool, []int64{next - 1, next + 1000})
	require.NoError(t, err)
	require.Equal(t, "events at two places, of which one is empty", len(at), 1)
}

// The relay of the release before marks rows without a place.
func TestEventsOfTheReleaseBeforeGetPlaces(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	add(t, pool, "1")
	pgtest.Exec(t, pool, `UPDATE platform.outbox SET sent_at = clock_timestamp()`)
	events, err := outbox.ReadLog(t.Context(), pool, 0)
	require.NoError(t, err)
	require.Equal(t, "events", len(events), 1)
	pgtest.Exec(t, pool, `WITH gone AS (DELETE FROM platform.outbox RETURNING id, subject, payload)
		INSERT INTO platform.outbox (id, subject, payload, sent_at) SELECT id, subject, payload, clock_timestamp() FROM gone`) // one that NATS had refused
	events, err = outbox.ReadLog(t.Context(), pool, events[0].Place+1)
	require.NoError(t, err)
	require.Equal(t, "events that were inserted as sent", len(events), 1)
}
