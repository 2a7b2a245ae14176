package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

const (
	// startTimeout bounds the recovery of the streams. One full GRANTS of 1 GiB
	// is read back in a few seconds; a slow disk gets ten times that.
	startTimeout = 60 * time.Second
	// maxMemoryBytes is for the state of per-instance consumers, which is a few
	// hundred bytes each; no stream lives in memory.
	maxMemoryBytes = 64 << 20
	// maxStoreBytes is no bound: each stream has its own. The server reserves
	// the streams' old sizes before it takes new ones, so that a sum would refuse
	// to start with smaller settings.
	maxStoreBytes = 1 << 50
)

// embedded is a NATS server inside the process that can be replaced by a new
// one on the same folder while clients keep their connection. It listens
// nowhere: clients come through InProcessConn.
type embedded struct {
	opts    *server.Options
	log     *slog.Logger
	current atomic.Pointer[server.Server] // nil while there is none
	// stopped is closed when the last server has let go of the folder. Only the
	// goroutine that starts and stops servers touches it.
	stopped chan struct{}
}

func startEmbedded(cfg Config) (*embedded, error) {
	e := &embedded{
		opts: &server.Options{
			ServerName:             "stampede",
			DontListen:             true,
			JetStream:              true,
			StoreDir:               cfg.StoreDir,
			SyncAlways:             true,
			JetStreamMaxMemory:     maxMemoryBytes,
			JetStreamMaxStore:      maxStoreBytes,
			DisableJetStreamBanner: true,
			NoSigs:                 true, // signals belong to the process that embeds it
		},
		log: cfg.Log,
	}
	if err := e.start(); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *embedded) start() error {
	srv, err := server.NewServer(e.opts)
	if err != nil {
		return fmt.Errorf("bus: start embedded NATS in %s: %w", e.opts.StoreDir, err)
	}
	said := &serverLog{log: e.log, rebuilt: map[string]bool{}}
	srv.SetLoggerV2(said, false, false, false)
	srv.Start()
	stopped := make(chan struct{})
	e.stopped = stopped
	if !srv.ReadyForConnections(startTimeout) || !srv.JetStreamEnabled() {
		shutdown(srv, stopped)
		return fmt.Errorf("bus: embedded NATS in %s did not get ready; its log says why", e.opts.StoreDir)
	}
	said.ready()
	e.current.Store(srv)
	return nil
}

// stop ends the server and waits until it has let go of its folder.
func (e *embedded) stop(ctx context.Context) error {
	if srv := e.current.Swap(nil); srv != nil {
		shutdown(srv, e.stopped)
	}
	select {
	case <-e.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("bus: stop embedded NATS: %w", ctx.Err())
	}
}

// shutdown closes stopped when srv has ended, however long a stuck disk takes.
func shutdown(srv *server.Server, stopped chan struct{}) {
	go func() {
		defer close(stopped)
		srv.Shutdown()
		srv.WaitForShutdown()
	}()
}

// InProcessConn lets the client reach whichever server is current.
func (e *embedded) InProcessConn() (net.Conn, error) {
	srv := e.current.Load()
	if srv == nil {
		return nil, errors.New("bus: the embedded NATS is being restarted")
	}
	return srv.InProcessConn()
}

// health is JetStream's own opinion: it turns bad at the first write error
// (full disk, vanished folder) and stays so until a restart.
func (e *embedded) health() error {
	srv := e.current.Load()
	if srv == nil {
		return errors.New("the embedded server is being restarted")
	}
	for _, found := range srv.Healthz(&server.HealthzOptions{Details: true}).Errors {
		// The connection check allows one millisecond, which a busy machine
		// exceeds; a server that takes no connections shows in the probe.
		if found.Type != server.HealthzErrorConn {
			return errors.New(found.Error)
		}
	}
	return nil
}

// writable tries whether the folder takes a synced write of a size that a
// batch of grants has. A restart before that would only meet the error again.
func (e *embedded) writable() error {
	name := filepath.Join(e.opts.StoreDir, ".probe")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(name))
}

// freeBytes is what the disk below dir has left for this process.
func freeBytes(dir string) (int64, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, fmt.Errorf("bus: create store folder: %w", err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("bus: look at the disk of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec,unconvert // sizes of real disks; the types differ by system
}

// serverLog hands the server's own messages to slog.
type serverLog struct {
	log *slog.Logger

	mu      sync.Mutex
	rebuilt map[string]bool // streams whose index is made anew; nil once the server is ready
}

// staleIndex is what the server says of a stream whose index is older than its
// messages, as after a kill or a power cut: the index is written now and then, each
// message at once. It reads the messages instead, and nothing is lost.
var staleIndex = regexp.MustCompile(`^Filestore \[([^\]]+)\] (?:Recovering stream state from index errored|Stream state |\S+(?: \S+)? state is outdated; attempting)`)

func (l *serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l *serverLog) Errorf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l *serverLog) Fatalf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l *serverLog) Debugf(string, ...any)           {}
func (l *serverLog) Tracef(string, ...any)           {}

// Warnf keeps what is expected of a start for the one line of ready.
func (l *serverLog) Warnf(format string, v ...any) {
	level := slog.LevelWarn
	if stream := staleIndex.FindStringSubmatch(fmt.Sprintf(format, v...)); stream != nil {
		l.mu.Lock()
		if l.rebuilt != nil {
			l.rebuilt[stream[1]] = true
			level = slog.LevelDebug
		}
		l.mu.Unlock()
	}
	l.write(level, format, v)
}

// ready says what was repaired, once it was.
func (l *serverLog) ready() {
	l.mu.Lock()
	streams := slices.Sorted(maps.Keys(l.rebuilt))
	l.rebuilt = nil
	l.mu.Unlock()
	if len(streams) > 0 {
		l.log.Info("embedded NATS read its messages anew, as after a kill or a power cut", "streams", streams)
	}
}

func (l *serverLog) write(level slog.Level, format string, v []any) {
	l.log.Log(context.Background(), level, "embedded NATS speaks", "detail", fmt.Sprintf(format, v...))
}
