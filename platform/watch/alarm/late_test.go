package alarm_test

import (
	"context"
	"errors"
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
	if pool, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
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
	if l := raised(t, sees, alarm.PostgresUnreachable); len(l) != 0 {
		t.Errorf("raised through a cut connection: %+v", l)
	}
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
		if err := late.Raise(t.Context(), pool, fenced, "item "+strconv.Itoa(i/2), "try "+strconv.Itoa(i%2)); err == nil {
			t.Fatal("raised through a cut connection")
		}
	}
	if err := late.Record(t.Context(), pool); err == nil {
		t.Error("recorded through a cut connection")
	}
	cut.Store(false)
	for range 2 {
		require.NoError(t, late.Record(t.Context(), pool))
	}
	l, err := alarm.List(t.Context(), sees, alarm.Filter{Code: fenced.Code, Limit: 200})
	if err != nil || len(l) != 100 {
		t.Fatalf("%d alarms are recorded, want 100; %v", len(l), err)
	}
	for _, a := range l {
		if a.Count != 2 || a.Detail != "try 1" {
			t.Errorf("%s: %d times, at last %q", a.Subject, a.Count, a.Detail)
		}
	}
}
