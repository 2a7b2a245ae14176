package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"stampede/platform/base/app"
	"stampede/platform/store/redisx"
	"stampede/platform/workshop/embedded"
)

// Stores names the servers that `serve` uses.
type Stores struct {
	DatabaseURL     string   `default:"" env:"STAMPEDE_DATABASE_URL" help:"Required. PostgreSQL 15 or newer, postgres://user:password@host/database." secret:"" group:"Required (run makes its own):"`
	DatabaseReadURL string   `default:"" env:"STAMPEDE_DATABASE_READ_URL" help:"A hot standby of the database with streaming replication, which then answers the operators' lists, exports and reports; while it cannot, the primary does. Empty: there is none." secret:"" group:"Postgres connections:" rare:""`
	RedisURL        string   `default:"" env:"STAMPEDE_REDIS_URL" help:"Required. Redis 7 or newer with appendfsync always and noeviction: redis://, rediss://, unix://, redis-sentinel://host,host/0?master=name or redis-cluster://host,host." secret:"" group:"Required (run makes its own):"`
	LockRedisURLs   []string `name:"lock-redis-urls" env:"STAMPEDE_LOCK_REDIS_URLS" help:"Independent Redis servers, comma-separated and odd in number, a majority of which grants locks. Empty: the Redis of --redis-url." secret:"" group:"Locks:" rare:""`
	NATSURL         string   `name:"nats-url" default:"" env:"STAMPEDE_NATS_URL" help:"NATS with JetStream, nats://host:4222; for a cluster, its servers separated by commas. Empty: embedded, and this process is the only instance." secret:"" group:"NATS:"`
	NATSDir         string   `name:"nats-dir" default:"" env:"STAMPEDE_NATS_DIR" help:"Folder for the embedded NATS server's data when no NATS URL is given. Empty: /var/lib/stampede-nats for root, else ~/.local/share/stampede/nats; where an earlier version made it, ./data/nats or root's /var/lib/stampede/nats." group:"NATS:"`
}

// maxLockNodes bounds the cost of taking a lock: nine nodes survive the loss of four.
const maxLockNodes = 9

// Check checks the stores' URLs without connecting, and returns a sentence for
// each that is wrong.
func (s Stores) Check() error {
	var wrong []error
	if s.DatabaseURL == "" || s.RedisURL == "" {
		wrong = append(wrong, errors.New("--database-url and --redis-url are needed, or STAMPEDE_DATABASE_URL and STAMPEDE_REDIS_URL; `stampede run` starts its own stores"))
	}
	for flag, given := range map[string]string{"--database-url": s.DatabaseURL, "--database-read-url": s.DatabaseReadURL} {
		if given != "" {
			wrong = append(wrong, checkPostgres(flag, given))
		}
	}
	if err := checkRedis(s.RedisURL); s.RedisURL != "" && err != nil {
		wrong = append(wrong, fmt.Errorf("--redis-url must be like redis://:password@host:6379/0: %w", err))
	}
	wrong = append(wrong, s.checkLocks())
	if u, err := url.Parse(s.NATSURL); s.NATSURL != "" && (err != nil || (u.Scheme != "nats" && u.Scheme != "tls") || u.Host == "") {
		wrong = append(wrong, errors.New("--nats-url must be like nats://host:4222"))
	}
	return errors.Join(wrong...)
}

func (s Stores) checkLocks() error {
	// Four nodes survive no more losses than three do, and two survive none.
	if n := len(s.LockRedisURLs); n > maxLockNodes || n > 0 && n%2 == 0 {
		return fmt.Errorf("--lock-redis-urls must be an odd number of servers, at most %d, not %d", maxLockNodes, n)
	}
	for i, u := range s.LockRedisURLs {
		if err := checkRedis(u); err != nil {
			return fmt.Errorf("--lock-redis-urls, number %d, must be like redis://:password@host:6379/0: %w", i+1, err)
		}
		if slices.Contains(s.LockRedisURLs[:i], u) {
			return fmt.Errorf("--lock-redis-urls, number %d, is a duplicate: the servers must be independent", i+1)
		}
	}
	return nil
}

// checkPostgres checks a URL. The driver takes other forms too, but a DSN's password cannot be told from its host.
func checkPostgres(flag, raw string) error {
	if u, err := url.Parse(raw); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return errors.New(flag + " must be like postgres://user:password@host/database")
	}
	return nil
}

// checkRedis checks a URL. It does not return the parser's error, which repeats
// the URL with the password.
func checkRedis(raw string) error {
	_, err := redisx.Parse(raw)
	if bad, ok := errors.AsType[*url.Error](err); ok {
		return bad.Err
	}
	return err
}

// rootStreams is root's folder. It lies beside the folder of `run`, which takes none that
// has other content.
const rootStreams = "/var/lib/stampede-nats"

// streamsFolder returns the absolute folder of the embedded NATS: the setting, or one
// that does not depend on where the server is started. former reports that it is one that
// earlier versions took: its messages must not be left behind.
func streamsFolder(given string) (dir string, former bool, err error) {
	if given == "" {
		if given = formerStreams(embedded.DefaultDataDir()); given != "" {
			former = true
		} else if os.Geteuid() == 0 {
			given = rootStreams
		} else if home, err := os.UserHomeDir(); err == nil {
			given = filepath.Join(home, ".local", "share", "stampede", "nats")
		} else {
			return "", false, fmt.Errorf("no folder for the embedded NATS, set --nats-dir: %w", err)
		}
	}
	if dir, err = filepath.Abs(given); err != nil {
		return "", false, fmt.Errorf("find the folder of the embedded NATS: %w", err)
	}
	return dir, former, nil
}

// formerStreams returns the folder in which an earlier version keeps its streams, "" if
// there is none: data/nats below the working directory, or the folder nats in root's
// data, where `run` has none of its own.
func formerStreams(data string) string {
	for _, folder := range []string{"data", data} {
		dir := filepath.Join(folder, "nats")
		if _, err := os.Stat(dir); err == nil && !embedded.IsData(folder) {
			return dir
		}
	}
	return ""
}

// holdFolder keeps a second server, of another shop, out of the folder: two would destroy
// each other's streams.
func holdFolder(a *app.App, dir string) error {
	const private = 0o700
	if err := os.MkdirAll(dir, private); err != nil {
		return fmt.Errorf("folder of the embedded NATS (--nats-dir): %w", err)
	}
	held, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("folder of the embedded NATS (--nats-dir): %w", err)
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { //nolint:gosec // a descriptor
		_ = held.Close()
		return fmt.Errorf("another server keeps its streams in %s; give this one a folder of its own (--nats-dir)", dir)
	}
	a.OnStop("folder of the embedded nats", func(context.Context) error { return held.Close() })
	return nil
}
