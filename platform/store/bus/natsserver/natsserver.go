// Package natsserver is a NATS server inside the process, for package bus. It is separate
// so that what only publishes and consumes does not link the server.
package natsserver

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

	"stampede/platform/base/disk"
)

const (
	// startTimeout bounds the recovery of the streams. Reading back a full
	// queue of 1 GiB takes a few seconds; a slow disk gets ten times that.
	startTimeout = 60 * time.Second
	// maxMemoryBytes bounds the state of per-instance consumers, a few hundred
	// bytes each; no stream is stored in memory.
	maxMemoryBytes = 64 << 20
	// maxStoreBytes is effectively unlimited: each stream has its own bound.
	// The server reserves the streams' old sizes before it applies new ones, so
	// with a sum as the limit it would refuse to start after the settings were
	// lowered.
	maxStoreBytes = 1 << 50
)

// Server is a NATS server inside the process, which Start replaces by a new one on the
// same folder while clients keep their connection. It opens no port: clients connect
// through InProcessConn.
type Server struct {
	opts    *server.Options
	log     *slog.Logger
	current atomic.Pointer[server.Server] // nil while there is none
	// stopped is closed when the last server has released the folder. Only the
	// goroutine that starts and stops servers uses it.
	stopped chan struct{}
}

// New returns a server on a folder, which no other process may use; Start starts it.
func New(dir string, log *slog.Logger) *Server {
	return &Server{
		opts: &server.Options{
			ServerName:             "stampede",
			DontListen:             true,
			JetStream:              true,
			StoreDir:               dir,
			SyncAlways:             true,
			JetStreamMaxMemory:     maxMemoryBytes,
			JetStreamMaxStore:      maxStoreBytes,
			DisableJetStreamBanner: true,
			NoSigs:                 true, // signals belong to the process that embeds it
		},
		log: log,
	}
}

// Start starts the server when it was stopped or never ran.
func (s *Server) Start() error {
	srv, err := server.NewServer(s.opts)
	if err != nil {
		return fmt.Errorf("natsserver: start embedded NATS in %s: %w", s.opts.StoreDir, err)
	}
	said := &serverLog{log: s.log, rebuilt: map[string]bool{}}
	srv.SetLoggerV2(said, false, false, false)
	srv.Start()
	stopped := make(chan struct{})
	s.stopped = stopped
	if !srv.ReadyForConnections(startTimeout) || !srv.JetStreamEnabled() {
		shutdown(srv, stopped)
		return fmt.Errorf("natsserver: embedded NATS in %s did not become ready; see its log lines for the cause", s.opts.StoreDir)
	}
	said.ready()
	s.current.Store(srv)
	return nil
}

// Stop ends the server and waits until it has released its folder.
func (s *Server) Stop(ctx context.Context) error {
	if srv := s.current.Swap(nil); srv != nil {
		shutdown(srv, s.stopped)
	}
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("natsserver: stop embedded NATS: %w", ctx.Err())
	}
}

// shutdown closes stopped when srv has ended, however long a blocked disk takes.
func shutdown(srv *server.Server, stopped chan struct{}) {
	go func() {
		defer close(stopped)
		srv.Shutdown()
		srv.WaitForShutdown()
	}()
}

// InProcessConn connects the client to the current server.
func (s *Server) InProcessConn() (net.Conn, error) {
	srv := s.current.Load()
	if srv == nil {
		return nil, errors.New("natsserver: the embedded NATS server is being restarted")
	}
	return srv.InProcessConn()
}

// Healthy is JetStream's own health check: it fails at the first write error
// (full disk, missing folder) and keeps failing until a restart.
func (s *Server) Healthy() error {
	srv := s.current.Load()
	if srv == nil {
		return errors.New("the embedded server is being restarted")
	}
	for _, found := range srv.Healthz(&server.HealthzOptions{Details: true}).Errors {
		// Skip the connection check: it allows one millisecond, which a busy
		// machine exceeds. The probe detects a server that accepts no
		// connections.
		if found.Type != server.HealthzErrorConn {
			return errors.New(found.Error)
		}
	}
	return nil
}

// Writable checks that the folder accepts a synced write of the size of a batch
// of grants. A restart before that would only hit the same error.
func (s *Server) Writable() error {
	name := filepath.Join(s.opts.StoreDir, ".probe")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(name))
}

// FreeBytes returns the free disk space under the folder that this process may use.
func (s *Server) FreeBytes() (int64, error) {
	if err := os.MkdirAll(s.opts.StoreDir, 0o700); err != nil {
		return 0, fmt.Errorf("natsserver: create store folder: %w", err)
	}
	return disk.Free(s.opts.StoreDir)
}

// serverLog passes the server's log lines to slog.
type serverLog struct {
	log *slog.Logger

	mu      sync.Mutex
	rebuilt map[string]bool // streams whose index is being rebuilt; nil once the server is ready
}

// staleIndex matches the server's warning about a stream whose index is older
// than its messages, as after a kill or a power cut: the index is written
// periodically, each message immediately. The server reads the messages
// instead, and nothing is lost.
var staleIndex = regexp.MustCompile(`^Filestore \[([^\]]+)\] (?:Recovering stream state from index errored|Stream state |\S+(?: \S+)? state is outdated; attempting)`)

func (l *serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l *serverLog) Errorf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l *serverLog) Fatalf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l *serverLog) Debugf(string, ...any)           {}
func (l *serverLog) Tracef(string, ...any)           {}

// Warnf holds back warnings expected during a start, which ready summarizes in
// one line.
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

// ready logs what was repaired, once the repair is complete.
func (l *serverLog) ready() {
	l.mu.Lock()
	streams := slices.Sorted(maps.Keys(l.rebuilt))
	l.rebuilt = nil
	l.mu.Unlock()
	if len(streams) > 0 {
		l.log.Info("embedded NATS rebuilt stream indexes, as after a kill or a power cut", "streams", streams)
	}
}

func (l *serverLog) write(level slog.Level, format string, v []any) {
	l.log.Log(context.Background(), level, "embedded NATS speaks", "detail", fmt.Sprintf(format, v...))
}
