package alarm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// cuttable is a pool on the same database whose connection can be cut.
func cuttable(t testing.TB, url string) (pool *pgxpool.Pool, cut *atomic.Bool) {
	t.Helper()
	cut = new(atomic.Bool)
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	var dialer net.Dialer
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if cut.Load() {
			return nil, &net.OpError{Op: "dial", Err: errors.New("cut")}
		}
		return dialer.DialContext(ctx, network, addr)
	}
	cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return !cut.Load(), nil }
	pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, cut
}

// An outage of Postgres ends before anything can be recorded. The outage and the
// other findings are recorded afterwards, with their times.
func TestPostgresThatWasAwayIsAnAlarmAfterwards(t *testing.T) {
	t.Parallel()
	sees := pgtest.DB(t)
	pool, cut := cuttable(t, sees.Config().ConnString())
	var gone atomic.Bool
	probes := alarm.Probes(pool, alarm.Parts{Listen: "a", Bus: bustest.Open(t), Redis: well})
	for i := range probes {
		probes[i].Every, probes[i].For = probes[i].Every/10, probes[i].For/10
	}
	looks := make(chan struct{}, 1000)
	watch(t, pool, append(probes, alarm.Probe{Alarm: fenced, Every: 20 * time.Millisecond, Look: func(context.Context) ([]alarm.Finding, error) {
		select {
		case looks <- struct{}{}:
		default:
		}
		if gone.Load() {
			return []alarm.Finding{{Subject: "item 1", Detail: "not loaded"}}, nil
		}
		return nil, nil
	}})...)
	cut.Store(true)
	gone.Store(true)
	began := time.Now()
	for time.Since(began) < 500*time.Millisecond {
		<-looks
	}
	gone.Store(false)
	require.Equal(t, "raised through a cut connection", len(raised(t, sees, alarm.PostgresUnreachable)), 0)
	lasted := time.Since(began)
	cut.Store(false)
	for _, d := range []*alarm.Definition{alarm.PostgresUnreachable, fenced} {
		var a alarm.Alarm
		pgtest.Eventually(t, 30*time.Second, func() bool {
			if l := raised(t, sees, d); len(l) == 1 {
				a = l[0]
			}
			return a.Count == 1 && strings.Contains(a.Detail, "It lasted ")
		}, "the alarm "+string(d.Code))
		if span := a.LastSeen.Sub(a.FirstSeen); span < lasted/2 || a.FirstSeen.Before(began.Add(-time.Second)) {
			t.Errorf("%s was seen from %s to %s, the outage from %s for %s", d.Code, a.FirstSeen, a.LastSeen, began, lasted)
		}
	}
}

// The kept alarms are bounded, one per code and subject, and recorded once.
func TestKeptAlarmsAreBoundedAndRecordedOnce(t *testing.T) {
	t.Parallel()
	sees := pgtest.DB(t)
	pool, cut := cuttable(t, sees.Config().ConnString())
	cut.Store(true)
	var late alarm.Late
	for i := range 2 * 150 {
		err := late.Raise(t.Context(), pool, fenced, "item "+strconv.Itoa(i/2), "try "+strconv.Itoa(i%2))
		require.Equal(t, "raised through a cut connection", err == nil, false)
	}
	require.Equal(t, "recorded through a cut connection", late.Record(t.Context(), pool) == nil, false)
	cut.Store(false)
	for range 2 {
		require.NoError(t, late.Record(t.Context(), pool))
	}
	l, err := alarm.List(t.Context(), sees, alarm.Filter{Code: fenced.Code, Limit: 200})
	require.Equal(t, "alarms", fmt.Sprint(len(l), err), "100 <nil>")
	for _, a := range l {
		require.Equal(t, a.Subject, fmt.Sprintf("%d %s", a.Count, a.Detail), "2 try 1")
	}
}
