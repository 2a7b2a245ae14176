package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stampede/platform/embedded"
)

const (
	databaseEnv = "STAMPEDE_TEST_DATABASE_URL"
	redisEnv    = "STAMPEDE_TEST_REDIS_URL"

	// joinTimeout bounds the wait for servers: they start in about two seconds, and a busy machine multiplies that.
	joinTimeout = 2 * time.Minute
)

// membership is what this process holds while it uses the shared servers.
type membership struct {
	once sync.Once
	mu   sync.Mutex
	lock *os.File
	urls servers
	err  error
}

var shared membership

// join gives the servers' URLs, and keeps the shared ones alive for the life of this process.
func join(t testing.TB) servers {
	t.Helper()
	urls := servers{DatabaseURL: os.Getenv(databaseEnv), RedisURL: os.Getenv(redisEnv)}
	if urls.DatabaseURL != "" && urls.RedisURL != "" {
		return urls
	}
	shared.once.Do(func() {
		lock, found, err := joinShared()
		shared.mu.Lock()
		defer shared.mu.Unlock()
		shared.lock, shared.urls, shared.err = lock, found, err
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	if urls.DatabaseURL == "" {
		urls.DatabaseURL = shared.urls.DatabaseURL
	}
	if urls.RedisURL == "" {
		urls.RedisURL = shared.urls.RedisURL
	}
	return urls
}

// leave gives the shared servers back before the process ends.
func (m *membership) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lock != nil {
		_ = m.lock.Close() // only a lock
		m.lock = nil
	}
}

// joinShared takes the users lock and finds or starts the keeper.
func joinShared() (users *os.File, urls servers, err error) {
	f, err := sharedFolder()
	if err != nil {
		return nil, servers{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	starting, err := f.lock(ctx, "start", unix.LOCK_EX)
	if err != nil {
		return nil, servers{}, err
	}
	defer func() { _ = starting.Close() }() // only a lock
	users, err = f.lock(ctx, "users", unix.LOCK_SH)
	if err != nil {
		return nil, servers{}, err
	}
	urls, err = f.findOrStart(ctx)
	if err != nil {
		_ = users.Close() // only a lock
		return nil, servers{}, err
	}
	return users, urls, nil
}

// findOrStart returns the servers of a running keeper, or of a new one.
func (f folder) findOrStart(ctx context.Context) (servers, error) {
	const every = 20 * time.Millisecond // as for the locks
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		free, err := f.tryLock("keeper", unix.LOCK_EX)
		switch {
		case err == nil:
			_ = free.Close() // only a lock
			if s, started, err := f.startKeeper(ctx); err != nil || started {
				return s, err
			}
		case errors.Is(err, errHeld):
			// Without a state it is still starting its servers, or ending them.
			if s, ok := f.readState(); ok {
				return s, nil
			}
		default:
			return servers{}, err
		}
		select {
		case <-ctx.Done():
			return servers{}, fmt.Errorf("pgtest: wait for the servers: %w (see %s)", ctx.Err(), f.path("keeper.log"))
		case <-tick.C:
		}
	}
}

// startKeeper runs this binary once more as the keeper and waits for its answer. started is false if another keeper was
// faster.
func (f folder) startKeeper(ctx context.Context) (s servers, started bool, err error) {
	if _, err := embedded.Find(); err != nil {
		return servers{}, false, missing(err)
	}
	self, err := os.Executable()
	if err != nil {
		return servers{}, false, fmt.Errorf("pgtest: %w", err)
	}
	log, err := os.OpenFile(f.path("keeper.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return servers{}, false, fmt.Errorf("pgtest: %w", err)
	}
	defer func() { _ = log.Close() }() // the keeper has its own handle
	answer, result, err := os.Pipe()
	if err != nil {
		return servers{}, false, fmt.Errorf("pgtest: %w", err)
	}
	defer func() { _ = answer.Close() }() // read only

	cmd := exec.Command(self) //nolint:gosec,noctx // this very binary; it outlives this process
	cmd.Env = append(os.Environ(), keeperEnv+"="+string(f))
	// No descriptor of ours: `go test` waits until nobody has its pipes open any more. A session of its own: Ctrl-C is
	// not for the keeper.
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{result}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = result.Close() // the keeper's end is what counts; with ours open there would be no end of file
	if err != nil {
		return servers{}, false, fmt.Errorf("pgtest: start the keeper: %w", err)
	}
	// Nobody waits for it: it lives on when this process ends.
	_ = cmd.Process.Release()

	if deadline, ok := ctx.Deadline(); ok {
		if err := answer.SetReadDeadline(deadline); err != nil {
			return servers{}, false, fmt.Errorf("pgtest: %w", err)
		}
	}
	raw, err := io.ReadAll(answer)
	if err != nil {
		return servers{}, false, fmt.Errorf("pgtest: wait for the keeper: %w (see %s)", err, log.Name())
	}
	if len(raw) == 0 {
		return servers{}, false, nil
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return servers{}, false, fmt.Errorf("pgtest: the keeper's answer: %w", err)
	}
	if s.Problem != "" {
		return servers{}, false, errors.New("pgtest: " + s.Problem)
	}
	return s, true, nil
}

// missing tells a developer how to get the programs. Without them tests fail: skipped, they would look passed.
func missing(err error) error {
	return fmt.Errorf("pgtest: tests need PostgreSQL and Redis, and \"make test\" fetches them: %w", err)
}
