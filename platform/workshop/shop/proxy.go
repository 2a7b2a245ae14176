package shop

import (
	"context"
	"encoding/json"
	"io"
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
)

// StartNginx starts the example in front of the instances and returns a client
// that resolves both of its names to it, and its log file.
func StartNginx(t *testing.T, program string, instances ...*Instance) (client *http.Client, log string) {
	t.Helper()
	dir := t.TempDir()
	raw, err := os.ReadFile("platform/edge/nginx/stampede.conf")
	if err != nil {
		t.Fatal(err)
	}
	addr := FreeAddr(t)
	conf := string(raw)
	for _, change := range []struct {
		old, to string
		times   int
	}{
		{"listen 80;", "listen " + addr + ";", 2},
		{"10.0.0.11:8080", strings.TrimPrefix(instances[0].URL, "http://"), 2},
		{"10.0.0.12:8080", strings.TrimPrefix(instances[1].URL, "http://"), 2},
		{"/var/cache/nginx/stampede", filepath.Join(dir, "cache"), 1},
		{"error_log /var/log/nginx/error.log crit;", "error_log " + filepath.Join(dir, "log") + " crit;", 2},
	} {
		if got := strings.Count(conf, change.old); got != change.times {
			t.Fatalf("%q appears %d times in the example, want %d", change.old, got, change.times)
		}
		conf = strings.ReplaceAll(conf, change.old, change.to)
	}
	log = filepath.Join(dir, "log")
	main := "daemon off;\nworker_processes 1;\nerror_log " + log + " warn;\npid " + dir + "/pid;\n"
	if os.Geteuid() == 0 { // otherwise the workers could not enter the test's folder
		group, err := user.LookupGroupId("0")
		if err != nil {
			t.Fatal(err)
		}
		main += "user root " + group.Name + ";\n"
	}
	main += "events { worker_connections 1024; }\nhttp {\naccess_log " + log + ";\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += kind + "_temp_path " + filepath.Join(dir, kind) + ";\n" //nolint:modernize // five lines
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(main+conf+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-p", dir, "-e", log, "-c", file) //nolint:gosec,noctx // the nginx found above; it is stopped below
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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

// Answer is an answer received through nginx.
type Answer struct {
	Status int
	Header http.Header
	Text   string
	Doc    map[string]any
}

// Ask sends a request with a client, such as that of StartNginx.
func Ask(t *testing.T, client *http.Client, method, url, token, body string, header ...string) Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := Answer{Status: resp.StatusCode, Header: resp.Header, Text: string(raw)}
	_ = json.Unmarshal(raw, &a.Doc) // pages are not JSON
	return a
}

// The two names of the example.
const (
	SaleName = "http://sale.example.com"
	RushName = "http://rush.example.com"
)
