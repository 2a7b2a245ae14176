package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/failpoint"
	"stampede/platform/workshop/cli"
	"stampede/platform/workshop/pgtest"
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
	data := dataDir(t)
	return &mortal{addr: freeAddr(t), data: data, ready: runIsReady, args: append([]string{"run", "--data=" + data, "--demo-every=1h"}, hurried...)}
}

// serveShop is `stampede serve` on stores that keep running while it is dead.
func serveShop(t *testing.T) *mortal {
	t.Helper()
	databaseURL := pgtest.DatabaseURL(t)
	return &mortal{addr: freeAddr(t), databaseURL: databaseURL, ready: serveIsReady, args: append([]string{
		"serve", "--database-url=" + databaseURL, "--redis-url=" + pgtest.RedisURL(t),
		"--nats-dir=" + filepath.Join(t.TempDir(), "nats"), "--sandbox-bank",
		"--max-conns=28",
	}, hurried...)}
}

// lastPort counts freeAddr's ports up, from a start that no recent test run shares.
var lastPort atomic.Int64

func init() { lastPort.Store(rand.Int64N(10_000)) }

// freeAddr returns a loopback address that every process of a shop can bind in
// turn: the bank calls back the address where the payment was made. No other
// test gets it, not even while no process listens on it. Its port is below the
// ephemeral range, since tests open thousands of outgoing connections.
func freeAddr(t *testing.T) string {
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

// start runs one process of the shop; points is the value of STAMPEDE_FAILPOINTS.
func (s *mortal) start(t *testing.T, points string) *process {
	t.Helper()
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{out: newConsole(), ended: make(chan struct{}), url: "http://" + s.addr, points: points}
	args := append(slices.Clone(s.args), "--listen="+s.addr, "--ops-listen=127.0.0.1:0", "--log-level=warn", "--signing-key="+testKey)
	p.cmd = exec.Command(name, args...)
	p.cmd.Env = append(os.Environ(), failpoint.Variable+"="+points)
	p.start(t)
	return p
}

// await returns true once the process is ready, false if it exited before: a
// point inside Load may be reached while the process starts.
func (s *mortal) await(t *testing.T, p *process) bool {
	t.Helper()
	timeout := time.After(time.Minute)
	for !s.ready.MatchString(p.out.String()) {
		select {
		case <-p.out.news:
		case <-p.ended:
			return false
		case <-timeout:
			t.Fatalf("the process was not ready within a minute:\n%s", p.out)
		}
	}
	if s.databaseURL == "" {
		stack, err := cli.ReadStack(s.data)
		if err != nil {
			t.Fatal(err)
		}
		s.databaseURL = stack.DatabaseURL
	}
	return true
}

// over reports whether the process has exited.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// killed reports whether SIGKILL ended the process.
func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
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
		code = run(t.Context(), args, &out, &errs)
		return code == 0
	}
	if !within(healed, proved) {
		t.Errorf("verify: exit %d\n%s%s", code, out.String(), errs.String())
	}
}

// killRedis ends the Redis that belongs to `run`, as an out-of-memory killer would.
func (s *mortal) killRedis(t *testing.T) {
	t.Helper()
	stack, err := cli.ReadStack(s.data)
	if err != nil {
		t.Fatal(err)
	}
	opts, err := redis.ParseURL(stack.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	defer func() { _ = client.Close() }()
	info, err := client.InfoMap(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	sigkill(t, info["Server"]["process_id"])
}

// killPostgres ends the Postgres that belongs to `run`.
func (s *mortal) killPostgres(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.data, "postgres", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	sigkill(t, first)
}

func sigkill(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 1 {
		t.Fatalf("process id %q: %v", pid, err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// shortly returns a context for one query of a store.
func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// armed formats one entry of STAMPEDE_FAILPOINTS.
func armed(point string, nth int) string { return fmt.Sprintf("%s=kill@%d", point, nth) }
