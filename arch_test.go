package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// callEdges are the only imports between modules, each for work that must share
// a transaction or a decision; platform/adr/0002-call-edges.md says which and
// what would break as an event.
var callEdges = map[string][]string{
	"payment": {"order"},
	"order":   {"inventory"},
	"seckill": {"inventory"},
}

var modules = []string{"seckill", "order", "payment", "inventory", "notify"}

// TestImportsFollowTheArchitecture parses the files rather than asking
// `go list`, whose answer go test would cache across a violation.
func TestImportsFollowTheArchitecture(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	files := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != "." {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files++
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if why := forbidden(filepath.ToSlash(name), imported); why != "" {
				t.Errorf("%s imports %s: %s", name, imported, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Fatalf("only %d files were read; the walk is broken", files)
	}
}

// forbidden says why file must not import imported, "" when it may.
func forbidden(file, imported string) string {
	rest, ours := strings.CutPrefix(imported, "stampede/")
	if !ours {
		return ""
	}
	from, _, _ := strings.Cut(file, "/")
	to, _, _ := strings.Cut(rest, "/")
	switch {
	case strings.HasSuffix(path.Dir(file), "event") && slices.Contains(modules, from):
		// An event package may name ids, and nothing else of ours: whoever
		// consumes an event must not be bound to its producer.
		if rest != "platform/ids" {
			return "an event package imports nothing of ours but platform/ids"
		}
	case from == to || !strings.Contains(file, "/"):
		// Within a module, and in main, everything is allowed.
	case strings.HasSuffix(rest, "event") && slices.Contains(modules, to):
		if from == "platform" {
			return "platform knows no module, not even its events"
		}
	case to == "platform":
	case to == "migrations":
		if from != "platform" {
			return "only platform applies migrations"
		}
	case from == "platform":
		return "platform imports platform only"
	case strings.HasSuffix(file, "_test.go") && below(from, to):
		// A test sets up the modules that its own stands on.
	case !slices.Contains(callEdges[from], to):
		return "modules talk through events; a new call edge needs an ADR and a line in callEdges"
	case strings.Contains(rest, "/"):
		return "a module's sub-packages are its own"
	}
	return ""
}

// below reports whether a module stands on another, over any number of edges.
func below(from, to string) bool {
	for _, next := range callEdges[from] {
		if next == to || below(next, to) {
			return true
		}
	}
	return false
}

func TestPlantedViolationsAreSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, imported string
		allowed        bool
	}{
		{"order/writer.go", "stampede/inventory", true},
		{"order/writer.go", "stampede/seckill/seckillevent", true},
		{"order/writer.go", "stampede/platform/pg", true},
		{"main.go", "stampede/notify", true},
		{"order/orderevent/event.go", "stampede/platform/ids", true},
		{"payment/pay_test.go", "stampede/inventory", true},
		{"payment/pay.go", "stampede/inventory", false},
		{"order/writer_test.go", "stampede/payment", false},
		{"order/writer.go", "stampede/payment", false},
		{"inventory/load.go", "stampede/order", false},
		{"seckill/rush/lane.go", "stampede/order", false},
		{"notify/hub.go", "stampede/order", false},
		{"platform/bus/bus.go", "stampede/order/orderevent", false},
		{"platform/bus/bus.go", "stampede/seckill", false},
		{"order/orderevent/event.go", "stampede/order", false},
		{"order/orderevent/event.go", "stampede/platform/bus", false},
		{"payment/pay.go", "stampede/order/internal/orderdb", false},
		{"order/writer.go", "stampede/migrations", false},
	} {
		if why := forbidden(c.file, c.imported); (why == "") != c.allowed {
			t.Errorf("forbidden(%s, %s) = %q, want allowed: %v", c.file, c.imported, why, c.allowed)
		}
	}
}
