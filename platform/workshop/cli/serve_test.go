package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/config"
	"stampede/platform/base/telemetry"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// served runs a command up to what it shows of a server whose shop has an admin, and
// returns what it printed; log receives the server's lines.
func served(t *testing.T, cmd *Serve, log io.Writer, unknown unknownVariables) (printed string) {
	t.Helper()
	var out, errs bytes.Buffer
	lines := slog.New(slog.NewTextHandler(log, nil))
	serve := func(_ context.Context, _ Streams, _ Stack, show func(Parts) error) error {
		return show(Parts{
			Log: lines, Invite: func(context.Context) (string, error) { return "", nil },
			Router: httpx.NewRouter(auth.NewTokens([]byte(oneKey), time.Now), lines, "test", prometheus.NewRegistry()),
		})
	}
	inForce := func() []config.Setting { return nil }
	require.NoError(t, cmd.Run(t.Context(), inForce, Streams{Out: &out, Err: &errs}, serve, "v1", unknown))
	return out.String() + errs.String()
}

// TestJSONLogCoversAllOutput checks both streams, since a container's log
// contains both.
func TestJSONLogCoversAllOutput(t *testing.T) {
	t.Parallel()
	cmd := Serve{Settings: newTestSettings()}
	cmd.Addresses = httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: "127.0.0.1:9180"}
	cmd.Logs = telemetry.Settings{LogFormat: "json", LogLevel: "warn"}
	var said []map[string]any
	for line := range strings.Lines(served(t, &cmd, io.Discard, unknownVariables{"STAMPEDE_X is not a setting"})) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		said = append(said, fields)
	}
	if len(said) != 4 || said[0]["msg"] != "embedded nats" || said[1]["msg"] != "serving" || said[1]["url"] != "http://127.0.0.1:8080" ||
		said[1]["version"] != "v1" || said[2]["url"] != "http://127.0.0.1:8080/admin" ||
		said[3]["level"] != "WARN" || !strings.Contains(fmt.Sprint(said[3]["variables"]), "STAMPEDE_X") {
		t.Errorf("it said %v", said)
	}
}

// TestServeAnnouncesWarnings: links that lead other users to their own machine,
// and the folder of the streams.
func TestServeAnnouncesWarnings(t *testing.T) {
	t.Parallel()
	here, _, err := streamsFolder("")
	require.NoError(t, err)
	for _, c := range []struct {
		listen, public, nats string
		warned               bool
	}{
		{":8080", "", "", true},
		{":8080", "http://localhost:8080", "nats://h:4222", true},
		{":8080", "https://sale.example.com", "", false},
		{"127.0.0.1:8080", "", "nats://h:4222", false},
	} {
		var log bytes.Buffer
		cmd := Serve{Settings: newTestSettings(), Stores: Stores{NATSURL: c.nats}}
		cmd.Addresses = httpx.Addresses{Listen: c.listen, PublicURL: c.public}
		out := served(t, &cmd, &log, nil)
		if got := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "STAMPEDE_PUBLIC_URL"); got != c.warned {
			t.Errorf("%+v: logged %q", c, log.String())
		}
		if got := strings.Contains(out, "keeps its streams in "+here+" (--nats-dir)\n"); got != (c.nats == "") {
			t.Errorf("%+v: printed %q", c, out)
		}
	}
}

// TestFirstAdminsLinkIsInNoJSONLine: collectors keep such lines, which name a file that
// only the server's account reads. There is one, which goes once the shop has an admin.
func TestFirstAdminsLinkIsInNoJSONLine(t *testing.T) {
	dir, secret := t.TempDir(), "a-secret"
	t.Setenv("TMPDIR", dir)
	parts := Parts{Invite: func(context.Context) (string, error) { return secret, nil }}
	const base, link = "https://sale.example.com", "https://sale.example.com/admin/first-admin?link="
	if said, err := backOffice(t.Context(), parts, base, "text"); err != nil || !strings.HasPrefix(said, link+secret+" ") {
		t.Errorf("a terminal shows %q, %v", said, err)
	}
	file := ""
	for _, secret = range []string{"a-secret", "another-secret"} {
		said, err := backOffice(t.Context(), parts, base, "json")
		if err != nil || strings.Contains(said, secret) {
			t.Fatalf("a line of JSON says %q, %v", said, err)
		}
		_, file, _ = strings.Cut(strings.TrimSuffix(said, ")"), "in the file ")
		raw, err := os.ReadFile(file)
		if err != nil || string(raw) != link+secret+"\n" {
			t.Fatalf("the file has %q, %v", raw, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
			t.Errorf("its mode is %v, %v", info.Mode(), err)
		}
		if all, err := os.ReadDir(dir); len(all) != 1 {
			t.Errorf("files: %v, %v", all, err)
		}
	}
	t.Setenv("TMPDIR", file) // no folder
	if said, err := backOffice(t.Context(), parts, base, "json"); err != nil || strings.Contains(said, secret) || !strings.Contains(said, "--log-format=text") {
		t.Errorf("without a place for the file: %q, %v", said, err)
	}
	t.Setenv("TMPDIR", dir)
	secret = ""
	said, err := backOffice(t.Context(), parts, base, "json")
	if _, gone := os.Stat(file); said != base+"/admin" || err != nil || !os.IsNotExist(gone) {
		t.Errorf("with an admin: %q, %v; the file: %v", said, err, gone)
	}
}
