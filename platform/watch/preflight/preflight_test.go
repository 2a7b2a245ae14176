package preflight

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/instances"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A check that hangs, even one that ignores its context, is a warning after 3 s and
// delays no other; a stop comes first.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ends := make(chan struct{})
		defer close(ends)
		look := func(f ...Finding) func(context.Context, Need) ([]Finding, error) {
			return func(context.Context, Need) ([]Finding, error) { return f, nil }
		}
		checks := []Check{
			{Code: "fine", Look: look()},
			{Code: "hangs", Look: func(context.Context, Need) ([]Finding, error) { <-ends; return nil, nil }},
			{Code: "fails", Look: func(context.Context, Need) ([]Finding, error) { return nil, errors.New("no route") }},
			{Code: "stops", Next: fault.Text{"Do it", "去做"}, Look: look(Finding{Level: Warning}, Finding{Level: Stop, Subject: "item 1", Found: fault.T("None.", "无。")})},
		}
		began := time.Now()
		lines := Run(t.Context(), Need{}, checks)
		require.Equal(t, "took", time.Since(began), patience)
		var codes []string
		for _, l := range lines {
			codes = append(codes, l.Code+" "+string(l.Level))
			require.Equal(t, "next of "+l.Code, l.NextZH == "去做", l.Code == "stops")
		}
		require.Equal(t, "codes", strings.Join(codes, ", "), "stops stop, hangs warning, fails warning, stops warning, fine ok")
		require.Equal(t, "said", lines[1].Found+" "+lines[2].Found, "Not checked: no answer within 3s. Not checked: no route.")
	})
}

// Each check of the servers is ok where it can be, and finds its fault.
func TestServers(t *testing.T) {
	t.Parallel()
	pool, rdb := pgtest.DB(t), pgtest.Redis(t)
	good := Servers{
		DB: pool, Redis: rdb, Disk: t.TempDir(), Alarmed: true,
		Running: func(context.Context) (instances.Shop, error) {
			return instances.Shop{Instances: 2, Clients: 100, Connections: 80}, nil
		},
		Clock: func() (time.Duration, time.Duration) { return time.Millisecond, 0 },
		NATS:  func(context.Context) error { return nil },
	}
	lines := func(s Servers, n Need) map[string]Line {
		worst := map[string]Line{}
		for _, l := range Run(t.Context(), n, s.Checks()) {
			if _, known := worst[l.Code]; !known {
				worst[l.Code] = l // the first is the worst
			}
		}
		return worst
	}
	ready := lines(good, Need{Units: 10, Shoppers: 100})
	for _, code := range []string{"nats", "standby", "memory", "disk", "clock", "connections", "postgres-connections", "alarm-addresses", "alarms"} {
		require.Equal(t, "level of "+code, ready[code].Level, OK)
	}

	require.NoError(t, tooHot.Raise(t.Context(), pool, "item 7", "hot"))
	bad := good
	bad.Alarmed = false
	bad.Running = func(context.Context) (instances.Shop, error) {
		return instances.Shop{Instances: 2, Clients: 100, Connections: 1 << 20}, nil
	}
	log := slog.New(slog.DiscardHandler)
	a := app.New(log)
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })
	var err error
	bad.Standby, err = pg.OpenStandby(t.Context(), a, "postgres://127.0.0.1:1/stampede", pool, log, prometheus.NewRegistry())
	require.NoError(t, err)
	bad.NATS = func(context.Context) error { return errors.New("no stream") }
	bad.Clock = func() (time.Duration, time.Duration) { return -5 * time.Second, 0 }
	found := lines(bad, Need{Units: 1 << 45, Shoppers: 101})
	for code, want := range map[string]struct {
		Level          Level
		Subject, Found string
	}{
		"nats":        {Stop, "", "NATS takes no grants: no stream."},
		"postgres":    {Stop, "fsync", "fsync is off: a crash of its machine may destroy the database."}, // the tests' Postgres
		"memory":      {Stop, "", ""},
		"disk":        {Stop, bad.Disk, ""},
		"standby":     {Warning, "", ""},
		"clock":       {Warning, "Redis", "Redis is 5s behind this machine."},
		"connections": {Warning, "", "101 shoppers are expected; the shop can hold 100 connections (running instances: 2)."},
		"backup":      {Warning, "", "Postgres archives nothing (archive_mode is off): a lost disk loses every order since the last backup."},
		"alarms":      {Warning, "preflight-test item 7", ""},

		"postgres-connections": {Warning, "", ""},
		"alarm-addresses":      {Warning, "", "Alarms are only in the back office's list: no phone, e-mail address or webhook gets them."},
	} {
		got := found[code]
		if got.Level != want.Level || got.Subject != want.Subject || want.Found != "" && got.Found != want.Found || got.Next == "" || got.NextZH == "" {
			t.Errorf("%s: %+v", code, got)
		}
	}
}

var tooHot = alarm.Define("preflight-test", alarm.Warning, fault.T("Only in this test.", "仅供测试。"), fault.T("Do nothing.", "无需处理。"))
