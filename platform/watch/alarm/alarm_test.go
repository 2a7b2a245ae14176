package alarm_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

// The codes of these tests.
var (
	tooFew = alarm.Define("test-too-few", alarm.Critical, fault.T("Units are missing.", "仅供测试。"), fault.T("Count them.", "请处理。"))
	fenced = alarm.Define("test-fenced", alarm.Critical, fault.T("An item does not answer.", "仅供测试。"), fault.T("Wait.", "请处理。"))
	letter = alarm.Define("test-letter", alarm.Critical, fault.T("A message is kept.", "仅供测试。"), fault.T("Read it.", "请处理。"))
	failed = alarm.Define("test-failed", alarm.Critical, fault.T("A refund failed.", "仅供测试。"), fault.T("Repeat it.", "请处理。"))
	news   = alarm.Define("test-news", alarm.Info, fault.T("A sale is over.", "仅供测试。"), fault.T("Read it.", "请处理。"))
	slow   = alarm.Define("test-slow", alarm.Warning, fault.T("A refund takes long.", "仅供测试。"), fault.T("Wait.", "请处理。"))
)

func raise(t testing.TB, db pg.DB, d *alarm.Definition, subject, detail string) {
	t.Helper()
	require.NoError(t, d.Raise(t.Context(), db, subject, detail))
}

func list(t testing.TB, db pg.DB, f alarm.Filter) []alarm.Alarm {
	t.Helper()
	all, err := alarm.List(t.Context(), db, f)
	require.NoError(t, err)
	return all
}

func TestAlarmIsCountedAcknowledgedAndComesBack(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	open := alarm.Filter{Open: true}
	raise(t, db, tooFew, "item 1", "1 number")
	raise(t, db, tooFew, "item 2", "")
	raise(t, db, tooFew, "item 1", "broken \xff and \x00")
	all := list(t, db, open)
	if len(all) != 2 || all[1].Subject != "item 1" || all[1].Count != 2 || all[1].Severity != alarm.Critical ||
		all[1].NextAction == "" || all[1].Detail != "broken  and " || !all[1].LastSeen.After(all[1].FirstSeen) || all[1].Incident != 1 {
		t.Fatalf("alarms %+v", all)
	}
	first := all[1]

	if a, changed, err := alarm.Acknowledge(t.Context(), db, first.ID, "Li"); err != nil || !changed || a.AcknowledgedBy == nil || *a.AcknowledgedBy != "Li" {
		t.Fatalf("acknowledge: %+v, %v, %v", a, changed, err)
	}
	if a, changed, err := alarm.Acknowledge(t.Context(), db, first.ID, "Wang"); err != nil || changed || *a.AcknowledgedBy != "Li" {
		t.Fatalf("acknowledged twice: %+v, %v, %v", a, changed, err)
	}
	raise(t, db, tooFew, "item 1", "") // it continues
	if open := list(t, db, open); len(open) != 1 || open[0].Subject != "item 2" {
		t.Fatalf("open alarms %+v", open)
	}
	if all := list(t, db, alarm.Filter{}); len(all) != 2 || all[1].AcknowledgedBy == nil || *all[1].AcknowledgedBy != "Li" || all[1].Count != 3 {
		t.Fatalf("all alarms %+v", all)
	}

	// After an hour's silence it is a new incident, and first in the list.
	pgtest.Exec(t, db, `UPDATE platform.alarms SET last_seen = clock_timestamp() - interval '61 minutes'`)
	raise(t, db, tooFew, "item 1", "")
	if open := list(t, db, open); len(open) != 2 || open[0].Subject != "item 1" || open[0].AcknowledgedBy != nil ||
		open[0].Incident != 2 || !open[0].OpenedAt.After(first.OpenedAt) || !open[0].FirstSeen.Equal(first.FirstSeen) {
		t.Fatalf("open alarms %+v", open)
	}
}

func TestDefineTakesACodeOnceAndExplained(t *testing.T) {
	t.Parallel()
	for name, define := range map[string]func(){
		"twice": func() {
			alarm.Define(tooFew.Code, alarm.Critical, fault.T("Units are missing.", "仅供测试。"), fault.T("Count them.", "请处理。"))
		},
		"no meaning": func() { alarm.Define("test-unsaid", alarm.Critical, fault.Text{}, fault.T("Wait.", "请处理。")) },
		"no help": func() {
			alarm.Define("test-no-help", alarm.Critical, fault.T("Units are missing.", "仅供测试。"), fault.Text{})
		},
	} {
		require.Panics(t, name, define)
	}
}

func TestCollectorCountsOpenAlarms(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	raise(t, db, tooFew, "item 1", "")
	raise(t, db, tooFew, "item 2", "")
	raise(t, db, slow, "refund 1", "")
	raise(t, db, letter, "x", "")
	_, _, err := alarm.Acknowledge(t.Context(), db, list(t, db, alarm.Filter{Code: letter.Code})[0].ID, "Li")
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	registry.MustRegister(alarm.NewCollector(db))
	families, err := registry.Gather()
	require.Equal(t, "families", fmt.Sprint(len(families), err), "1 <nil>")
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
	}
	require.Equal(t, "metric", got, map[string]float64{"test-too-few critical": 2, "test-slow warning": 1})
}

// FuzzParsePlace: a cursor parses to the place that it encodes, or is refused.
func FuzzParsePlace(f *testing.F) {
	f.Add("")
	f.Add("MTc2MDAwMDAwMDAwMDAwMC43")
	f.Add("MS4x")
	f.Add("LTEuLTE")
	f.Add("OTk5OTk5OTk5OTk5OTk5OTk5LjE")
	f.Fuzz(func(t *testing.T, cursor string) {
		place, err := alarm.ParsePlace(cursor)
		if err != nil || cursor == "" {
			return
		}
		if again, err := alarm.ParsePlace(place.String()); err != nil || again != place {
			t.Fatalf("%q: %v, then %v, %v", cursor, place, again, err)
		}
	})
}
