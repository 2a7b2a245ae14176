package alarm_test

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/alarm"
	"stampede/platform/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

func TestAlarmIsCountedAcknowledgedAndComesBack(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	raise := func(code, subject string, s alarm.Severity) {
		t.Helper()
		if err := alarm.Raise(t.Context(), db, alarm.Alarm{Code: code, Subject: subject, Severity: s, NextAction: "Look."}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(open bool) []alarm.Alarm {
		t.Helper()
		all, err := alarm.List(t.Context(), db, open, 10)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	raise("shortfall", "item 1", alarm.Warning)
	raise("shortfall", "item 2", alarm.Warning)
	raise("shortfall", "item 1", alarm.Critical)
	all := list(true)
	if len(all) != 2 || all[0].Subject != "item 1" || all[0].Count != 2 || all[0].Severity != alarm.Critical ||
		all[0].NextAction != "Look." || !all[0].LastSeen.After(all[0].FirstSeen) {
		t.Fatalf("alarms %+v", all)
	}

	if ok, err := alarm.Acknowledge(t.Context(), db, "shortfall", "item 1", "Li"); err != nil || !ok {
		t.Fatalf("acknowledge: %v, %v", ok, err)
	}
	if ok, err := alarm.Acknowledge(t.Context(), db, "shortfall", "item 1", "Wang"); err != nil || ok {
		t.Fatalf("acknowledged twice: %v, %v", ok, err)
	}
	raise("shortfall", "item 1", alarm.Critical) // it goes on
	if open := list(true); len(open) != 1 || open[0].Subject != "item 2" {
		t.Fatalf("open alarms %+v", open)
	}
	if all := list(false); len(all) != 2 || all[0].AcknowledgedBy == nil || *all[0].AcknowledgedBy != "Li" || all[0].Count != 3 {
		t.Fatalf("all alarms %+v", all)
	}

	// After an hour's silence it is news again.
	if _, err := db.Exec(t.Context(), `UPDATE platform.alarms SET last_seen = clock_timestamp() - interval '61 minutes'`); err != nil {
		t.Fatal(err)
	}
	raise("shortfall", "item 1", alarm.Critical)
	if open := list(true); len(open) != 2 || open[0].Subject != "item 1" || open[0].AcknowledgedBy != nil {
		t.Fatalf("open alarms %+v", open)
	}
	if err := alarm.Raise(t.Context(), db, alarm.Alarm{Code: "x", Subject: "y", Severity: "loud"}); err == nil {
		t.Error("an unknown severity was taken")
	}
}

func TestCollectorCountsOpenAlarms(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	for _, a := range []alarm.Alarm{
		{Code: "shortfall", Subject: "item 1", Severity: alarm.Critical},
		{Code: "shortfall", Subject: "item 2", Severity: alarm.Critical},
		{Code: "dead-letter", Subject: "push", Severity: alarm.Warning},
		{Code: "old", Subject: "x", Severity: alarm.Warning},
	} {
		if err := alarm.Raise(t.Context(), db, a); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := alarm.Acknowledge(t.Context(), db, "old", "x", "Li"); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(alarm.NewCollector(db))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("gathered %v, %v", families, err)
	}
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
	}
	if want := map[string]float64{"shortfall critical": 2, "dead-letter warning": 1}; !maps.Equal(got, want) {
		t.Fatalf("metric %v, want %v", got, want)
	}
}
