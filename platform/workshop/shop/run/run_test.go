package run

import (
	"encoding/json"
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
	out := shop.Command(t, 0, "rush", sale, "--shoppers=300", "--conns=32", "--json", "--data="+data)
	var report map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &report))
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
	require.Equal(t, "the status of readyz", shop.Get(t, p.Ops+"/readyz"), http.StatusOK)
	require.Equal(t, "the status of the public metrics", shop.Get(t, p.URL+"/metrics"), http.StatusNotFound)
	require.Equal(t, "the books are proved", playSale(t, data, "--demo")["books_proved"], true)

	// One question that cannot be answered makes every pulse fail; on a busy machine one may come too late.
	const answered = "stampede_pulses_total{result=answered}"
	beats := shop.Scrape(t, p.Ops).Sum(t, answered)
	pgtest.Eventually(t, 30*time.Second, func() bool { return shop.Scrape(t, p.Ops).Sum(t, answered) > beats }, "Postgres answers what the loops ask")

	second := shop.StartRun(t, data)
	<-second.Ended
	require.Equal(t, "exit code of a second start on the same data", second.Cmd.ProcessState.ExitCode(), 13)
	require.Contains(t, "the second start", second.Out.String(), "Another stampede")

	p.End(t, syscall.SIGKILL, 10*time.Second)
	again := shop.StartRun(t, data)
	again.AwaitReady(t)
	shop.Command(t, 0, "verify", "--data="+data)
	operator := strings.TrimSpace(shop.Command(t, 0, "token", "--user=1", "--role=operator", "--data="+data))
	// Opens sooner than another --demo.
	sale, err := loadgen.PlanSale(t.Context(), again.URL, operator, loadgen.Sale{
		Name: "Second sale", Title: "Test phone", Stock: 100, OpensAt: time.Now().Add(2 * time.Second), Open: 10 * time.Minute, PayAfter: 5 * time.Minute,
	})
	require.NoError(t, err)
	assertStoresRestarted(t, again, operator)
	require.Equal(t, "the books are proved after the restart", playSale(t, data, "--item="+sale.ItemID)["books_proved"], true)
	assertOpeningsOnce(t, again.URL)
	require.Equal(t, "exit code after Ctrl-C", again.End(t, syscall.SIGINT, 30*time.Second), 0) // the limit is 10 s
	require.Equal(t, "processes left", shop.ChildrenOf(t, data), "")
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
		raised := string(shop.Exchange(t, http.MethodGet, p.URL+"/api/v1/admin/alarms?code=store-restarted", operator, "").Raw)
		return strings.Contains(raised, "Postgres exited (signal: killed). It answered again after") &&
			strings.Contains(raised, "Redis exited (signal: killed). It answered again after")
	}, "the alarms about Postgres and Redis")
}

// assertOpeningsOnce fails if a restart planned a demo sale a second time.
func assertOpeningsOnce(t *testing.T, url string) {
	t.Helper()
	body := shop.Fetch(t, url+"/api/v1/sessions?limit=100").Raw
	var list struct {
		Data []struct {
			OpensAt time.Time `json:"opens_at"`
		} `json:"data"`
	}
	require.NoError(t, json.Unmarshal(body, &list))
	require.Equal(t, "a list without sessions", len(list.Data) == 0, false)
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
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGINT)) // as timeout(1) does, which signals the group too: still the first
	p.Out.Await(t, `("msg":"stopping")`, 30*time.Second, p.Ended)
	select {
	case <-p.Ended:
		t.Fatal("two signals at once killed it")
	case <-time.After(time.Second): // beyond which the next one is a second signal
	}
	require.Equal(t, "exit code after Ctrl-C twice", p.End(t, syscall.SIGINT, 30*time.Second), 130)
	require.Equal(t, "processes left", shop.ChildrenOf(t, data), "")
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
	require.Equal(t, "exit code", p.Cmd.ProcessState.ExitCode(), 10)
	require.Contains(t, "the output", p.Out.String(), "The address "+l.Addr().String()+" is already in use")
	_, err = os.Stat(data)
	require.ErrorIs(t, err, os.ErrNotExist)

	// Of a second run with the same settings, the first one's is the better reason.
	require.NoError(t, os.Mkdir(data, 0o755))
	lock, err := os.Create(filepath.Join(data, "lock"))
	require.NoError(t, err)
	defer func() { _ = lock.Close() }()
	_, err = lock.WriteString("4711\n")
	require.NoError(t, err)
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
	require.Equal(t, "exit code", p.End(t, syscall.SIGINT, 30*time.Second), 130)
	if said := p.Out.String(); !strings.HasSuffix(said, "stampede: interrupted before it was done\n") || strings.Contains(said, "did not start") {
		t.Errorf("printed:\n%s", said)
	}
	require.Equal(t, "processes left", shop.ChildrenOf(t, data), "")
}
