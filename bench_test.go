package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"stampede/platform/bench"
	"stampede/platform/cli"
)

// TestBenchMeasuresEveryStage runs the short form of `stampede bench`, which is
// the same code with few operations: with a server of its own, real stores and
// real sockets.
func TestBenchMeasuresEveryStage(t *testing.T) {
	t.Parallel()
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, "bench", "--quick", "--json")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("bench: %v\n%s", err, errs.String())
	}
	var report bench.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	stages := table().Bench.All
	if len(report.Stages) != len(stages) {
		t.Fatalf("%d stages were measured, there are %d", len(report.Stages), len(stages))
	}
	for i, res := range report.Stages {
		if res.Name != stages[i].Name || res.Ratio <= 0 || res.FloorPerSecond <= 0 || res.OursPerSecond <= 0 {
			t.Errorf("stage %s: %+v", stages[i].Name, res)
		}
		for _, f := range res.Figures {
			if f.Value < 0 {
				t.Errorf("stage %s: %s is %v", res.Name, f.Name, f.Value)
			}
		}
	}
}

func TestBenchNamesItsStages(t *testing.T) {
	t.Parallel()
	all := table().Bench.All
	field, _ := reflect.TypeFor[cli.Bench]().FieldByName("Stages")
	if !strings.Contains(field.Tag.Get("help"), all.Names()) {
		t.Errorf("the help of --stages does not list %s", all.Names())
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"bench", "--stages=nonsense"}, &out, &errs); code != 2 || !strings.Contains(errs.String(), all.Names()) {
		t.Errorf("an unknown stage: exit %d, %s", code, errs.String())
	}
	errs.Reset()
	if code := run(t.Context(), []string{"bench", "--rounds=0"}, &out, &errs); code != 2 {
		t.Errorf("no rounds: exit %d, %s", code, errs.String())
	}
}
