package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"stampede/platform/workshop/require"
)

// callEdges are the only imports between modules, each for work that must share
// a transaction or a decision; platform/adr/0002-call-edges.md explains each
// and what would break if it were an event.
var callEdges = map[string][]string{
	"payment": {"order"},
	"order":   {"inventory"},
	"seckill": {"inventory"},
}

// rooms are packages that stand above the other packages of their module, and what else
// they import of another module; platform/adr/0045-the-desk-stands-above.md says why.
var rooms = map[string][]string{
	"order/desk": {"payment/refund", "payment/view"},
}

var modules = []string{"seckill", "order", "payment", "inventory", "notify"}

// folders are all that the program's packages may be in.
var folders = append([]string{"platform", "migrations"}, modules...)

// wings are the parts of platform in their order: each imports itself and those
// before it. platform/adr/0012-six-wings.md says what belongs in each.
var wings = []string{"base", "store", "edge", "watch", "identity", "workshop"}

// againstOrder are remaining imports that violate the order.
var againstOrder = map[string][]string{
	"platform/base/config": {
		"platform/store/redisx", "platform/edge/auth", "platform/edge/httpx", "platform/edge/ratelimit", "platform/watch/alarm",
		"platform/identity/humancheck", "platform/edge/sms",
	},
}

// TestImportsFollowTheArchitecture parses the files instead of running `go
// list`, because go test's cache would then miss a new violation.
func TestImportsFollowTheArchitecture(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	files := 0
	check := func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
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
	}
	// The folder above them is not opened: it has git's folder, which changes while
	// tests run, and go test would run these again each time.
	for _, top := range append([]string{"main.go"}, folders...) {
		require.NoError(t, filepath.WalkDir(top, check))
	}
	if files < 50 {
		t.Fatalf("only %d files were read; the walk is broken", files)
	}
}

// forbidden returns why file must not import imported, "" if it may.
func forbidden(file, imported string) string {
	rest, ours := strings.CutPrefix(imported, "stampede/")
	if !ours {
		return ""
	}
	from, _, _ := strings.Cut(file, "/")
	to, _, _ := strings.Cut(rest, "/")
	switch {
	case strings.HasSuffix(path.Dir(file), "event") && slices.Contains(modules, from):
		// An event package may use ids and the currencies' table and nothing else of
		// ours: a consumer must not depend on an event's producer.
		if rest != "platform/base/ids" && rest != "platform/base/currency" {
			return "an event package imports nothing of ours but platform/base/ids and platform/base/currency"
		}
	case !slices.Contains(folders, to):
		return "the top level has no other folder than " + strings.Join(folders, ", ")
	case !strings.Contains(file, "/"):
		// main imports everything.
	case from == to && from != "platform":
		// Within a module everything is allowed.
	case strings.HasSuffix(rest, "event") && slices.Contains(modules, to):
		if from == "platform" {
			return "platform knows no module, not even its events"
		}
	case to == "platform":
		return misplaced(file, rest)
	case to == "migrations":
		if from != "platform" {
			return "only platform applies migrations"
		}
	case from == "platform":
		return "platform imports platform only"
	case slices.Contains(rooms[path.Dir(file)], rest):
	case strings.HasSuffix(file, "_test.go") && below(from, to):
		// A test sets up the modules that its own module depends on.
	case !slices.Contains(callEdges[from], to):
		return "modules talk through events; a new call edge needs an ADR and a line in callEdges"
	case strings.Contains(rest, "/"):
		return "a module's sub-packages are private to it"
	}
	return ""
}

// misplaced returns why file must not import a package of platform. Tests may
// import any.
func misplaced(file, imported string) string {
	from, to := wing(file), wing(imported)
	switch dir := path.Dir(file); {
	case strings.HasSuffix(file, "_test.go"), slices.Contains(againstOrder[dir], imported):
	case to < 0 || from < 0 && strings.HasPrefix(file, "platform/"):
		return "a package of platform is in one of the wings " + strings.Join(wings, ", ")
	case wings[to] == "workshop" && from != to && !strings.HasSuffix(dir, "test"):
		return "only main, tests and their kits use the workshop"
	case from >= 0 && from < to:
		return "the wings of platform have an order: " + strings.Join(wings, ", ")
	}
	return ""
}

// wing returns the index in wings of a file or package, -1 if it is in none.
func wing(name string) int {
	rest, _ := strings.CutPrefix(name, "platform/")
	first, _, _ := strings.Cut(rest, "/")
	return slices.Index(wings, first)
}

// declares finds a file's program-wide declarations: alarm codes and crash points.
var declares = regexp.MustCompile(`(?:alarm\.Define|failpoint\.New|failpoint\.NewErr)\(\s*"([^"]+)"`)

// TestPlatformNamesNoModulesAlarmOrPoint reads whole files, because a comment
// or a message that names a module's alarm goes stale as easily as code.
func TestPlatformNamesNoModulesAlarmOrPoint(t *testing.T) {
	t.Parallel()
	sources := map[string]string{}
	for _, dir := range append([]string{"platform"}, modules...) {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(name)
			sources[filepath.ToSlash(name)] = string(raw)
			return err
		})
		require.NoError(t, err)
	}
	require.Equal(t, "a module's alarms and points named by platform", namedByPlatform(sources), nil)
	sources["order/planted.go"] = `alarm.Define("planted-code", alarm.Critical, "", "")`
	sources["payment/planted.go"] = "failpoint.NewErr(\n\t\"planted-point\", \"\")"
	sources["platform/base/planted.go"] = "// See planted-code. \nif name == `planted-point` {}"
	require.Equal(t, "violations found of two planted ones", len(namedByPlatform(sources)), 2)
}

// namedByPlatform lists the names in platform's files that a module declares.
func namedByPlatform(sources map[string]string) (found []string) {
	for owner, source := range sources {
		if strings.HasPrefix(owner, "platform/") || !strings.Contains(source, "alarm.Define(") && !strings.Contains(source, "failpoint.New") {
			continue // the expression takes seconds for the whole of the modules
		}
		for _, declared := range declares.FindAllStringSubmatch(source, -1) {
			word := regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(declared[1]) + `([^\w-]|$)`)
			for name, source := range sources {
				if strings.HasPrefix(name, "platform/") && strings.Contains(source, declared[1]) && word.MatchString(source) {
					found = append(found, name+" names "+declared[1]+", which "+owner+" declares")
				}
			}
		}
	}
	return found
}

// below reports whether a module depends on another over any number of edges.
func below(from, to string) bool {
	for _, next := range callEdges[from] {
		if next == to || below(next, to) {
			return true
		}
	}
	return false
}

func TestPlantedViolationsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, imported string
		allowed        bool
	}{
		{"order/writer.go", "stampede/inventory", true},
		{"order/writer.go", "stampede/seckill/seckillevent", true},
		{"order/writer.go", "stampede/platform/store/pg", true},
		{"main.go", "stampede/notify", true},
		{"order/orderevent/event.go", "stampede/platform/base/ids", true},
		{"payment/pay_test.go", "stampede/inventory", true},
		{"payment/pay.go", "stampede/inventory", false},
		{"order/writer_test.go", "stampede/payment", false},
		{"order/writer.go", "stampede/payment", false},
		{"order/desk/desk.go", "stampede/payment/view", true},
		{"order/desk/desk.go", "stampede/payment", false},
		{"order/search/view.go", "stampede/payment/view", false},
		{"payment/pay.go", "stampede/order/desk", false},
		{"inventory/load.go", "stampede/order", false},
		{"seckill/rush/lane.go", "stampede/order", false},
		{"notify/hub.go", "stampede/order", false},
		{"platform/store/bus/bus.go", "stampede/order/orderevent", false},
		{"platform/store/bus/bus.go", "stampede/seckill", false},
		{"order/orderevent/event.go", "stampede/order", false},
		{"order/orderevent/event.go", "stampede/platform/store/bus", false},
		{"payment/pay.go", "stampede/order/internal/orderdb", false},
		{"order/writer.go", "stampede/migrations", false},
		{"platform/watch/alarm/probes.go", "stampede/platform/store/bus", true},
		{"platform/watch/alarm/watch.go", "stampede/platform/watch/proof", true},
		{"platform/store/outbox/relay_test.go", "stampede/platform/watch/alarm", true},
		{"platform/workshop/cli/serve.go", "stampede/platform/identity/account", true},
		{"platform/store/outbox/relay.go", "stampede/platform/watch/alarm", false},
		{"platform/base/telemetry/log.go", "stampede/platform/edge/httpx", false},
		{"platform/edge/httpx/router.go", "stampede/platform/identity", false},
		{"platform/watch/alarm/watch.go", "stampede/platform/identity/account", false},
		{"platform/identity/identity.go", "stampede/platform/attic", false},
		{"platform/attic/old.go", "stampede/platform/base/ids", false},
		{"main.go", "stampede/attic", false},
		{"main.go", "stampede/platform/workshop/cli", true},
		{"order/setup_test.go", "stampede/platform/workshop/pgtest", true},
		{"seckill/internal/seckilltest/bundle.go", "stampede/platform/workshop/pgtest", true},
		{"payment/pay.go", "stampede/platform/workshop/bench", false},
		{"platform/identity/identity.go", "stampede/platform/workshop/pgtest", false},
	} {
		if why := forbidden(c.file, c.imported); (why == "") != c.allowed {
			t.Errorf("forbidden(%s, %s) = %q, want allowed: %v", c.file, c.imported, why, c.allowed)
		}
	}
}
