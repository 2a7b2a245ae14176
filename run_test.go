package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
)

// process is a `stampede run` in a separate process.
type process struct {
	cmd   *exec.Cmd
	out   *console
	url   string
	ops   string
	ended chan struct{}

	points string // the armed fail points
}

func startRun(t *testing.T, data string, args ...string) *process {
	t.Helper()
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{out: newConsole(), ended: make(chan struct{})}
	p.cmd = exec.Command(name, append([]string{"run", "--data=" + data, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--log-level=warn"}, args...)...)
	p.start(t)
	return p
}

// start starts the command in its own process group and ends it with the test.
// Its standard output is also copied to the writers in out.
func (p *process) start(t *testing.T, out ...io.Writer) {
	t.Helper()
	p.cmd.Stdout, p.cmd.Stderr = io.MultiWriter(append(out, p.out)...), p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(30 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
		if t.Failed() {
			t.Logf("the process %q with %q printed:\n%s", p.cmd.Args[1:], p.points, p.out)
		}
	})
}

func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	p.url = p.out.await(t, `Shop\s+(http://\S+?)/\n`, 2*time.Minute, p.ended)
	p.ops = p.out.await(t, `Health\s+(http://\S+)/readyz`, 10*time.Second, p.ended)
}

// end sends a signal and returns the exit code; -1 if the process was killed.
func (p *process) end(t *testing.T, sig syscall.Signal, within time.Duration) int {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("the process did not exit within %s", within)
		return 0
	}
}

// playSale plays a small sale, --demo or an --item, against the process that
// uses the data, and returns the report.
func playSale(t *testing.T, data, sale string) map[string]any {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"rush", sale, "--shoppers=300", "--conns=32", "--json", "--data=" + data}, &out, &errs)
	if code != 0 {
		t.Fatalf("rush %s: exit %d\n%s%s", sale, code, out.String(), errs.String())
	}
	var report map[string]any
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// dataDir returns a folder that the account running Postgres for root can
// enter: testing's temporary folders are below folders of mode 0700.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stampede-run-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "data")
}

// TestRunLifecycle is the whole life of the embedded default: a first start
// without data, a sale, a refused second process, kill -9, a start that
// continues, kill -9 of its Postgres and Redis, a sale, and Ctrl-C.
func TestRunLifecycle(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	p := startRun(t, data)
	p.awaitReady(t)
	if status := get(t, p.ops+"/readyz"); status != http.StatusOK {
		t.Errorf("readyz answered %d", status)
	}
	if status := get(t, p.url+"/metrics"); status != http.StatusNotFound {
		t.Errorf("metrics are on the public address: %d", status)
	}
	if report := playSale(t, data, "--demo"); report["books_proved"] != true {
		t.Errorf("report %v", report)
	}

	second := startRun(t, data)
	<-second.ended
	if code := second.cmd.ProcessState.ExitCode(); code != 13 || !strings.Contains(second.out.String(), "Another stampede") {
		t.Errorf("a second start on the same data: exit %d, want 13 and one sentence:\n%s", code, second.out)
	}

	p.end(t, syscall.SIGKILL, 10*time.Second)
	again := startRun(t, data)
	again.awaitReady(t)
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"verify", "--data=" + data}, &out, &errs); code != 0 {
		t.Errorf("verify after kill -9: exit %d\n%s%s", code, out.String(), errs.String())
	}
	out.Reset()
	if code := run(t.Context(), []string{"token", "--user=1", "--role=operator", "--data=" + data}, &out, &errs); code != 0 {
		t.Fatalf("token after the restart: exit %d\n%s", code, errs.String())
	}
	// Opens sooner than another --demo.
	sale, err := loadgen.PlanSale(t.Context(), again.url, strings.TrimSpace(out.String()), loadgen.Sale{
		Name: "Second sale", Title: "Test phone", Stock: 100, OpensAt: time.Now().Add(2 * time.Second), Open: 10 * time.Minute, PayAfter: 5 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	assertStoresRestarted(t, again, strings.TrimSpace(out.String()))
	if report := playSale(t, data, "--item="+sale.ItemID); report["books_proved"] != true {
		t.Errorf("report after the restart %v", report)
	}
	assertOpeningsOnce(t, again.url)
	if code := again.end(t, syscall.SIGINT, 30*time.Second); code != 0 { // the limit is 10 s
		t.Errorf("Ctrl-C: exit %d", code)
	}
	if left := childrenOf(t, data); left != "" {
		t.Errorf("processes are left running:\n%s", left)
	}
	pressTwice(t, data)
}

// assertStoresRestarted kills the process's Postgres and Redis and waits until
// both are restarted and operators see it.
func assertStoresRestarted(t *testing.T, p *process, operator string) {
	t.Helper()
	for pid, r := range processes(t) {
		if r.parent == p.cmd.Process.Pid {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		_, _, raw := exchange(t, http.MethodGet, p.url+"/api/v1/admin/alarms?code=store-restarted", operator, "")
		return strings.Contains(string(raw), "Postgres exited (signal: killed). It answered again after") &&
			strings.Contains(string(raw), "Redis exited (signal: killed). It answered again after")
	}, "the alarms about Postgres and Redis")
}

// assertOpeningsOnce fails if a restart planned a demo sale a second time.
func assertOpeningsOnce(t *testing.T, url string) {
	t.Helper()
	_, body := fetch(t, url+"/api/v1/sessions?limit=100")
	var list struct {
		Data []struct {
			OpensAt time.Time `json:"opens_at"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil || len(list.Data) == 0 {
		t.Fatalf("%v: %s", err, body)
	}
	seen := map[time.Time]bool{}
	for _, s := range list.Data {
		if seen[s.OpensAt] {
			t.Errorf("two sessions open at %s: %s", s.OpensAt, body)
		}
		seen[s.OpensAt] = true
	}
}

// pressTwice presses Ctrl-C again while a stop waits for a request: the
// process's children must end with it. All its output is JSON log lines, except
// the last line, which announces this.
func pressTwice(t *testing.T, data string) {
	t.Helper()
	p := startRun(t, data, "--log-format=json")
	p.url = p.out.await(t, `"shop":"(http://\S+?)/"`, 2*time.Minute, p.ended)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: shop\r\n")); err != nil { // but never the end of the header
		t.Fatal(err)
	}
	get(t, p.url+"/") // this request is accepted after that connection
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.out.await(t, `("msg":"stopping")`, 30*time.Second, p.ended)
	if code := p.end(t, syscall.SIGINT, 30*time.Second); code != exitInterrupted {
		t.Errorf("Ctrl-C twice: exit %d, want 130", code)
	}
	if left := childrenOf(t, data); left != "" {
		t.Errorf("processes are left running:\n%s", left)
	}
	lines := strings.Split(strings.TrimSpace(p.out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "stampede: killed by a second signal, together with Postgres and Redis") {
		t.Errorf("its last line is %q", last)
	}
	for _, line := range lines[:len(lines)-1] {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}

func TestRunNamesAPortInUse(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	data := dataDir(t)
	p := startRun(t, data, "--listen="+l.Addr().String())
	<-p.ended
	if code := p.cmd.ProcessState.ExitCode(); code != 10 || !strings.Contains(p.out.String(), "The address "+l.Addr().String()+" is already in use") {
		t.Errorf("exit %d, want 10 and the sentence:\n%s", code, p.out)
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Error("data was created although nothing could be served")
	}

	// Of a second run with the same settings, the first one's is the better reason.
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(data, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if _, err := lock.WriteString("4711\n"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	p = startRun(t, data, "--listen="+l.Addr().String())
	<-p.ended
	want := "stampede: Another stampede (pid 4711) is using the data folder " + data + ": "
	if code := p.cmd.ProcessState.ExitCode(); code != 13 || !strings.HasPrefix(p.out.String(), want) || !strings.Contains(p.out.String(), "is already in use") {
		t.Errorf("exit %d, want 13 and at first %q:\n%s", code, want, p.out)
	}
}

// TestCtrlCDuringTheStartIsNotAFailure interrupts the first long step, the
// creation of the cluster.
func TestCtrlCDuringTheStartIsNotAFailure(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	p := startRun(t, data)
	p.out.await(t, `(find Postgres)`, time.Minute, p.ended)
	if code := p.end(t, syscall.SIGINT, 30*time.Second); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
	if said := p.out.String(); !strings.HasSuffix(said, "stampede: interrupted before it was done\n") || strings.Contains(said, "did not start") {
		t.Errorf("printed:\n%s", said)
	}
	if left := childrenOf(t, data); left != "" {
		t.Errorf("processes are left running:\n%s", left)
	}
}

// TestConfigPrintsInvalidSettings: an operator runs config to see what is wrong.
func TestConfigPrintsInvalidSettings(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"config", "--listen=nowhere"}, &out, &errs); code != 2 {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(out.String(), "nowhere") || !strings.Contains(errs.String(), "serve would refuse this: --listen must be host:port") {
		t.Errorf("printed\n%s%s", out.String(), errs.String())
	}
}

func get(t *testing.T, url string) int {
	t.Helper()
	status, _ := fetch(t, url)
	return status
}

// fetch reads a URL that needs no token.
func fetch(t *testing.T, url string) (status int, body []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}
