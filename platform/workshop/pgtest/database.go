// Package pgtest gives each test a private, real Postgres database and Redis,
// in some tens of milliseconds.
//
// # What a test gets
//
// DB and DatabaseURL return a fresh database with all migrations applied,
// cloned from a template; Redis and RedisURL return an empty logical Redis
// database. Both are private to the test and are reclaimed with it, so tests
// may run in parallel. Server-wide state is shared and must not be changed:
// FLUSHALL, SCRIPT FLUSH, CONFIG SET, ALTER SYSTEM.
//
// # Where the servers come from
//
// With STAMPEDE_TEST_DATABASE_URL (an account that may create databases) and STAMPEDE_TEST_REDIS_URL (whose databases
// other than 0 are emptied) those servers are used. `make test` runs `go test ./...` through pgtest/servers, which starts
// one Postgres and one Redis and passes their URLs: go test runs each package in a process of its own, and starting
// servers in each would take longer than the tests.
//
// Otherwise, under a plain `go test`, each test process starts its own pair
// when its first test needs one.
//
// The servers belong to a separate process, which is the starting binary
// executed once more. It reads from a pipe that the kernel closes when its
// starter exits, even by kill -9; then it stops both servers and deletes their
// data. Durability is switched off: a crash of the machine ends the tests
// anyway.
//
// A package needs no TestMain for any of this: no goroutine and no connection to
// a test's database outlives the test. Main is for packages that want the checks of a TestMain,
// such as goleak, in one line.
package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/migrations"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/require"
)

const (
	// templatePrefix and testPrefix begin the names of the databases that this
	// package makes, so that leftovers on a shared server can be told from
	// other data.
	templatePrefix = "stampede_template_"
	testPrefix     = "stampede_t_"

	// templateLock is the advisory lock under which one process creates the
	// template while the others wait. Any number that is otherwise unused on a
	// test server will do.
	templateLock = 0x5374616d70656465 // "Stampede"

	// adminTimeout bounds one administrative step; the longest is creating the
	// template, some seconds on a busy machine.
	adminTimeout = 2 * time.Minute

	// closeWithin bounds the wait for a pool's connections at the end of a
	// test. The test has finished by then, so a connection that is still
	// checked out is leaked.
	closeWithin = 2 * time.Second
)

// DB returns a pool on a fresh, migrated database. Both are removed after the
// test; a connection that the test did not release fails it.
func DB(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), DatabaseURL(t))
	if err != nil {
		t.Fatalf("pgtest: open a pool: %v", err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(closeWithin):
			t.Errorf("pgtest: %d connections were never returned to the pool", pool.Stat().AcquiredConns())
		}
	})
	return pool
}

// Exec executes a statement in a pool, on a connection, or in a transaction.
func Exec(t testing.TB, db executor, sql string, args ...any) {
	t.Helper()
	_, err := db.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// Locked runs a statement that locks something, in a transaction that release, or the end of the test, rolls back.
func Locked(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (release func()) {
	t.Helper()
	tx := Begin(t, pool)
	Exec(t, tx, sql, args...)
	return func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
}

// Begin begins a transaction, which the end of the test rolls back unless it has ended.
func Begin(t testing.TB, db interface {
	Begin(ctx context.Context) (pgx.Tx, error)
},
) pgx.Tx {
	t.Helper()
	tx, err := db.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

// Connect opens a connection, which is closed at the end of the test.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Read returns the value that a query of one row and one column has, in a pool, on a connection, or in a transaction.
func Read[V any](t testing.TB, db reader, sql string, args ...any) (v V) {
	t.Helper()
	require.NoError(t, db.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// RowsRead is how many rows of a table have been read so far, by index or not. db is a transaction, of which it is what that
// has read, or has a single connection, which can be made to report what it knows.
func RowsRead(t testing.TB, db interface {
	executor
	reader
}, table string,
) int {
	t.Helper()
	Exec(t, db, `SELECT pg_stat_force_next_flush()`)
	return Read[int](t, db, `SELECT (s.seq_tup_read + s.idx_tup_fetch + x.seq_tup_read + x.idx_tup_fetch)::int
		FROM pg_stat_user_tables s JOIN pg_stat_xact_user_tables x USING (relid) WHERE relid = $1::text::regclass`, table)
}

type reader interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// DatabaseURL returns the URL of a fresh, migrated database, which is dropped
// after the test.
func DatabaseURL(t testing.TB) string {
	t.Helper()
	server := join(t).DatabaseURL
	template, err := templateOf(server)
	require.NoError(t, err)
	return databaseFrom(t, server, template)
}

// EmptyDatabaseURL is DatabaseURL without the migrations.
func EmptyDatabaseURL(t testing.TB) string {
	t.Helper()
	return databaseFrom(t, join(t).DatabaseURL, "template0")
}

func databaseFrom(t testing.TB, server, template string) string {
	t.Helper()
	name := testPrefix + strings.ToLower(rand.Text()[:10])
	// With a few hundred small files or more, copying files is faster than the
	// default, which writes every page to the log.
	if err := administer(server, "CREATE DATABASE "+name+" TEMPLATE "+template+" STRATEGY FILE_COPY"); err != nil {
		t.Fatalf("pgtest: create a database: %v", err)
	}
	t.Cleanup(func() {
		// FORCE ends sessions that the test left open.
		if err := administer(server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop a database: %v", err)
		}
	})
	return withDatabase(server, name)
}

// mostIdle bounds the idle connections of a process: as many tests as usually
// run in parallel may end at the same time.
const mostIdle = 4

// idle are this process's connections for administer, by server: a new one would
// cost the server as much processor time as the queries of many a test.
var idle = struct {
	sync.Mutex
	conns map[string][]*pgx.Conn
}{conns: map[string][]*pgx.Conn{}}

// closeIdle closes them: one whose write was slow has a goroutine that reads.
func closeIdle() {
	idle.Lock()
	defer idle.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	for _, conns := range idle.conns {
		for _, conn := range conns {
			_ = conn.Close(ctx)
		}
	}
	clear(idle.conns)
}

// administer runs one statement on the server's own database.
func administer(server, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	idle.Lock()
	var conn *pgx.Conn
	if conns := idle.conns[server]; len(conns) > 0 {
		conn, idle.conns[server] = conns[len(conns)-1], conns[:len(conns)-1]
	}
	idle.Unlock()
	if conn == nil {
		var err error
		if conn, err = pgx.Connect(ctx, server); err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, sql)
	idle.Lock()
	kept := err == nil && len(idle.conns[server]) < mostIdle
	if kept {
		idle.conns[server] = append(idle.conns[server], conn)
	}
	idle.Unlock()
	if !kept {
		_ = conn.Close(ctx) // the statement is done, or its error is returned
	}
	return err
}

// withDatabase replaces the database's name in a connection string.
func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server // pgx will report the error
	}
	u.Path = "/" + name
	return u.String()
}

// templates remembers, per server, the template that this process has ensured.
var templates sync.Map // server URL → func() (string, error), which does the work once

func templateOf(server string) (string, error) {
	ensure, _ := templates.LoadOrStore(server, sync.OnceValues(func() (string, error) { return makeTemplate(server) }))
	return ensure.(func() (string, error))() //nolint:errcheck // the map contains nothing else
}

// templateName is a hash of the template's contents: the migrations, and the
// day, because migrating creates the partitions of the next days.
func templateName() (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, time.Now().UTC().Format(time.DateOnly)) // a hash never fails
	err := fs.WalkDir(migrations.FS, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(migrations.FS, path)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", path, len(raw), raw) // a hash never fails
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("pgtest: read the migrations: %w", err)
	}
	return templatePrefix + hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// makeTemplate makes sure that the template exists. It builds it under another
// name and renames it when complete, so that a process killed in between leaves
// nothing that looks finished.
func makeTemplate(server string) (name string, err error) {
	if name, err = templateName(); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("pgtest: create the template database: %w", err)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }() // also releases the advisory lock

	// The usual case needs no lock: the template already exists.
	if exists, err := hasDatabase(ctx, conn, name); err != nil || exists {
		return name, err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(templateLock)); err != nil {
		return "", err
	}
	if exists, err := hasDatabase(ctx, conn, name); err != nil || exists {
		return name, err
	}
	unfinished := name + "_new"
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+unfinished+" WITH (FORCE)"); err != nil {
		return "", err
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+unfinished+" TEMPLATE template0"); err != nil {
		return "", err
	}
	if _, _, err := pg.Migrate(ctx, withDatabase(server, unfinished)); err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+unfinished+" RENAME TO "+name)
	return name, err
}

func hasDatabase(ctx context.Context, conn *pgx.Conn, name string) (exists bool, err error) {
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
	return exists, err
}
