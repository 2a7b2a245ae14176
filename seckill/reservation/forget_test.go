package reservation

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// TestOldReservationsAreForgotten checks that only the reservations of sessions
// that ended long ago are deleted, also when two instances do it concurrently.
func TestOldReservationsAreForgotten(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	for _, sql := range []string{
		`INSERT INTO seckill.activities (id, name, starts_at, ends_at, status, limit_per_user, payment_window_seconds)
			OVERRIDING SYSTEM VALUE VALUES (1, 'a', now() - interval '200 days', now() + interval '200 days', 'running', 1, 900)`,
		// Ended 91 days ago, 89 days ago, not yet.
		`INSERT INTO seckill.sessions (id, activity_id, name, opens_at, closes_at) OVERRIDING SYSTEM VALUE
			SELECT n, 1, 's', now() - interval '150 days', now() - days * interval '1 day' FROM (VALUES (1, 91), (2, 89), (3, -1)) v (n, days)`,
		`INSERT INTO seckill.items (id, session_id, activity_id, sku, title, spec, image_url, list_price, sale_price, currency, stock, unlimited)
			OVERRIDING SYSTEM VALUE SELECT n, (n + 1) / 2, 1, n, 't', '', '', 1, 1, 'CNY', 1, false FROM generate_series(1, 6) n`,
		`INSERT INTO seckill.reservations (item_id, user_id) SELECT i, u FROM generate_series(1, 6) i, generate_series(1, 25) u`,
		`INSERT INTO seckill.reservation_counts (item_id, taken, places) SELECT i, 25, 100 FROM generate_series(1, 6) i`,
	} {
		pgtest.Exec(t, db, sql)
	}
	left := func(table string) string {
		t.Helper()
		return pgtest.Read[string](t, db, `SELECT coalesce(string_agg(item_id || 'x' || n, ' ' ORDER BY item_id), '')
			FROM (SELECT item_id, count(*) AS n FROM seckill.`+table+` GROUP BY item_id) r`)
	}
	s := &Service{deps: Deps{DB: db, Log: slog.New(slog.DiscardHandler)}}
	for _, c := range []struct {
		keepDays             time.Duration
		reservations, counts string
	}{
		{90, "3x25 4x25 5x25 6x25", "3x1 4x1 5x1 6x1"},
		{88, "5x25 6x25", "5x1 6x1"},
	} {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := s.forget(t.Context(), c.keepDays*24*time.Hour, 10); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		require.Equal(t, "reservations left", left("reservations"), c.reservations)
		require.Equal(t, "counts left", left("reservation_counts"), c.counts)
	}
}
