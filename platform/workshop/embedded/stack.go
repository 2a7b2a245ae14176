package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Stack is a running pair of servers. Safe for concurrent use.
type Stack struct {
	// DatabaseURL is for pgx, RedisURL for go-redis's ParseURL; both lead to unix sockets.
	DatabaseURL, RedisURL string
	// DataDir is the data folder, absolute. NATSDir is the folder in it for the embedded NATS server's store.
	DataDir, NATSDir string
	// Binaries are the programs in use.
	Binaries Binaries
	// Notices are sentences for the operator about conditions repaired during
	// the start.
	Notices []string

	cfg     Config
	data    *dataDir
	sockets *socketDir

	died     chan error
	halt     context.CancelFunc // ends the watchers; nil until both servers are ready
	watchers sync.WaitGroup

	mu       sync.Mutex // guards what follows; held while a server is started, so that Kill misses none
	children []*child
	killed   bool

	stopOnce sync.Once
	stopErr  error
}

// Start starts both servers and returns when they answer. If it fails or ctx
// ends meanwhile, it stops what it started; after it has returned a Stack, ctx
// has no further effect. Errors that an operator can act on are [StartError].
func Start(ctx context.Context, cfg Config) (_ *Stack, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startBudget)
	defer cancel()

	if err := leaveRoot(ctx, cfg); err != nil {
		return nil, err
	}
	data, err := openData(ctx, cfg.DataDir, cfg.Fresh)
	if err != nil {
		return nil, err
	}
	s := &Stack{
		DataDir: data.path, NATSDir: data.at("nats"),
		cfg: cfg, data: data,
		died: make(chan error, 2), // each server is given up at most once
	}
	defer func() {
		if err != nil {
			// An interrupted start still shuts its children down in order.
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if err := s.prepare(ctx, cfg); err != nil {
		return nil, err
	}
	if cfg.Emergency != nil {
		cfg.Emergency(s.Kill)
	}
	// The two are independent; started concurrently, the first start takes half
	// a second less.
	postgres, redis := s.postgresPart(), s.redisPart()
	var postgresChild, redisChild *child
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if err := s.createCluster(groupCtx, cfg); err != nil {
			return err
		}
		postgresChild, err = s.firstStart(groupCtx, postgres, s.Binaries.PostgresVersion)
		return err
	})
	group.Go(func() (err error) {
		redisChild, err = s.firstStart(groupCtx, redis, s.Binaries.RedisVersion)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s.DatabaseURL, s.RedisURL = databaseURL(s.sockets.path, database), "unix://"+filepath.Join(s.sockets.path, redisSocket)
	watching, halt := context.WithCancel(context.WithoutCancel(ctx))
	s.halt = halt
	s.watchers.Go(func() { s.keep(watching, postgres, postgresChild) })
	s.watchers.Go(func() { s.keep(watching, redis, redisChild) })
	cfg.Logger.DebugContext(ctx, "embedded servers started", "data_dir", s.DataDir, "run_as", ownAccount(),
		"postgres", s.Binaries.PostgresVersion, "redis", s.Binaries.RedisVersion)
	return s, nil
}

// firstStart is a step of the start.
func (s *Stack) firstStart(ctx context.Context, p part, version string) (c *child, err error) {
	err = s.cfg.timed(ctx, "start "+p.name+" "+version, func(ctx context.Context) error {
		c, err = p.start(ctx)
		return err
	})
	return c, err
}

// prepare does everything up to the first child: orphans, sockets, binaries, a fresh start, disk.
func (s *Stack) prepare(ctx context.Context, cfg Config) error {
	sockets, err := openSockets(socketPath(s.data.path))
	if err != nil {
		return err
	}
	s.sockets = sockets
	if err := s.endOrphans(ctx, cfg); err != nil {
		return err
	}
	if err := sockets.clear(); err != nil {
		return err
	}
	if err := cfg.timed(ctx, "find Postgres and Redis", func(context.Context) error { return s.findBinaries(cfg) }); err != nil {
		return err
	}
	if cfg.Fresh {
		if err := cfg.timed(ctx, "delete the old data", func(context.Context) error { return s.data.wipe() }); err != nil {
			return err
		}
	}
	if err := s.data.enoughSpace(cfg.minFree); err != nil {
		return err
	}
	return s.data.prepare()
}

// endOrphans stops servers that an earlier process left running on this data,
// and adds a notice.
func (s *Stack) endOrphans(ctx context.Context, cfg Config) error {
	began := time.Now()
	var postgres, redis bool
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		postgres, err = endOrphan(groupCtx, postgresServer(s.data.path), s.data)
		return err
	})
	group.Go(func() (err error) {
		redis, err = endOrphan(groupCtx, redisServer(s.sockets.path), s.data)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if s.data.takenFrom == "" && !postgres && !redis {
		return nil
	}
	from := cmp.Or(s.data.takenFrom, "unknown")
	s.data.takenFrom = ""
	code := CodeNotGivenBack
	if postgres || redis {
		code = CodeStaleLock
		cfg.Step("stop servers left by an earlier start", time.Since(began))
	}
	s.Notices = append(s.Notices, fail(code, nil, from, s.data.path).Sentence)
	return nil
}

// findBinaries takes the first programs that are new enough and fit existing data.
func (s *Stack) findBinaries(cfg Config) (err error) {
	major := 0
	if !cfg.Fresh {
		if major, err = s.data.majorOf(); err != nil {
			return err
		}
	}
	s.Binaries, err = choose(searchDirs(), major, s.data.path)
	return err
}

// spawn starts a child, which is then stopped with the stack. It starts none
// once Kill was called.
func (s *Stack) spawn(srv server, program, dir string, args ...string) (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed {
		return nil, fmt.Errorf("start %s: %w", srv.file, context.Canceled)
	}
	c, err := s.data.spawn(srv, program, dir, args...)
	if c != nil {
		s.children = append(s.children, c)
	}
	return c, err
}

// Died delivers a [StartError] for a server that exited unexpectedly or, with
// [Config].Restarted, could not be started again; the caller must then stop the
// stack. The channel is never closed.
func (s *Stack) Died() <-chan error { return s.died }

// Stop shuts down both servers, Postgres by a fast shutdown, and releases the
// data folder. A server that has not exited within four seconds, or when ctx
// ends, is stopped harder; its data is safe then, too. It may be called
// repeatedly and from several goroutines, and returns the same result.
func (s *Stack) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopErr = s.stop(ctx) })
	return s.stopErr
}

// Kill ends both servers within some seconds regardless of their work, and
// prevents further starts; it returns when they have exited. Both are
// crash-safe: Postgres replays its log at the next start, Redis has synced what
// it acknowledged. It may be called at any moment, also concurrently with Start
// and Stop. The lock and the sockets are left to the next start.
func (s *Stack) Kill() {
	s.mu.Lock()
	s.killed = true
	children := slices.Clone(s.children)
	s.mu.Unlock()
	var group sync.WaitGroup
	for _, c := range children {
		group.Go(func() { _ = c.endFirmly(context.Background()) }) // a process stuck in the kernel cannot be ended
	}
	group.Wait()
}

// KillRedis ends Redis at once, as a crash would; with [Config].Restarted it is then
// started again like after one. It returns when the process has ended.
func (s *Stack) KillRedis(ctx context.Context) error {
	s.mu.Lock()
	children := slices.Clone(s.children)
	s.mu.Unlock()
	for _, c := range children {
		if c.file == redisFile && c.kill(ctx) {
			return nil
		}
	}
	return errors.New("embedded: Redis could not be killed")
}

// stop ends the watchers first, so that the exits are not reported, then all
// children concurrently, and releases the folders last.
func (s *Stack) stop(ctx context.Context) error {
	if s.halt != nil {
		s.halt()
	}
	s.watchers.Wait()
	s.mu.Lock()
	children := s.children
	s.mu.Unlock()
	errs := make([]error, len(children))
	var group sync.WaitGroup
	for i, c := range children {
		group.Go(func() { errs[i] = c.stop(ctx) })
	}
	group.Wait()
	err := errors.Join(errs...)
	if s.sockets != nil {
		_ = s.sockets.guard.Close() // it was only locked
		if err == nil {
			err = os.RemoveAll(s.sockets.path) // kept while a child is stuck, which may still use it
		}
	}
	return errors.Join(err, s.data.release())
}
