package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/app"
)

const (
	// superuser and database are the names in DatabaseURL. The socket folder's
	// mode replaces a password.
	superuser = "stampede"
	database  = "stampede"

	// connectTimeout bounds one attempt to connect over a unix socket, which
	// either succeeds immediately or not yet.
	connectTimeout = 5 * time.Second

	// backendPatience is how long a start waits for backends that outlived
	// their Postgres, and backendPoll is the pause between attempts: our
	// statements end within seconds, and each attempt tries to start Postgres.
	backendPatience = 20 * time.Second
	backendPoll     = 200 * time.Millisecond
)

// postgresSettings are passed on the command line at each start, so that a new
// binary's settings apply to old data.
func postgresSettings(cfg Config, sockets string) map[string]string {
	settings := map[string]string{
		"listen_addresses":        "", // unix socket only
		"unix_socket_directories": sockets,
		"unix_socket_permissions": "0700",

		// The modules' pools together stay below this limit; each connection
		// costs some 10 MB under load.
		"max_connections": "100",
		// The hot set of a sale is small: stock rows, the last orders and their indexes.
		"shared_buffers": "256MB",

		// An acknowledged order must survive a power cut.
		"fsync":              "on",
		"synchronous_commit": "on",
		"full_page_writes":   "on",
		// `replica` lets an operator take a base backup of the running shop, at
		// almost no cost here.
		"wal_level": "replica",
		// A sale's burst should not force a checkpoint; replaying this much
		// after a crash takes some seconds.
		"max_wal_size":       "1GB",
		"checkpoint_timeout": "10min",

		// All our statements are short. JIT compilation would take longer than
		// they run, and parallel workers would use /dev/shm, of which a
		// container has 64 MB.
		"jit":                             "off",
		"max_parallel_workers_per_gather": "0",

		// GMT is the only zone that needs no time zone files, which a minimal
		// image may lack.
		"timezone":     "GMT",
		"log_timezone": "GMT",
		// The log is truncated only at the next start, so it contains only
		// unusual events, and no statements, which contain shoppers' data.
		"log_checkpoints":         "off",
		"log_min_error_statement": "panic",
		"lc_messages":             "C",
	}
	if runtime.GOOS == "linux" { // the others lack it
		// A start after a crash first syncs the whole cluster. With one call for its
		// file system that takes some 0.1 s, also when other programs write to the
		// same disk; its 1,700 files one by one take 1 to 4 s.
		settings["recovery_init_sync_method"] = "syncfs"
	}
	if cfg.Throwaway {
		// Commits still reach the kernel, so that killing Postgres loses nothing; only killing the machine does.
		settings["fsync"], settings["full_page_writes"] = "off", "off"
		settings["wal_level"], settings["max_wal_senders"] = "minimal", "0"
	}
	maps.Copy(settings, cfg.PostgresSettings)
	return settings
}

// createCluster creates the cluster on the first start. It is built beside its
// final place and renamed when complete, so that an interrupted start is simply
// repeated.
func (s *Stack) createCluster(ctx context.Context, cfg Config) error {
	if _, err := os.Stat(s.data.at("postgres/PG_VERSION")); err == nil {
		return nil
	}
	return cfg.timed(ctx, "create the Postgres cluster", func(ctx context.Context) error {
		unfinished := s.data.at("postgres.new")
		if err := os.RemoveAll(unfinished); err != nil {
			return dataError(s.data.path, err)
		}
		args := []string{
			"-D", unfinished, "-U", superuser, "-A", "trust",
			// C sorts by bytes: fast, and the same under every version of the system's library, whose own orders
			// change and then corrupt indexes.
			"-E", "UTF8", "--locale=C",
			// A flipped bit on a cheap disk becomes an error rather than a wrong balance.
			"--data-checksums",
		}
		if cfg.Throwaway {
			args = append(args, "--no-sync")
		}
		cmd, log, err := s.data.command(s.Binaries.Initdb, s.data.path, "initdb", args...)
		if err != nil {
			return err
		}
		defer func() { _ = log.Close() }() // the child has its own handle
		if err = cmd.Start(); err == nil {
			// The group, because initdb starts its own servers.
			defer context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })()
			err = cmd.Wait()
		}
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted: %w", ctx.Err())
			}
			tail := s.data.tail("initdb")
			if strings.Contains(tail, "No space left on device") {
				return fail(CodeDiskFull, errors.New(tail), s.data.path)
			}
			// A container may run with any user id. A lookup here would miss
			// accounts that only C libraries can resolve, so rely on Postgres's
			// error.
			if strings.Contains(tail, "could not look up effective user ID") {
				return fail(CodeNamelessUser, nil, os.Geteuid())
			}
			return fail(CodeChildFailed, fmt.Errorf("initdb: %w\n%s", err, tail), "Postgres", log.Name())
		}
		return dataError(s.data.path, os.Rename(unfinished, s.data.at("postgres")))
	})
}

// majorOf returns the release that wrote the cluster; 0 if there is none yet.
func (d *dataDir) majorOf() (int, error) {
	raw, err := os.ReadFile(d.at("postgres/PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, dataError(d.path, err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, dataError(d.path, fmt.Errorf("PG_VERSION: %w", err))
	}
	return major, nil
}

// disownPidFile rewrites the pid in a stale postmaster.pid to our own. Postgres
// trusts that file if any process has that pid, and after a crash or a reboot
// an unrelated one may. It ignores the pid of its own parent, and still checks
// the shared memory that the file names, so it cannot start beside a live
// cluster.
func (d *dataDir) disownPidFile() error {
	name := d.at("postgres/postmaster.pid")
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, rest, _ := strings.Cut(string(raw), "\n")
		err = os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())+"\n"+rest), 0o600)
	}
	return dataError(d.path, err)
}

// postgresPart describes Postgres. A start of it never creates the cluster: a
// restart must not continue with an empty one.
func (s *Stack) postgresPart() part {
	p := part{server: postgresServer(s.data.path), sockets: []string{postgresSocket, postgresSocket + ".lock"}}
	p.start = func(ctx context.Context) (*child, error) { return s.startPostgres(ctx, p.server) }
	p.check = s.checkPostgres
	return p
}

// startPostgres starts the server and waits until our database can be used.
func (s *Stack) startPostgres(ctx context.Context, srv server) (*child, error) {
	if err := s.data.disownPidFile(); err != nil {
		return nil, err
	}
	dir := filepath.Join(s.data.path, "postgres")
	args := []string{"-D", dir}
	settings := postgresSettings(s.cfg, s.sockets.path)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	giveUp := time.Now().Add(backendPatience)
	for {
		c, err := s.spawn(srv, s.Binaries.Postgres, dir, args...)
		if err != nil {
			return nil, err
		}
		err = c.await(ctx, s.data, func(ctx context.Context) error { return ensureDatabase(ctx, s.sockets.path) })
		if err == nil {
			return c, nil
		}
		// Its main process was killed and one of its backends is still
		// busy: the backend exits after its statement.
		if !strings.Contains(s.data.tail("postgres"), "pre-existing shared memory block") || time.Now().After(giveUp) {
			return nil, err
		}
		if app.Sleep(ctx, backendPoll) != nil {
			return nil, err
		}
	}
}

// sslRequest asks a server whether it speaks TLS, which each connection may begin with
// and each server answers by one byte.
const sslRequest = "\x00\x00\x00\x08\x04\xd2\x16\x2f"

// checkPostgres fails unless the server's main process gives a new connection to a
// backend that answers, or is shutting down: then it waits for the connections of the
// pools to be closed. A login would ask the same, and costs ten times as much.
func (s *Stack) checkPostgres(ctx context.Context) error {
	if s.data.shutsDown() {
		return errors.New("it is shutting down")
	}
	return ask(ctx, filepath.Join(s.sockets.path, postgresSocket), sslRequest, func(answer io.Reader) error {
		_, err := io.ReadFull(answer, make([]byte, 1))
		return err
	})
}

// shutsDown reports whether Postgres has written into its postmaster.pid, whose eighth
// line is its state, that it is shutting down.
func (d *dataDir) shutsDown() bool {
	raw, err := os.ReadFile(d.at("postgres/postmaster.pid"))
	lines := strings.Split(string(raw), "\n")
	return err == nil && len(lines) >= 8 && strings.TrimSpace(lines[7]) == "stopping"
}

// databaseURL returns the URL of a database over the socket folder.
func databaseURL(sockets, name string) string {
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + name, RawQuery: url.Values{"host": {sockets}}.Encode()}
	return u.String()
}

// ensureDatabase connects to the server and creates our database if it is
// missing: on the first start, or after a start that was interrupted before
// this point.
func ensureDatabase(ctx context.Context, sockets string) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL(sockets, "postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // no statement is running on it
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", database).Scan(&exists); err != nil {
		return fmt.Errorf("check for the database: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+database); err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	return nil
}
