package embedded

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// startBudget bounds one start of both servers when ctx has no earlier deadline. It is long because Postgres may
	// have to replay up to max_wal_size of log, and Redis its whole append-only file, after a power cut.
	startBudget = 3 * time.Minute

	// minFreeBytes is what must be free on the data's disk before anything is started: Postgres alone writes its log
	// in segments of 16 MB and recycles several, and a server whose disk fills
	// up in mid-sale stops taking orders.
	minFreeBytes = 200 << 20

	// defaultRedisMemoryBytes is enough for the marks of several million
	// shoppers (about 100 bytes each), and small enough for a 2 GB machine that
	// also runs Postgres and Stampede.
	defaultRedisMemoryBytes = 512 << 20
)

// Config says where the data is and which account runs the servers. The zero
// value is usable: it runs on [DefaultDataDir].
type Config struct {
	// DataDir is the folder for everything that must survive a restart. Relative paths are taken from the working
	// directory. Defaults to DefaultDataDir(). It is created with mode 0700 when absent; a folder that is not empty and
	// not ours is refused.
	DataDir string

	// Fresh starts over: everything in DataDir is deleted first. The caller
	// must have asked the operator. It never touches a folder without our
	// marker.
	Fresh bool

	// RunAs is the account that a process of root's becomes, for good, before it opens anything in DataDir; ignored
	// otherwise. Defaults to the owner of existing data, else the first that exists of "stampede", "postgres",
	// "_postgres" and "nobody". Existing data must belong to it.
	RunAs string

	// OwnAccount is for data that is kept: root adds the system account "stampede" where a new one is needed, and
	// never chooses "nobody".
	OwnAccount bool

	// Logger receives log lines; nil discards them.
	Logger *slog.Logger

	// Step, if set, is called after each step of the start with its duration,
	// one call at a time.
	Step func(name string, took time.Duration)

	// Emergency, if set, receives [Stack.Kill] before the first server is
	// started, so that a process that has to exit without Stop, even during
	// Start, leaves nothing running.
	Emergency func(kill func())

	// Restarted, if set, makes the stack restart a server that exits or hangs,
	// and is called after each restart, for the two servers concurrently.
	Restarted func(Restart)

	// RedisMaxMemoryBytes is Redis's maxmemory: beyond it Redis refuses writes
	// rather than evicting keys. Defaults to 512 MiB.
	RedisMaxMemoryBytes int64

	// PostgresSettings and RedisSettings override or add single settings of the
	// servers, by the servers' names for them.
	PostgresSettings, RedisSettings map[string]string

	// Throwaway gives up durability for speed: no fsync and no append-only
	// file. For disposable data, such as that of a test run.
	Throwaway bool

	// minFree replaces minFreeBytes in tests of a disk that is nearly full, and
	// pace usualPace in tests of restarts.
	minFree int64
	pace    pace
}

// DefaultDataDir is ./data, or /var/lib/stampede for root: root's working
// directory is usually a folder such as /root that the account running Postgres
// cannot enter.
func DefaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/stampede"
	}
	return "data"
}

// withDefaults fills in empty fields and makes the data folder absolute, with
// symbolic links in its existing part resolved: the same folder must have the
// same name, since the socket folder is derived from it.
func (c Config) withDefaults() (Config, error) {
	if c.DataDir == "" {
		c.DataDir = DefaultDataDir()
	}
	abs, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, dataError(c.DataDir, err)
	}
	c.DataDir = resolveExisting(abs)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.RedisMaxMemoryBytes == 0 {
		c.RedisMaxMemoryBytes = defaultRedisMemoryBytes
	}
	if c.minFree == 0 {
		c.minFree = minFreeBytes
	}
	if c.pace == (pace{}) {
		c.pace = usualPace
	}
	var mu sync.Mutex // the two servers start concurrently, and each reports its steps
	told := c.Step
	c.Step = func(name string, took time.Duration) {
		if told == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		told(name, took)
	}
	return c, nil
}

// timed runs one step and reports it if it succeeds.
func (c Config) timed(ctx context.Context, name string, step func(context.Context) error) error {
	began := time.Now()
	if err := step(ctx); err != nil {
		return err
	}
	c.Step(name, time.Since(began))
	return nil
}

// resolveExisting resolves symbolic links in the part of path that exists and keeps the rest as it is.
func resolveExisting(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolveExisting(parent), filepath.Base(path))
}
