// Package bustest gives each test a real, private bus.
package bustest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/config"
	"stampede/platform/store/bus"
	"stampede/platform/store/bus/natsserver"
	"stampede/platform/workshop/linktest"
	"stampede/platform/workshop/require"
)

// closeTimeout is generous: a loaded machine must not turn a passed test into a
// failed one.
const closeTimeout = 20 * time.Second

// Grants describes a small queue of grants. Only seckill may import its real
// description, with which a test there compares this one.
func Grants() bus.QueueConfig {
	return bus.QueueConfig{
		Name: "GRANTS", Description: "granted attempts that the order writer has not yet written", Prefix: "grants.", MaxBytes: 64 << 20,
		Consumer: "order-writer", Batch: 64, AckWait: 10 * time.Second,
	}
}

// Queue is the queue of grants as inventory and order use it, whose open holds are of
// type H. It loses what is published again.
type Queue[H any] struct{ *bus.Queue }

// GrantsOf returns the queue of grants of a bus that Open opened.
func GrantsOf[H any](b *bus.Bus) Queue[H] { return Queue[H]{b.Queue(Grants().Name)} }

// Done reports whether every message of an item up to a sequence is acknowledged.
func (q Queue[H]) Done(ctx context.Context, itemID int64, upTo uint64) (bool, error) {
	first, err := q.First(ctx, Grants().Prefix+strconv.FormatInt(itemID, 10))
	return err == nil && (first == 0 || first > upTo), err
}

// Republish loses what it is given.
func (Queue[H]) Republish(context.Context, int64, []H) error { return nil }

// Open starts an embedded bus in a folder of the test, with small streams, and
// closes it when the test ends. Each change may alter the settings before the
// start.
func Open(t testing.TB, change ...func(*bus.Config)) *bus.Bus {
	t.Helper()
	cfg := bus.Config{Settings: config.Defaults[bus.Settings]()}
	cfg.Embedded = natsserver.New(t.TempDir(), slog.New(slog.DiscardHandler))
	cfg.Queues, cfg.EventsMaxMiB = []bus.QueueConfig{Grants()}, 64
	cfg.Log = slog.New(slog.DiscardHandler)
	for _, f := range change {
		f(&cfg)
	}
	b, err := bus.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open bus: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Errorf("close bus: %v", err)
		}
	})
	return b
}

// Server is a NATS server with JetStream, outside of the instances that use it, which a
// test may stop and start again on the same store.
type Server struct {
	URL, StoreDir string
	t             testing.TB
	port          int
	running       *server.Server
}

// StartServer starts a server, which ends with the test.
func StartServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{StoreDir: t.TempDir(), t: t, port: linktest.FreePorts(t, 1, 20_000, 32_000)[0]}
	s.URL = fmt.Sprintf("nats://127.0.0.1:%d", s.port)
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start starts the server again.
func (s *Server) Start() {
	s.t.Helper()
	srv, err := server.NewServer(&server.Options{
		ServerName: "outside", Host: "127.0.0.1", Port: s.port, JetStream: true, StoreDir: s.StoreDir, SyncAlways: true, NoSigs: true, NoLog: true,
	})
	require.NoError(s.t, err)
	srv.Start()
	s.running = srv
	if !srv.ReadyForConnections(closeTimeout) {
		s.t.Fatal("the NATS server did not start")
	}
}

// Stop stops the server.
func (s *Server) Stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// On makes Open use a server.
func On(url string) func(*bus.Config) {
	return func(c *bus.Config) { c.URL, c.Embedded = url, nil }
}

// In makes Open use a folder.
func In(dir string) func(*bus.Config) {
	return func(c *bus.Config) { c.Embedded = natsserver.New(dir, slog.New(slog.DiscardHandler)) }
}

// Cluster is a group of NATS servers with JetStream, each in a separate
// process, which a test may kill.
type Cluster struct {
	// URL names all of them.
	URL   string
	nodes map[string]*exec.Cmd // by server name
}

// nodeEnv turns any test binary with this package into one server of a cluster;
// its value is a node in JSON.
const nodeEnv = "STAMPEDE_TEST_NATS_NODE"

// clusterReady bounds the start: the first leader election takes up to nine
// seconds in a new cluster, and tests run on busy machines.
const clusterReady = 60 * time.Second

// A package cannot know the name of each test binary it will be part of, so a
// node takes over here, before main and before any test.
func init() {
	text := os.Getenv(nodeEnv)
	if text == "" {
		return
	}
	var n natsserver.Node
	err := json.Unmarshal([]byte(text), &n)
	if err == nil {
		err = n.Serve(os.Stdin) // until its parent closes it, which the kernel does for one that was killed
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // this process has no main of its own
	}
	os.Exit(0) //nolint:forbidigo // as above
}

// OpenCluster starts three servers and returns when they can store a stream
// with three replicas.
func OpenCluster(t testing.TB) *Cluster {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	const size = 3
	ports := linktest.FreePorts(t, 2*size, 10_000, 12_000)
	c := &Cluster{nodes: make(map[string]*exec.Cmd, size)}
	var urls []string
	for i := range size {
		n := natsserver.Node{Name: "n" + strconv.Itoa(i), Dir: t.TempDir(), Port: ports[i], RoutePort: ports[size+i], Routes: ports[size:]}
		raw, err := json.Marshal(n)
		require.NoError(t, err)
		cmd := exec.Command(self) //nolint:gosec,noctx // this binary; a cleanup ends it
		cmd.Env = append(os.Environ(), nodeEnv+"="+string(raw))
		cmd.Stderr = os.Stderr
		_, err = cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { c.Kill(n.Name) })
		c.nodes[n.Name] = cmd
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", n.Port))
	}
	c.URL = strings.Join(urls, ",")
	ctx, cancel := context.WithTimeout(t.Context(), clusterReady)
	defer cancel()
	require.NoError(t, natsserver.AwaitCopies(ctx, c.URL, size))
	return c
}

// Stream returns the cluster's information about a stream: its replicas and its leader.
func (c *Cluster) Stream(t testing.TB, name string) (leader string, copies int) {
	t.Helper()
	nc, err := nats.Connect(c.URL)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, name)
	require.NoError(t, err)
	info := s.CachedInfo()
	return info.Cluster.Leader, info.Config.Replicas
}

// Kill ends a server as a power cut would and returns when it is gone. Calling it
// again has no effect.
func (c *Cluster) Kill(name string) {
	cmd := c.nodes[name]
	if cmd.ProcessState != nil {
		return
	}
	_ = cmd.Process.Kill() // it may have exited by itself
	_ = cmd.Wait()         // killed, on purpose
}
