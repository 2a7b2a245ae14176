package inbox_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"stampede/platform/base/ids"
	"stampede/platform/store/inbox"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

// fresh makes one call and commits it.
func fresh(t testing.TB, pool *pgxpool.Pool, consumer string, msgIDs ...ids.ID) map[ids.ID]bool {
	t.Helper()
	var got map[ids.ID]bool
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) (err error) {
		got, err = inbox.Fresh(t.Context(), tx, consumer, msgIDs)
		return err
	})
	require.NoError(t, err)
	return got
}

func TestFreshIsTrueOnceForEachConsumer(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	a, b, c := ids.New(), ids.New(), ids.New()
	require.Equal(t, "first time", fresh(t, pool, "writer", b, a, b, a), map[ids.ID]bool{a: true, b: true})
	require.Equal(t, "second time", fresh(t, pool, "writer", a, c, b), map[ids.ID]bool{c: true})
	require.Equal(t, "another consumer", fresh(t, pool, "other", a), map[ids.ID]bool{a: true})
	require.Equal(t, "fresh of no ids", len(fresh(t, pool, "writer")), 0)
}

func TestRolledBackMessageIsFreshAgain(t *testing.T) {
	t.Parallel()
	pool, id, errStop := pgtest.DB(t), ids.New(), errors.New("the effect failed")
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		got, err := inbox.Fresh(t.Context(), tx, "writer", []ids.ID{id})
		if err != nil || !got[id] {
			t.Errorf("fresh: %v, %v", got, err)
		}
		return errStop
	})
	require.ErrorIs(t, err, errStop)
	require.Equal(t, "after a rollback", fresh(t, pool, "writer", id), map[ids.ID]bool{id: true})
}

func TestDayComesFromTheMessage(t *testing.T) {
	t.Parallel()
	pool, id := pgtest.DB(t), ids.New()
	yesterday := time.Now().Add(-24 * time.Hour).UnixMilli()
	for i := range 6 {
		id[i] = byte(yesterday >> (40 - 8*i))
	}
	old := ids.ID{0: 1, 6: 0x70, 8: 0x80, 15: 1} // a day without a partition of its own
	fresh(t, pool, "writer", id, old)
	for _, id := range []ids.ID{id, old} {
		day := pgtest.Read[time.Time](t, pool, `SELECT day FROM platform.inbox WHERE message_id = $1`, id)
		require.Equal(t, "day of "+id.String(), day, id.Time().Truncate(24*time.Hour))
	}
	require.Equal(t, "fresh of a redelivery", len(fresh(t, pool, "writer", id, old)), 0)
}

func TestMessageWithoutIDIsAnError(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := inbox.Fresh(t.Context(), tx, "writer", []ids.ID{ids.New(), {}})
		return err
	})
	require.Equal(t, "a message without an id passes", err == nil, false)
}

// For batches that share messages in different orders, each message is fresh
// for exactly one batch, and no batch deadlocks.
func TestConcurrentBatchesShareMessages(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	const messages, workers = 200, 8
	all := make([]ids.ID, messages)
	for i := range all {
		all[i] = ids.New()
	}
	var total atomic.Int64
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			mine := make([]ids.ID, 0, messages)
			for i := range all {
				mine = append(mine, all[(i*(2*w+1)+w)%messages])
			}
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			got, err := inbox.Fresh(t.Context(), tx, "writer", mine)
			if err == nil {
				err = tx.Commit(t.Context())
			}
			if err != nil {
				t.Errorf("worker %d: %v", w, err) // a deadlock shows here: nothing retries
			}
			total.Add(int64(len(got)))
		})
	}
	running.Wait()
	require.Equal(t, "fresh", total.Load(), messages)
}
