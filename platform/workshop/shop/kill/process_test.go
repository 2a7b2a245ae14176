package kill

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/platform/base/failpoint"
	"stampede/platform/workshop/cli"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// mortal is a server that dies and restarts: the same data and the same
// address, one process after the other.
type mortal struct {
	addr  string
	args  []string // of the command, without the address
	ready *regexp.Regexp
	data  string // of `run`; empty for `serve`
	// databaseURL is known once the first process is ready.
	databaseURL string
}

var (
	runIsReady   = regexp.MustCompile(`Shop\s+(http://\S+?)/\n`)
	serveIsReady = regexp.MustCompile(`serves (http://\S+);`)
)

// hurried lets shoppers retry immediately, and with an already answered path,
// as often as a crash requires.
var hurried = []string{"--paths-per-minute=0", "--rushes-per-second=0", "--units-return-within=0s"}

// runShop is `stampede run`, whose Postgres and Redis die with it and start over.
func runShop(t *testing.T) *mortal {
	t.Helper()
	data := shop.DataDir(t)
	return &mortal{addr: shop.FreeAddr(t), data: data, ready: runIsReady, args: append([]string{"run", "--data=" + data, "--demo-every=1h"}, hurried...)}
}

// serveShop is `stampede serve` on stores that keep running while it is dead.
func serveShop(t *testing.T) *mortal {
	t.Helper()
	databaseURL := pgtest.DatabaseURL(t)
	return &mortal{addr: shop.FreeAddr(t), databaseURL: databaseURL, ready: serveIsReady, args: append([]string{
		"serve", "--database-url=" + databaseURL, "--redis-url=" + pgtest.RedisURL(t),
		"--nats-dir=" + filepath.Join(t.TempDir(), "nats"), "--sandbox-bank",
		"--max-conns=28",
	}, hurried...)}
}

// start runs one process of the shop; points is the value of STAMPEDE_FAILPOINTS.
func (s *mortal) start(t *testing.T, points string) *shop.Process {
	t.Helper()
	p := &shop.Process{Out: shop.NewConsole(), URL: "http://" + s.addr}
	args := append(slices.Clone(s.args), "--listen="+s.addr, "--ops-listen=127.0.0.1:0", "--log-level=warn", "--signing-key="+shop.Key)
	p.Cmd = exec.Command(shop.ImageProgram(t), args...)
	p.Cmd.Env = append(os.Environ(), failpoint.Variable+"="+points)
	p.Start(t)
	return p
}

// await returns true once the process is ready, false if it exited before: a
// point inside Load may be reached while the process starts.
func (s *mortal) await(t *testing.T, p *shop.Process) bool {
	t.Helper()
	timeout := time.After(time.Minute)
	for !s.ready.MatchString(p.Out.String()) {
		select {
		case <-p.Out.News:
		case <-p.Ended:
			return false
		case <-timeout:
			t.Fatalf("the process was not ready within a minute:\n%s", p.Out)
		}
	}
	if s.databaseURL == "" {
		stack, err := cli.ReadStack(s.data)
		require.NoError(t, err)
		s.databaseURL = stack.DatabaseURL
	}
	return true
}

// healed is how long after a fault its traces may last: the unacknowledged
// messages of a dead server or instance are redelivered after an ack wait of up
// to 15 s, and until then a paid unit, for example, does not count as sold in
// Redis.
const healed = time.Minute

// verify proves the books of the shop against the client log.
func (s *mortal) verify(t *testing.T, clientLog string) {
	t.Helper()
	args := []string{"verify", "--client-log=" + clientLog}
	if s.data != "" {
		args = append(args, "--data="+s.data)
	} else {
		args = append(args, s.args[1], s.args[2], "--data="+t.TempDir())
	}
	var out, errs bytes.Buffer
	var code int
	proved := func() bool {
		out.Reset()
		errs.Reset()
		code = shop.Run(t.Context(), args, &out, &errs)
		return code == 0
	}
	if !within(healed, proved) {
		t.Errorf("verify: exit %d\n%s%s", code, out.String(), errs.String())
	}
}

// kill ends the store of `run` with that pid file, as an out-of-memory killer would.
func (s *mortal) kill(t *testing.T, pidFile string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.data, pidFile))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil || pid <= 1 {
		t.Fatalf("process id %q: %v", first, err)
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// shortly returns a context for one query of a store.
func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
