package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// playSale plays a small sale, --demo or an --item, against the process that
// uses the data, and returns the report.
func playSale(t *testing.T, data, sale string) map[string]any {
	t.Helper()
	var out, errs bytes.Buffer
	code := shop.Run(t.Context(), []string{"rush", sale, "--shoppers=300", "--conns=32", "--json", "--data=" + data}, &out, &errs)
	if code != 0 {
		t.Fatalf("rush %s: exit %d\n%s%s", sale, code, out.String(), errs.String())
	}
	var report map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	return report
}

// TestRunLifecycle is the whole life of the embedded default: a first start
// without data, a sale, a refused second process, kill -9, a start that
// continues, kill -9 of its Postgres and Redis, a sale, and Ctrl-C.
func TestRunLifecycle(t *testing.T) {
	t.Parallel()
	data := shop.DataDir(t)
	p := shop.StartRun(t, data)
	p.AwaitReady(t)
	if status := shop.Get(t, p.Ops+"/readyz"); status != http.StatusOK {
		t.Errorf("readyz answered %d", status)
	}
	if status := shop.Get(t, p.URL+"/metrics"); status != http.StatusNotFound {
		t.Errorf("metrics are on the public address: %d", status)
	}
	if report := playSale(t, data, "--demo"); report["books_proved"] != true {
		t.Errorf("report %v", report)
	}

	second := shop.StartRun(t, data)
	<-second.Ended
	if code := second.Cmd.ProcessState.ExitCode(); code != 13 || !strings.Contains(second.Out.String(), "Another stampede") {
		t.Errorf("a second start on the same data: exit %d, want 13 and one sentence:\n%s", code, second.Out)
	}

	p.End(t, syscall.SIGKILL, 10*time.Second)
	again := shop.StartRun(t, data)
	again.AwaitReady(t)
	var out, errs bytes.Buffer
	if code := shop.Run(t.Context(), []string{"verify", "--data=" + data}, &out, &errs); code != 0 {
		t.Errorf("verify after kill -9: exit %d\n%s%s", code, out.String(), errs.String())
	}
	out.Reset()
	if code := shop.Run(t.Context(), []string{"token", "--user=1", "--role=operator", "--data=" + data}, &out, &errs); code != 0 {
		t.Fatalf("token after the restart: exit %d\n%s", code, errs.String())
	}
	// Opens sooner than another --demo.
	sale, err := loadgen.PlanSale(t.Context(), again.URL, strings.TrimSpace(out.String()), loadgen.Sale{
		Name: "Second sale", Title: "Test phone", Stock: 100, OpensAt: time.Now().Add(2 * time.Second), Open: 10 * time.Minute, PayAfter: 5 * time.Minute,
	})
	require.NoError(t, err)
	assertStoresRestarted(t, again, strings.TrimSpace(out.String()))
	if report := playSale(t, data, "--item="+sale.ItemID); report["books_proved"] != true {
		t.Errorf("report after the restart %v", report)
	}
	assertOpeningsOnce(t, again.URL)
	if code := again.End(t, syscall.SIGINT, 30*time.Second); code != 0 { // the limit is 10 s
		t.Errorf("Ctrl-C: exit %d", code)
	}
	if left := shop.ChildrenOf(t, data); left != "" {
		t.Errorf("processes are left running:\n%s", left)
	}
	pressTwice(t, data)
}

// assertStoresRestarted kills the process's Postgres and Redis and waits until
// both are restarted and operators see it.
func assertStoresRestarted(t *testing.T, p *shop.Process, operator string) {
	t.Helper()
	for pid, r := range shop.Processes(t) {
		if r.Parent == p.Cmd.Process.Pid {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		_, _, raw := shop.Exchange(t, http.MethodGet, p.URL+"/api/v1/admin/alarms?code=store-restarted", operator, "")
		return strings.Contains(string(raw), "Postgres exited (signal: killed). It answered again after") &&
			strings.Contains(string(raw), "Redis exited (signal: killed). It answered again after")
	}, "the alarms about Postgres and Redis")
}

// assertOpeningsOnce fails if a restart planned a demo sale a second time.
func assertOpeningsOnce(t *testing.T, url string) {
	t.Helper()
	_, body := shop.Fetch(t, url+"/api/v1/sessions?limit=100")
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
	p := shop.StartRun(t, data, "--log-format=json")
	p.URL = p.Out.Await(t, `"shop":"(http://\S+?)/"`, 2*time.Minute, p.Ended)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.URL, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: shop\r\n")); err != nil { // but never the end of the header
		t.Fatal(err)
	}
	shop.Get(t, p.URL+"/") // this request is accepted after that connection
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGINT))
	p.Out.Await(t, `("msg":"stopping")`, 30*time.Second, p.Ended)
	if code := p.End(t, syscall.SIGINT, 30*time.Second); code != 130 {
		t.Errorf("Ctrl-C twice: exit %d, want 130", code)
	}
	if left := shop.ChildrenOf(t, data); left != "" {
		t.Errorf("processes are left running:\n%s", left)
	}
	lines := strings.Split(strings.TrimSpace(p.Out.String()), "\n")
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
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	data := shop.DataDir(t)
	p := shop.StartRun(t, data, "--listen="+l.Addr().String())
	<-p.Ended
	if code := p.Cmd.ProcessState.ExitCode(); code != 10 || !strings.Contains(p.Out.String(), "The address "+l.Addr().String()+" is already in use") {
		t.Errorf("exit %d, want 10 and the sentence:\n%s", code, p.Out)
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Error("data was created although nothing could be served")
	}

	// Of a second run with the same settings, the first one's is the better reason.
	require.NoError(t, os.Mkdir(data, 0o755))
	lock, err := os.Create(filepath.Join(data, "lock"))
	require.NoError(t, err)
	defer func() { _ = lock.Close() }()
	if _, err := lock.WriteString("4711\n"); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	p = shop.StartRun(t, data, "--listen="+l.Addr().String())
	<-p.Ended
	want := "stampede: Another stampede (pid 4711) is using the data folder " + data + ": "
	if code := p.Cmd.ProcessState.ExitCode(); code != 13 || !strings.HasPrefix(p.Out.String(), want) || !strings.Contains(p.Out.String(), "is already in use") {
		t.Errorf("exit %d, want 13 and at first %q:\n%s", code, want, p.Out)
	}
}

// TestCtrlCDuringTheStartIsNotAFailure interrupts the first long step, the
// creation of the cluster.
func TestCtrlCDuringTheStartIsNotAFailure(t *testing.T) {
	t.Parallel()
	data := shop.DataDir(t)
	p := shop.StartRun(t, data)
	p.Out.Await(t, `(find Postgres)`, time.Minute, p.Ended)
	if code := p.End(t, syscall.SIGINT, 30*time.Second); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
	if said := p.Out.String(); !strings.HasSuffix(said, "stampede: interrupted before it was done\n") || strings.Contains(said, "did not start") {
		t.Errorf("printed:\n%s", said)
	}
	if left := shop.ChildrenOf(t, data); left != "" {
		t.Errorf("processes are left running:\n%s", left)
	}
}
