package alarm_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// watch runs probes until stop or the end of the test.
func watch(t testing.TB, pool *pgxpool.Pool, probes ...alarm.Probe) (stop func()) {
	t.Helper()
	return pgtest.Work(t, alarm.NewWatch(pool, slog.New(slog.DiscardHandler), probes...).Run)
}

func raised(t testing.TB, pool *pgxpool.Pool, d *alarm.Definition) []alarm.Alarm {
	t.Helper()
	return list(t, pool, alarm.Filter{Code: d.Code})
}

// A finding is raised once it has lasted, once although two instances check, and by
// the other one when the first has gone.
func TestFindingIsRaisedWhenItHasLasted(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	var looks atomic.Int64
	probe := alarm.Probe{Alarm: fenced, Every: 20 * time.Millisecond, For: 200 * time.Millisecond, Shared: true}
	probe.Look = func(context.Context) ([]alarm.Finding, error) {
		switch looks.Add(1) {
		case 3:
			return nil, nil // item 1 recovered briefly
		case 2:
			return nil, errors.New("could not look") // which does not count as recovery
		default:
			return []alarm.Finding{{Subject: "item 1", Detail: "not loaded"}}, nil
		}
	}
	began := time.Now()
	first := watch(t, pool, probe)
	pgtest.Eventually(t, 30*time.Second, func() bool { return looks.Load() > 0 }, "the first look")
	watch(t, pool, probe)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(raised(t, pool, fenced)) == 1 }, "the alarm")
	if took := time.Since(began); took < 240*time.Millisecond {
		t.Errorf("raised after %s", took)
	}
	first()
	// Immediately, or when the lease expires that a busy Postgres did not release.
	pgtest.Eventually(t, 30*time.Second, func() bool { return raised(t, pool, fenced)[0].Count == 2 }, "the other instance continues")
}

// Two probes of one alarm both look, each under its own lease.
func TestTwoSharedProbesOfOneAlarm(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	var looks [2]atomic.Int64
	probe := func(i int, lease string) alarm.Probe {
		return alarm.Probe{Alarm: fenced, Every: 20 * time.Millisecond, Shared: true, Lease: lease, Look: func(context.Context) ([]alarm.Finding, error) {
			looks[i].Add(1)
			return nil, nil
		}}
	}
	watch(t, pool, probe(0, ""), probe(1, "second"))
	pgtest.Eventually(t, 30*time.Second, func() bool { return looks[0].Load() > 0 && looks[1].Load() > 0 }, "both to look")
	defer func() { require.Equal(t, "one lease for both", recover() != nil, true) }()
	alarm.NewWatch(pool, slog.New(slog.DiscardHandler), probe(0, ""), probe(1, ""))
}

// A subject that was not checked, or that others pushed out of the bound, is not over; one
// that a watch before this one has found is, unless another instance still finds it.
func TestWhatIsOver(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	pgtest.Exec(t, pool, `INSERT INTO platform.alarms (code, subject, severity, next_action, opened_at, last_seen)
		SELECT $1, subject, 'warning', 'none', now() - opened, now() - last FROM (VALUES
		('left by another', interval '2 hours', interval '1 hour'), ('found by another', '2 hours', '-1 hour'),
		('of a single check', '1 hour', '1 hour')) v(subject, opened, last)`, fenced.Code)
	var looks, fresh atomic.Int64
	w := alarm.Repeating(alarm.NewWatch(pool, slog.New(slog.DiscardHandler), alarm.Probe{
		Alarm: fenced, Every: 20 * time.Millisecond, Look: func(context.Context) (found []alarm.Finding, err error) {
			if looks.Add(1) > 3 { // until then all is found, for longer than one look
				if fresh.Load() == 0 {
					return []alarm.Finding{{Subject: "item 0"}}, errors.New("the others could not be checked")
				}
				if fresh.Load() == 1 {
					found = append(found, alarm.Finding{Subject: "one more, first"})
				}
			}
			items := 20
			if fresh.Load() < 2 {
				items++ // above the bound: what else there is is not known
			}
			for i := range items {
				found = append(found, alarm.Finding{Subject: fmt.Sprintf("item %d", i)})
			}
			return found, nil
		},
	}), time.Millisecond)
	pgtest.Work(t, w.Run)
	over := func() string {
		return pgtest.Read[string](t, pool, `SELECT coalesce(string_agg(subject, ', ' ORDER BY subject), '')
			FROM platform.alarms WHERE code = $1 AND over_at IS NOT NULL`, fenced.Code)
	}
	look := func(what string) {
		t.Helper()
		from := looks.Load()
		pgtest.Eventually(t, 30*time.Second, func() bool { return looks.Load() > from+5 }, what)
	}
	look("looks of which some fail")
	require.Equal(t, "over after a check that was not complete", over(), "")
	fresh.Store(1)
	look("looks that find one more")
	require.Equal(t, "over while others displace it", over(), "")
	fresh.Store(2)
	pgtest.Eventually(t, 30*time.Second, func() bool { return over() == "left by another, one more, first" }, "what is not found any more to be over")
}

// A real stream without a consumer.
func TestFullStreamOfGrantsIsAnAlarm(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	b := bustest.Open(t, func(c *bus.Config) { c.Queues[0].MaxBytes = 1 << 20 })
	watch(t, pool, alarm.Probes(pool, alarm.Parts{Listen: "a", Bus: b, Redis: well})...)
	batch := make([]byte, 8<<10)
	for {
		if err := b.Publish(t.Context(), "grants.1", ids.New(), batch); errors.Is(err, bus.ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(raised(t, pool, alarm.GrantsFull)) == 1 }, "the alarm")
	require.Equal(t, "alarms of a full stream", len(raised(t, pool, alarm.BusUnhealthy)), 0)
}

func well(context.Context) error { return nil }

// A real NATS server that stops.
func TestBusThatIsUnwellIsAnAlarm(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	srv := bustest.StartServer(t)
	b := bustest.Open(t, bustest.On(srv.URL))
	watch(t, pool, alarm.Probes(pool, alarm.Parts{Listen: "a", Bus: b, Redis: well})...)
	srv.Stop()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		l := raised(t, pool, alarm.BusUnhealthy)
		return len(l) == 1 && strings.HasPrefix(l[0].Subject, "instance a on ") && l[0].Detail != ""
	}, "the alarm")
}

func TestRedisThatIsAwayIsAnAlarm(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}) // no server listens there
	t.Cleanup(func() { _ = rdb.Close() })
	probes := alarm.Probes(pool, alarm.Parts{Listen: "a", Bus: bustest.Open(t), Redis: func(ctx context.Context) error { return rdb.Ping(ctx).Err() }})
	for i := range probes {
		probes[i].For /= 10 // the tolerance for a failover is not tested here
	}
	watch(t, pool, probes...)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		l := raised(t, pool, alarm.RedisUnreachable)
		return len(l) == 1 && strings.HasPrefix(l[0].Subject, "instance a on ")
	}, "the alarm")
}

// Streams that may grow beyond any disk, and streams that have room.
func TestDiskWithoutRoomIsAnAlarm(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "1.blk")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	stop := watch(t, pool, alarm.Probes(pool, alarm.Parts{Listen: "a", Bus: b, Redis: well, StreamDir: dir, StreamBytes: 2 << 20})...)
	watch(t, pool, alarm.Probes(pool, alarm.Parts{Listen: "a", Bus: b, Redis: well, StreamDir: t.TempDir(), StreamBytes: 1 << 62})...)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(raised(t, pool, alarm.DiskNearlyFull)) == 1 }, "the alarm")
	require.Equal(t, "raised about a disk with room", raised(t, pool, alarm.DiskNearlyFull)[0].Subject == "disk of "+dir, false)
	stop()
}

// A finding of a check of the books is an alarm; a check that cannot run hides
// nothing.
func TestBrokenBooksAreAnAlarm(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	watch(t, pool, alarm.Sampled(50*time.Millisecond, []proof.Check{
		{ID: "I2", Name: "nothing stuck", Run: func(context.Context) ([]proof.Violation, error) { return nil, errors.New("redis is down") }},
		{ID: "I1", Name: "never oversold", Run: func(context.Context) (all []proof.Violation, _ error) {
			for i := range 100 {
				all = append(all, proof.Violation{Subject: fmt.Sprintf("item %d", i), Detail: "11 units are in live orders, the total is 10."})
			}
			return all, nil
		}},
	}))
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(raised(t, pool, alarm.BooksBroken)) == 20 }, "a bounded number of alarms")
	for _, a := range raised(t, pool, alarm.BooksBroken) {
		n, err := strconv.Atoi(strings.TrimPrefix(a.Subject, "I1 item "))
		if err != nil || n >= 20 || a.Detail != "never oversold: 11 units are in live orders, the total is 10." {
			t.Errorf("alarm %+v", a)
		}
	}
}

// A notifier without an address still stops.
func TestNotifierWithoutAddressWaitsForItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := notifier(t, nil, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, n.Run(ctx))
	})
}
