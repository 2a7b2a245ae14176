package packaging

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"stampede/platform/base/config"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestPackagingOpenFiles: where the program is deployed, its default connections fit
// the limit of open files.
func TestPackagingOpenFiles(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Ulimits struct{ Nofile struct{ Soft, Hard int } }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(packagingRead(t, "compose.yaml")), &compose))
	limit, err := strconv.Atoi(packagingFind(t, "platform/edge/systemd/stampede.service", `(?m)^LimitNOFILE=([0-9]+)$`))
	require.NoError(t, err)
	set := config.Defaults[httpx.Settings]()
	unbounded, _, err := set.Connections(1<<20, "", 0)
	require.NoError(t, err)
	nofile := compose.Services["stampede"].Ulimits.Nofile
	for where, files := range map[string]int{"the unit": limit, "compose.yaml, soft": nofile.Soft, "compose.yaml, hard": nofile.Hard} {
		if got, _, err := set.Connections(files, "", 0); err != nil || got.Total != unbounded.Total {
			t.Errorf("%s: %d open files allow %d connections, want %d; %v", where, files, got.Total, unbounded.Total, err)
		}
	}
}

// TestPackagingUnit: the unit starts what exists, with variables that exist, waits for the
// drain, and starts again for as long as a store is away.
func TestPackagingUnit(t *testing.T) {
	t.Parallel()
	var stop int
	help, unit := shop.Command(t, 0, "serve", "--help-all"), packagingRead(t, "platform/edge/systemd/stampede.service")
	if !regexp.MustCompile(`(?s)\n\[Unit\]\n.*\nStartLimitIntervalSec=0\n.*\n\[Service\]`).MatchString(unit) {
		t.Error("systemd refuses the sixth start within ten seconds")
	}
	never := packagingFind(t, "platform/edge/systemd/stampede.service", `(?m)^RestartPreventExitStatus=([0-9 ]+)$`)
	require.Equal(t, "what no restart repairs", never, "2 33 34 35 37")
	for _, page := range []string{"upkeep.md", "upkeep.zh-CN.md"} {
		for code := range strings.FieldsSeq(never) {
			require.Contains(t, page, packagingFind(t, "platform/operating/"+page, `(?m)^(30.*systemd.*)$`), code)
		}
	}
	for line := range strings.Lines(unit) {
		line = strings.TrimSpace(line)
		for _, name := range regexp.MustCompile(`STAMPEDE_[A-Z_]+`).FindAllString(line, -1) {
			require.Contains(t, "the help of serve", help, "$"+name+")")
		}
		key, value, ok := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#' || line[0] == '[':
		case !ok:
			t.Errorf("%q is not an assignment", line)
		case key == "ExecStart" && !strings.HasSuffix(value, "/stampede serve"):
			t.Errorf("the unit starts %q", value)
		case key == "TimeoutStopSec":
			stop, _ = strconv.Atoi(value)
		}
	}
	if stop <= 10 {
		t.Errorf("the unit kills the server after %d s, a drain takes up to 10 s", stop)
	}
}

// TestPackagingHeldRequests: nginx's example waits for longer than the 30 s that a held request may be
// without a byte. An operator's stream has an event every second.
func TestPackagingHeldRequests(t *testing.T) {
	t.Parallel()
	var api struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name string }
			Responses  map[string]struct{ Content map[string]any }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(packagingRead(t, "platform/edge/httpx/openapi.json")), &api))
	locations := regexp.MustCompile(`(?s)\n    location ~ (\S+) \{(.*?)\n    \}`).FindAllStringSubmatch(packagingRead(t, "platform/edge/nginx/stampede.conf"), -1)
	held := 0
	for path, operations := range api.Paths {
		read := operations["get"]
		waits := slices.ContainsFunc(read.Parameters, func(p struct{ Name string }) bool { return p.Name == "wait" })
		if _, streams := read.Responses["200"].Content["text/event-stream"]; !waits && !streams || strings.Contains(path, "/admin/") {
			continue
		}
		held++
		at := slices.IndexFunc(locations, func(l []string) bool { return regexp.MustCompile(l[1]).MatchString(path) })
		if at < 0 || !strings.Contains(locations[at][2], "proxy_read_timeout 75s;") {
			t.Errorf("nginx cuts GET %s off", path)
		}
	}
	require.Equal(t, "held requests", held, 2) // a WebSocket is not in the document's responses
}
