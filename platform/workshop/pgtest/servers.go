package pgtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"stampede/platform/store/pg"
	"stampede/platform/workshop/embedded"
	"stampede/platform/workshop/require"
)

const (
	databaseEnv = "STAMPEDE_TEST_DATABASE_URL"
	redisEnv    = "STAMPEDE_TEST_REDIS_URL"
	// serversEnv names a file with the URLs. Their ports differ from run to run, and in a variable they would make every
	// cached result of `go test` useless.
	serversEnv = "STAMPEDE_TEST_SERVERS"
	// serveEnv turns any test binary with this package into a process that
	// runs servers, for one of these uses.
	serveEnv      = "STAMPEDE_TEST_SERVE"
	forTests      = "tests"
	forBenchmarks = "benchmarks"
	forStandbys   = "standbys"

	// startTimeout bounds the wait for servers: they start in about two seconds, and a busy machine multiplies that.
	startTimeout = 2 * time.Minute
	// stopTimeout bounds the stop of servers whose data is discarded.
	stopTimeout = 10 * time.Second

	// logicalDatabases is how many Redis databases can be leased; an empty one
	// costs a few hundred bytes.
	logicalDatabases = "512"
)

// servers contains the URLs of running servers, or the reason that there are none.
type servers struct {
	DatabaseURL, RedisURL, Problem string
	// alive is the pipe that the servers' process reads from. The kernel closes it when this process ends, in whatever way.
	alive io.Closer
}

// join returns the servers' URLs. It starts servers unless the environment names them.
func join(t testing.TB) servers {
	t.Helper()
	s, err := findOrStart()
	require.NoError(t, err)
	return s
}

func findOrStart() (servers, error) {
	given := servers{DatabaseURL: os.Getenv(databaseEnv), RedisURL: os.Getenv(redisEnv)}
	if name := os.Getenv(serversEnv); name != "" && given == (servers{}) {
		raw, err := os.ReadFile(name) //nolint:gosec // Run wrote it
		if err == nil {
			err = json.Unmarshal(raw, &given)
		}
		if err != nil {
			return servers{}, fmt.Errorf("pgtest: read the servers' URLs: %w", err)
		}
	}
	if given.DatabaseURL != "" && given.RedisURL != "" {
		return given, nil
	}
	own, err := ownServers()
	return servers{
		DatabaseURL: cmp.Or(given.DatabaseURL, own.DatabaseURL),
		RedisURL:    cmp.Or(given.RedisURL, own.RedisURL),
	}, err
}

// ownServers are started at the first call, for all tests of this process.
var ownServers = sync.OnceValues(func() (servers, error) { return start(forTests) })

// start runs this binary once more as a servers' process and waits for its answer.
func start(use string) (s servers, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("pgtest: start the servers: %w", err)
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return servers{}, err
	}
	cmd := exec.Command(self) //nolint:gosec,noctx // this binary; it exits by itself after this process
	cmd.Env = append(os.Environ(), serveEnv+"="+use)
	// A separate session, because Ctrl-C would end it before its servers. No
	// standard error, because `go test` waits until every process has closed
	// it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	alive, err := cmd.StdinPipe()
	if err != nil {
		return servers{}, err
	}
	answer, err := cmd.StdoutPipe()
	if err != nil {
		return servers{}, err
	}
	if err := cmd.Start(); err != nil {
		return servers{}, err
	}
	defer func() { _ = answer.Close() }() // read only
	if err := json.NewDecoder(answer).Decode(&s); err != nil {
		return servers{}, err
	}
	if s.Problem != "" {
		return servers{}, errors.New(s.Problem)
	}
	s.alive = alive
	return s, nil
}

// A package cannot know the name of each test binary it will be part of, so the servers' process begins here, before
// main and before any test.
func init() {
	if use := os.Getenv(serveEnv); use != "" {
		os.Exit(serve(use)) //nolint:forbidigo // this process has no main of its own
	}
}

// serve runs the servers until its standard input ends, and returns the exit code.
func serve(use string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	dir, err := os.MkdirTemp("", "stampede-test-")
	var stack *embedded.Stack
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }() // as much as can be deleted
		stack, err = startServers(ctx, use, dir)
	}
	if err != nil {
		_ = json.NewEncoder(os.Stdout).Encode(servers{Problem: missing(err).Error()}) // nothing else can be done
		return 1
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	err = json.NewEncoder(os.Stdout).Encode(servers{DatabaseURL: stack.DatabaseURL, RedisURL: stack.RedisURL})
	if err == nil {
		select {
		case err = <-ended:
		case <-ctx.Done():
		case err = <-stack.Died():
		}
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if errors.Join(err, stack.Stop(stopCtx)) != nil {
		return 1
	}
	return 0
}

// startServers starts both servers in an empty folder. Those for tests sync nothing.
func startServers(ctx context.Context, use, dataDir string) (*embedded.Stack, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if use == forBenchmarks {
		return embedded.Start(ctx, embedded.Config{DataDir: dataDir})
	}
	if use == forStandbys {
		return embedded.Start(ctx, embedded.Config{DataDir: dataDir, Throwaway: true, PostgresSettings: map[string]string{
			"wal_level": "replica", "max_wal_senders": "10", "shared_buffers": "32MB", "autovacuum": "off",
		}})
	}
	return embedded.Start(ctx, embedded.Config{
		DataDir:   dataDir,
		Throwaway: true,
		PostgresSettings: map[string]string{
			// Several packages run at a time, several tests in each, with a
			// pool for every test.
			"max_connections": "400",
			// CREATE DATABASE waits for a vacuum of its template, and no test
			// runs long enough to need one.
			"autovacuum": "off",
			// Each CREATE and DROP DATABASE waits for a checkpoint, which scans all of the buffers.
			"shared_buffers": "64MB",
		},
		RedisSettings: map[string]string{
			"databases":  logicalDatabases,
			"maxclients": "4000", // as max_connections, with go-redis's larger pools
		},
	})
}

// missing tells a developer how to get the programs. Without them tests fail:
// skipped tests would look passed.
func missing(err error) error {
	var known *embedded.StartError
	if errors.As(err, &known) && known.Code == embedded.CodeBinaryMissing {
		return fmt.Errorf("tests need PostgreSQL and Redis, and \"make test\" fetches them: %w", err)
	}
	return err
}

// Run runs a command with one Postgres and one Redis for all test processes that it starts, and returns its exit code.
func Run(command ...string) int {
	s, err := findOrStart()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Ctrl-C also reaches the command, and this process exits after it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM)
	name := os.Getenv(serversEnv)
	if name == "" {
		file, err := s.write()
		if err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			return 1
		}
		defer func() { _ = file.Close() }() // which ends the lock; the next run writes it again
		name = file.Name()
	}
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // the caller's command; it exits by itself
	cmd.Env = append(os.Environ(), serversEnv+"="+name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// mostRuns bounds how many runs of a machine have servers of their own at a time.
const mostRuns = 16

// write writes the URLs into the first file that no other run holds: a name that
// stays the same from run to run keeps the results that go test has cached.
func (s servers) write() (*os.File, error) {
	for run := range mostRuns {
		file, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("stampede-test-servers-%d.json", run)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			_ = file.Close() // nothing was written
			continue
		}
		return file, errors.Join(file.Truncate(0), json.NewEncoder(file).Encode(s))
	}
	return nil, fmt.Errorf("%d other runs have servers", mostRuns)
}

// Durable starts a private Postgres and Redis for a benchmark that sync every
// write, as a shop's do. Those shared by tests sync nothing.
func Durable(b *testing.B) (*pgxpool.Pool, *redis.Client) {
	b.Helper()
	own, err := start(forBenchmarks)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = own.alive.Close() })
	if _, _, err := pg.Migrate(b.Context(), own.DatabaseURL); err != nil {
		b.Fatal(err)
	}
	const conns = 4
	db, err := pg.Open(b.Context(), own.DatabaseURL, "benchmark", conns)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(db.Close)
	rdb, err := newClient(own.RedisURL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = rdb.Close() })
	return db, rdb
}
