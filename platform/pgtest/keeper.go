package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stampede/platform/embedded"
)

const (
	// keeperEnv, set to the shared folder, turns any test binary with this package into a keeper.
	keeperEnv = "STAMPEDE_TEST_KEEPER"
	// folderEnv and idleEnv (a duration) replace the shared folder and the idle time, for this package's own tests.
	folderEnv = "STAMPEDE_TEST_FOLDER"
	idleEnv   = "STAMPEDE_TEST_IDLE"

	// idleTime is how long the servers outlive their last user: the next package of the same run, or the developer's
	// next run, finds them warm.
	idleTime = 20 * time.Second
	// probeEvery is how often the keeper looks for users. It is also the longest that a new one waits for a probe.
	probeEvery = 250 * time.Millisecond
	// keeperStop bounds the stop of servers whose data nobody wants.
	keeperStop = 10 * time.Second

	// logicalDatabases is how many Redis databases there are to give away; an empty one costs a few hundred bytes.
	logicalDatabases = "512"

	// resultFD is where a keeper finds the pipe to its starter: the first descriptor after the standard three.
	resultFD = 3
)

// A package cannot know the name of each test binary it will be part of, so the keeper takes over here, before main and
// before any test.
func init() {
	if dir := os.Getenv(keeperEnv); dir != "" {
		os.Exit(keep(folder(dir))) //nolint:forbidigo // this process has no other main
	}
}

// keep runs the servers until nobody needs them, and returns the exit code.
func keep(f folder) int {
	// The servers must not inherit the pipe, or the starter would wait for its end.
	syscall.CloseOnExec(resultFD)
	result := os.NewFile(resultFD, "result")
	tell := func(s servers) {
		// A starter that was killed meanwhile reads nothing; the state file is there for everybody else.
		_ = json.NewEncoder(result).Encode(s)
		_ = result.Close()
	}
	alive, err := f.tryLock("keeper", unix.LOCK_EX)
	if errors.Is(err, errHeld) {
		_ = result.Close() // says "look again": another keeper was faster
		return 0
	}
	if err != nil {
		tell(servers{Problem: err.Error()})
		return 1
	}
	defer func() { _ = alive.Close() }() // only a lock
	// For a human who wonders which process it is.
	if err := errors.Join(alive.Truncate(0), writePID(alive)); err != nil {
		tell(servers{Problem: err.Error()})
		return 1
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	stack, err := startServers(ctx, f)
	if err != nil {
		tell(servers{Problem: err.Error()})
		return 1
	}
	s := servers{DatabaseURL: stack.DatabaseURL, RedisURL: stack.RedisURL}
	if err := f.writeState(s); err != nil {
		s = servers{Problem: err.Error()}
	}
	tell(s)

	log := slog.New(slog.NewTextHandler(os.Stderr, nil)) // keeper.log
	users, err := f.untilUnused(ctx, stack.Died())
	log.InfoContext(ctx, "keeper stops", "cause", err)
	// From here on newcomers wait for the users lock, or see that the state is gone.
	_ = os.Remove(f.path(stateName))
	stopCtx, cancel := context.WithTimeout(context.Background(), keeperStop)
	defer cancel()
	err = errors.Join(stack.Stop(stopCtx), os.RemoveAll(f.path("data")))
	if users != nil {
		_ = users.Close() // only a lock
	}
	if err != nil {
		log.ErrorContext(ctx, "keeper failed to stop", "cause", err)
		return 1
	}
	return 0
}

func writePID(file *os.File) error {
	_, err := fmt.Fprintln(file, os.Getpid())
	return err
}

// startServers starts both servers on empty data, without durability.
func startServers(ctx context.Context, f folder) (*embedded.Stack, error) {
	_ = os.Remove(f.path(stateName)) // of a keeper that was killed
	cfg := embedded.Config{
		DataDir:   f.path("data"),
		Fresh:     true, // what is there was left by a keeper that was killed
		Throwaway: true,
		Logger:    slog.Default(),
		PostgresSettings: map[string]string{
			// Several packages at a time, several tests in each, a pool for every one.
			"max_connections": "400",
			// CREATE DATABASE waits for a vacuum of its template; and no test lives long enough to need one.
			"autovacuum": "off",
			// Each CREATE and DROP DATABASE waits for a checkpoint, which scans all of the buffers.
			"shared_buffers": "64MB",
		},
		RedisSettings: map[string]string{
			"databases":  logicalDatabases,
			"maxclients": "4000", // as max_connections, with go-redis's larger pools
		},
	}
	stack, err := embedded.Start(ctx, cfg)
	var known *embedded.StartError
	if errors.As(err, &known) && known.Code == embedded.CodeForeignFolder {
		// A keeper was killed while it deleted the data, after the marker had gone. The folder is ours beyond doubt.
		if err := os.RemoveAll(cfg.DataDir); err != nil {
			return nil, fmt.Errorf("pgtest: %w", err)
		}
		stack, err = embedded.Start(ctx, cfg)
	}
	return stack, err
}

// untilUnused blocks until nobody has used the servers for the idle time, and then holds the users lock alone. It returns
// without the lock when a server dies or a signal asks the keeper to end.
func (f folder) untilUnused(ctx context.Context, died <-chan error) (*os.File, error) {
	idle := idleTime
	if set, err := time.ParseDuration(os.Getenv(idleEnv)); err == nil {
		idle = set
	}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	lastUsed := time.Now()
	for {
		select {
		case err := <-died:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		alone, err := f.tryLock("users", unix.LOCK_EX)
		switch {
		case errors.Is(err, errHeld):
			lastUsed = time.Now()
		case err != nil:
			return nil, err
		case time.Since(lastUsed) >= idle:
			return alone, nil
		default:
			_ = alone.Close() // only a lock
		}
	}
}
