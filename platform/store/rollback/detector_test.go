package rollback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// stores are a database and a Redis with data from it.
type stores struct {
	*testing.T
	db  *pgxpool.Pool
	rdb *redis.Client
}

func newStores(t *testing.T) *stores {
	t.Helper()
	s := &stores{t, pgtest.DB(t), pgtest.Redis(t)}
	require.NoError(t, s.rdb.MSet(t.Context(), "held", 1, "another program's", 1).Err())
	return s
}

func (s *stores) open() (*Detector, error) {
	return Open(s.Context(), s.db, s.rdb, []string{"held"}, alarm.DatabaseWentBack.Raise, slog.New(slog.DiscardHandler))
}

func (s *stores) opened() *Detector {
	s.Helper()
	l, err := s.open()
	require.NoError(s, err)
	return l
}

func (s *stores) count(l *Detector) {
	s.Helper()
	require.NoError(s, l.count(s.Context()))
}

func (s *stores) exec(sql string) {
	s.Helper()
	pgtest.Exec(s, s.db, sql)
}

// expect checks whether Redis still has its data, how often the alarm with that
// code was raised, and which words its last detail contains.
func (s *stores) expect(what string, held bool, code *alarm.Definition, calls int64, words string) {
	s.Helper()
	n, err := s.rdb.Exists(s.Context(), "held").Result()
	if err != nil || (n == 1) != held {
		s.Errorf("%s: Redis has %d keys (%v), want held = %v", what, n, err, held)
	}
	if n, err := s.rdb.Exists(s.Context(), "another program's").Result(); err != nil || n != 1 {
		s.Errorf("%s: another program's key is gone (%v)", what, err)
	}
	list, err := alarm.List(s.Context(), s.db, alarm.Filter{Code: code.Code})
	require.NoError(s, err)
	var count int64
	var detail string
	if len(list) > 0 {
		count, detail = list[0].Count, list[0].Detail
	}
	if count != calls || !strings.Contains(detail, words) {
		s.Errorf("%s: alarmed %d times, %q; want %d times with %q", what, count, detail, calls, words)
	}
}

func TestRestoredDatabaseEmptiesRedis(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	l := s.opened()
	s.expect("a Redis without a memory", true, alarm.DatabaseWentBack, 0, "")
	s.count(l)
	s.count(l)
	s.opened()
	s.expect("the next start", true, alarm.DatabaseWentBack, 0, "")
	s.exec(`UPDATE platform.heartbeat SET beat = 2`) // the heartbeat was 4
	l = s.opened()
	s.expect("an older database", false, alarm.DatabaseWentBack, 1, "by 2 heartbeats (each server counts one every 2s). Redis was emptied")
	s.rdb.Set(t.Context(), "held", 1, 0)
	s.count(l)
	s.opened()
	s.expect("the start after it", true, alarm.DatabaseWentBack, 1, "emptied")
}

func TestDatabaseRollbackUnderARunningServerRaisesAlarm(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	l := s.opened()
	for range 5 {
		s.count(l)
	}
	s.exec(`UPDATE platform.heartbeat SET beat = beat - 3`)
	for range 10 { // past the earlier heartbeat
		s.count(l)
	}
	s.expect("the running server", true, alarm.DatabaseWentBack, 1, "by 3 heartbeats")
	s.opened()
	s.expect("the next start", false, alarm.DatabaseWentBack, 2, "by 3 heartbeats (each server counts one every 2s). Redis was emptied")
	require.NoError(t, s.rdb.Set(t.Context(), "held", 1, 0).Err())
	s.opened()
	s.expect("the start after it", true, alarm.DatabaseWentBack, 2, "emptied")
}

// However often a start fails, the next one completes the steps that it could not.
func TestNextStartCompletesAFailedOne(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	s.count(s.opened()) // the heartbeat is 2
	s.exec(`UPDATE platform.heartbeat SET beat = 1`)
	var stuck atomic.Bool // while it is set, Redis cannot be emptied
	stuck.Store(true)
	s.rdb.AddHook(redistest.Around(func(_ context.Context, cmds []redis.Cmder, next func() error) error {
		if stuck.Load() && cmds[0].Name() == "scan" {
			return errors.New("planted")
		}
		return next()
	}))
	for range 3 {
		_, err := s.open()
		require.Equal(t, "Open succeeds although Redis cannot be emptied", err == nil, false)
	}
	stuck.Store(false)
	s.opened()
	s.expect("the first start that could", false, alarm.DatabaseWentBack, 4, "by 1 heartbeats")

	// The alarm of a running server waits until Postgres accepts it.
	l := s.opened()
	s.count(l)
	s.exec(`UPDATE platform.heartbeat SET beat = beat - 1`)
	s.exec(`DELETE FROM platform.alarms`)
	s.exec(`ALTER TABLE platform.alarms RENAME TO away`)
	for range 3 {
		require.Equal(t, "the alarm is lost", l.count(s.Context()) == nil, false)
	}
	s.exec(`ALTER TABLE platform.away RENAME TO alarms`)
	s.count(l)
	s.expect("Postgres takes alarms again", false, alarm.DatabaseWentBack, 1, "while a server was running")
}

func TestRedisOfAnotherDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	s.opened()
	s.exec(`UPDATE platform.heartbeat SET id = gen_random_uuid()`)
	_, err := s.open()
	var coded interface{ ExitCode() int }
	if !errors.As(err, &coded) || coded.ExitCode() != 37 || !strings.Contains(err.Error(), "--redis-url") {
		t.Errorf("%v, want a sentence about --redis-url and exit code 37", err)
	}
	s.expect("another database", true, alarm.DatabaseWentBack, 0, "")
	s.rdb.Set(t.Context(), markKey, "not a mark", 0)
	_, err = s.open()
	require.Contains(t, "invalid mark", fmt.Sprint(err), markKey)
}
