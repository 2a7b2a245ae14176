package shop

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// StartNginx starts the example in front of the instances and returns a client
// that resolves both of its names to it, and its log file.
func StartNginx(t *testing.T, program string, instances ...*Instance) (client *http.Client, log string) {
	t.Helper()
	return StartNginxAt(t, FreeAddr(t), program, instances...)
}

// StartNginxAt is StartNginx on an address of 127.0.0.1, which is the shop's name too, and localhost that of the rush.
func StartNginxAt(t *testing.T, addr, program string, instances ...*Instance) (client *http.Client, log string) {
	t.Helper()
	dir := t.TempDir()
	raw, err := os.ReadFile("platform/edge/nginx/stampede.conf")
	require.NoError(t, err)
	conf := string(raw)
	for _, change := range []struct {
		old, to string
		times   int
	}{
		{"listen 80;", "listen " + addr + ";", 2},
		{"10.0.0.11:8080", strings.TrimPrefix(instances[0].URL, "http://"), 2},
		{"10.0.0.12:8080", strings.TrimPrefix(instances[1].URL, "http://"), 2},
		{"server_name sale.example.com;", "server_name sale.example.com 127.0.0.1;", 1},
		{"server_name rush.example.com;", "server_name rush.example.com localhost;", 1},
		{"/var/cache/nginx/stampede", filepath.Join(dir, "cache"), 1},
		{"error_log /var/log/nginx/error.log crit;", "error_log " + filepath.Join(dir, "log") + " crit;", 2},
	} {
		if got := strings.Count(conf, change.old); got != change.times {
			t.Fatalf("%q appears %d times in the example, want %d", change.old, got, change.times)
		}
		conf = strings.ReplaceAll(conf, change.old, change.to)
	}
	var links strings.Builder // the locations that the example's header has for a server of http:// beside TLS
	for line := range strings.Lines(string(raw)) {
		if location, ok := strings.CutPrefix(line, "#     location "); ok {
			links.WriteString("location " + location)
		}
	}
	conf += "server { listen " + addr + "; server_name links.example.com;\n" + links.String() + "}\n"
	cmd, log := NginxCommand(t, program, dir, conf)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // ended by the signal
		if t.Failed() {
			said, _ := os.ReadFile(log)
			t.Logf("nginx printed:\n%s", said)
		}
	})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		conn, err := dial(t.Context(), "", "")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, "nginx to listen")
	transport := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, log
}

// NginxCommand writes nginx's configuration with the content of http { … } into a folder, and returns the command of an
// nginx in the foreground, and its log file.
func NginxCommand(t *testing.T, program, dir, conf string) (cmd *exec.Cmd, log string) {
	t.Helper()
	log = filepath.Join(dir, "log")
	main := "daemon off;\nworker_processes 1;\nerror_log " + log + " warn;\npid " + dir + "/pid;\n"
	if os.Geteuid() == 0 { // otherwise the workers could not enter the test's folder
		group, err := user.LookupGroupId("0")
		require.NoError(t, err)
		main += "user root " + group.Name + ";\n"
	}
	main += "events { worker_connections 4096; }\nhttp {\naccess_log " + log + ";\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += kind + "_temp_path " + filepath.Join(dir, kind) + ";\n" //nolint:modernize // five lines
	}
	file := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(main+conf+"}\n"), 0o600))
	return exec.Command(program, "-p", dir, "-e", log, "-c", file), log //nolint:gosec,noctx // the nginx that was found; the caller ends it
}

// The two names of the example.
const (
	SaleName = "http://sale.example.com"
	RushName = "http://rush.example.com"
)
