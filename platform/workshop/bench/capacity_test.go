package bench

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

// measured is a report with costs that are easy to reckon with.
func measured() *Report {
	result := func(name string, server, redis, postgres, nats float64) Result {
		return Result{Stage: &Stage{Name: name}, OursCPU: map[string]float64{nameServer: server, processRedis: redis, processPostgres: postgres, nameNATS: nats}}
	}
	return &Report{Cores: 2, Instances: 1, At: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), Stages: []Result{
		result("refusal", 10, 0, 0, 0), result("paths", 30, 1, 0, 0), result("whole", 50, 14, 20, 40),
	}}
}

func sale() Demand {
	return Demand{
		Shoppers: 10_000_000, Units: 10_000, Within: 5 * time.Second, PathsIn: time.Minute,
		Cores: 8, Busy: 0.5, LineGbit: 1, Hours: 2, CoreHour: 0.5, GB: 0.1,
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	needs := func(d Demand) (map[string]float64, *Capacity) {
		c, values := measured().Capacity(d), map[string]float64{}
		for _, n := range c.Needs {
			values[n.Name] = n.Value
		}
		return values, c
	}
	for _, test := range []struct {
		name  string
		sale  func(*Demand)
		want  map[string]float64
		first string
	}{
		{"refusals decide", func(*Demand) {}, map[string]float64{
			"server":        2 * (10_000*50 + 9_990_000*10) * 1e-6 / 5, // 40.16
			"instances":     6,
			"redis":         2 * 10_000_000 * 1e-6 / 60, // limits of users: 0.33
			"redis nodes":   3,
			"stock shards":  1,
			"postgres":      2 * 10_000 * 20e-6 / 5,
			"nats":          2 * 10_000 * 40e-6 / 5,
			"bandwidth in":  (10_000_000*900 + 10_000*3*900) * 8 / 1e9 / 5,
			"bandwidth out": (10_000_000*700 + 10_000*3*1300) * 8 / 1e9 / 5,
			"money":         (6*8+3+1+3)*2*0.5 + (10_000_000*1600+10_000*3*1300)/1e9*0.1,
		}, "bandwidth in"},
		{"paths decide, on a wide line", func(d *Demand) { d.Within, d.PathsIn, d.LineGbit = time.Minute, 10*time.Second, 1000 }, map[string]float64{
			"server": 2 * 10_000_000 * 30e-6 / 10, "instances": 8, "bandwidth in": 10_000_000 * 1100 * 8 / 1e9 / 10,
		}, "server"},
		{"one item of many units needs shards", func(d *Demand) { d.Shoppers, d.Units, d.PathsIn, d.LineGbit = 1_000_000, 1_000_000, time.Hour, 1000 }, map[string]float64{
			"redis": 2 * 1_000_000 * 14e-6 / 5, "redis nodes": 6, "stock shards": 6, "postgres": 2 * 1_000_000 * 20e-6 / 5,
		}, "server"},
		{"a small sale needs what survives a loss", func(d *Demand) { d.Shoppers, d.Units, d.CoreHour, d.GB = 100, 1000, 0, 0 }, map[string]float64{
			"instances": 2, "redis nodes": 3, "stock shards": 1, "postgres": 2 * 100 * 20e-6 / 5, "money": 0,
		}, "bandwidth out"},
	} {
		d := sale()
		test.sale(&d)
		got, c := needs(d)
		for name, want := range test.want {
			if math.Abs(got[name]-want) > 1e-9*max(1, want) {
				t.Errorf("%s: %s is %v, want %v", test.name, name, got[name], want)
			}
		}
		require.Equal(t, test.name+": first to run out", c.First, test.first)
	}

	var out strings.Builder
	_, c := needs(sale())
	require.NoError(t, c.Write(&out))
	for _, part := range []string{
		"10,000,000 shoppers for 10,000 units within 5s, by the costs of 2026-11-27 12:00:00 (instances on clusters: 1)", "(10,000 orders × 50.0 µs + 9,990,000 refusals × 10.0 µs) ÷ 5s = 20.1, 50 % busy",
		"bandwidth in runs out first: the sale needs 14.44 times",
	} {
		require.Contains(t, "the report", out.String(), part)
	}
}

// TestNamesOfStores: a capacity finds the costs of the Redis that ran, whatever program it is.
func TestNamesOfStores(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{"redis-server": processRedis, "valkey-server": processRedis, "postgres": processPostgres} {
		require.Equal(t, "the name of "+program, nameOfStore(program), want)
	}
}

func TestReportIsKeptIfComplete(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cache", "bench.json")
	_, err := Load(file)
	require.ErrorIs(t, err, ErrNoBench)
	for name, spoil := range map[string]func(*Report){
		"quick": func(r *Report) { r.Quick = true }, "two stages": func(r *Report) { r.Stages = r.Stages[:2] },
		"without processor times": func(r *Report) { r.Stages[0].OursCPU = nil },
		"without Redis's":         func(r *Report) { delete(r.Stages[2].OursCPU, processRedis) },
		"without Postgres's":      func(r *Report) { delete(r.Stages[2].OursCPU, processPostgres) },
	} {
		r := measured()
		spoil(r)
		saved, err := r.Save(file)
		require.NoError(t, err)
		require.Equal(t, name+" is kept", saved, false)
		raw, err := json.Marshal(r)
		require.NoError(t, err)
		spoiled := filepath.Join(t.TempDir(), "spoiled.json")
		require.NoError(t, os.WriteFile(spoiled, raw, 0o600))
		_, err = Load(spoiled)
		require.ErrorIs(t, err, ErrNoBench)
	}
	saved, err := measured().Save(file)
	require.NoError(t, err)
	require.Equal(t, "a complete one is kept", saved, true)
	read, err := Load(file)
	require.NoError(t, err)
	require.Equal(t, "what it needs", read.Capacity(sale()).Needs, measured().Capacity(sale()).Needs)
}
