package shop

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	psutil "github.com/shirou/gopsutil/v4/process"

	"stampede/platform/workshop/require"
)

// Process is a `stampede run` in a separate process.
type Process struct {
	Cmd   *exec.Cmd
	Out   *Console
	URL   string
	Ops   string
	Ended <-chan struct{}
}

// StartRun starts `stampede run` on free ports with its data in a folder, as users run it.
func StartRun(t *testing.T, data string, args ...string) *Process {
	t.Helper()
	p := &Process{Out: NewConsole()}
	p.Cmd = exec.Command(ImageProgram(t), append([]string{"run", "--data=" + data, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--log-level=warn"}, args...)...) //nolint:gosec,noctx // the program under test; launch ends it
	p.Start(t)
	return p
}

// Start starts the command and ends it with the test. Its standard output is also copied to the writers in out.
func (p *Process) Start(t *testing.T, out ...io.Writer) {
	t.Helper()
	p.Cmd.Stdout, p.Cmd.Stderr = io.MultiWriter(append(out, p.Out)...), p.Out
	p.Ended = launch(t, p.Cmd, p.Out)
}

// AwaitReady returns once the shop serves.
func (p *Process) AwaitReady(t *testing.T) {
	t.Helper()
	p.URL = p.Out.Await(t, `Shop\s+(http://\S+?)/\n`, 2*time.Minute, p.Ended)
	p.Ops = p.Out.Await(t, `Health\s+(http://\S+)/readyz`, 10*time.Second, p.Ended)
}

// End sends a signal and returns the exit code; -1 if the process was killed.
func (p *Process) End(t *testing.T, sig syscall.Signal, within time.Duration) int {
	t.Helper()
	require.NoError(t, p.Cmd.Process.Signal(sig))
	select {
	case <-p.Ended:
		return p.Cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("the process did not exit within %s", within)
		return 0
	}
}

// Over reports whether the process has exited.
func (p *Process) Over() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// Killed reports whether SIGKILL ended the process.
func (p *Process) Killed() bool {
	status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// DataDir returns a folder that the account running Postgres for root can
// enter: testing's temporary folders are below folders of mode 0700.
func DataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stampede-run-") //nolint:usetesting // see above
	require.NoError(t, err)
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "data")
}

// lastPort counts FreeAddr's ports up, from a start that no other package or recent test run shares.
var lastPort = func() *atomic.Int64 {
	start := new(atomic.Int64)
	start.Store(rand.Int64N(10_000)) //nolint:gosec // any will do
	return start
}()

// FreeAddr returns a loopback address that every process of a shop can bind in
// turn: the bank calls back the address where the payment was made. No other
// test gets it, not even while no process listens on it. Its port is below the
// ephemeral range, since tests open thousands of outgoing connections.
func FreeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+lastPort.Add(1)%10_000)
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// Running is one process of this machine.
type Running struct {
	Parent  int
	command string // empty for a zombie
}

// Processes lists the running processes of this machine.
func Processes(t testing.TB) map[int]Running {
	t.Helper()
	running, err := psutil.Processes()
	require.NoError(t, err)
	all := map[int]Running{}
	for _, p := range running {
		parent, err := p.Ppid()
		line, lineErr := p.Cmdline()
		if err == nil && lineErr == nil { // otherwise it has exited meanwhile
			all[int(p.Pid)] = Running{int(parent), line}
		}
	}
	return all
}

// ChildrenOf lists processes with a folder's name in their command line.
func ChildrenOf(t testing.TB, folder string) string {
	t.Helper()
	return listed(t, func(r Running) bool { return strings.Contains(r.command, folder) })
}

// ChildrenBelow lists a process's own children.
func ChildrenBelow(t testing.TB, pid int) string {
	t.Helper()
	return listed(t, func(r Running) bool { return r.Parent == pid })
}

func listed(t testing.TB, which func(Running) bool) string {
	t.Helper()
	var b strings.Builder
	for pid, r := range Processes(t) {
		if r.command != "" && which(r) {
			fmt.Fprintln(&b, pid, r.command)
		}
	}
	return b.String()
}
