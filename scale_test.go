package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"stampede/platform/bench"
)

// TestBenchScaleInShort plays what `stampede bench --scale` plays, small: sales
// of one item and of ten, and a crowd on a hundredth as many units whose books
// are proved against what every shopper was told.
func TestBenchScaleInShort(t *testing.T) {
	t.Parallel()
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	plot := filepath.Join(t.TempDir(), "scale.svg")
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, "bench", "--scale=short", "--json", "--svg="+plot)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("bench: %v\n%s", err, errs.String())
	}
	var report bench.ScaleReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if len(report.Shoppers) != 1 || len(report.Items) != 1 || report.Million == nil {
		t.Fatalf("%+v", report)
	}
	for _, p := range append(report.Shoppers, report.Items...) {
		if p.Attempts < p.Shoppers || p.PerSecond <= 0 || p.Units != p.Shoppers/100 {
			t.Errorf("%+v", p)
		}
	}
	// Times and memory mean nothing beside the other tests; the counts always do.
	if m := report.Million; !m.Sound() || m.Granted != 50 || m.Orders != 50 || m.Shoppers != 5000 || m.PeakMiB <= 0 {
		t.Errorf("%+v\n%s", m, errs.String())
	}
	if drawn, err := os.ReadFile(plot); err != nil || !bytes.HasPrefix(drawn, []byte("<svg ")) {
		t.Errorf("plot: %v, %.40q", err, drawn)
	}
}
