package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"stampede/platform/auth"
	"stampede/platform/bus"
	"stampede/platform/pg"
	"stampede/platform/redisx"
)

// Rig is a private stack for one run of measurements.
type Rig struct {
	exe    string
	dir    string
	key    string
	stores storesReady
	tokens *auth.Tokens
	server *Server
	// needsStores keeps the stores alive as long as anybody holds it; every child
	// does.
	needsStores *os.File
	closers     []func(context.Context) error // the last is called first
	names       map[int]string                // what the report calls a child, by process id
	databases   int
	users       int64
	quick       bool
}

// firstUser is where the shoppers' ids begin, apart from the operators' below.
const firstUser = 1_000_000

// NewRig starts Postgres and Redis in a temporary folder. executable is this
// program, from which children are started. Close the rig whatever happens.
func NewRig(ctx context.Context, executable string) (_ *Rig, err error) {
	dir, err := os.MkdirTemp("", "stampede-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: make a temporary folder: %w", err)
	}
	r := &Rig{exe: executable, dir: dir, users: firstUser, names: map[int]string{}}
	r.onClose(func(context.Context) error { return os.RemoveAll(dir) })
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close(context.WithoutCancel(ctx)))
		}
	}()
	// Started by root, Postgres runs as another account, which has to get in.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as said; what lies in it is 0700
		return nil, fmt.Errorf("bench: open the temporary folder: %w", err)
	}
	var secret [auth.MinKeyBytes]byte
	_, _ = rand.Read(secret[:]) // never fails
	r.key = hex.EncodeToString(secret[:])
	r.tokens = auth.NewTokens([]byte(r.key), time.Now)
	// A million shoppers' marks need more room than a demo's.
	const redisMemoryBytes = 2 << 30
	if r.stores, err = r.startStores(ctx, redisMemoryBytes); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Rig) onClose(f func(context.Context) error) { r.closers = append(r.closers, f) }

// closePatience bounds the end of a run: the server's own hard limit for its
// stop, and as much again for the stores.
const closePatience = 20 * time.Second

// Close ends every process and deletes the folder.
func (r *Rig) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	var errs []error
	for _, end := range slices.Backward(r.closers) {
		errs = append(errs, end(ctx))
	}
	r.closers = nil
	return errors.Join(errs...)
}

// Dir makes a folder inside the rig's.
func (r *Rig) Dir(name string) (string, error) {
	dir := filepath.Join(r.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("bench: make a folder: %w", err)
	}
	return dir, nil
}

// Database makes a database with the present schema, and returns a pool on it
// that closes with the rig.
func (r *Rig) Database(ctx context.Context, conns int32) (*pgxpool.Pool, error) {
	address, err := r.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := pg.Open(ctx, address, "bench", conns)
	if err != nil {
		return nil, err
	}
	r.onClose(func(ctx context.Context) error { return pg.Close(ctx, pool) })
	return pool, nil
}

// newDatabase copies the stack's own database, which is migrated at the first
// call and used for nothing else: a copy takes a tenth of the time.
func (r *Rig) newDatabase(ctx context.Context) (address string, err error) {
	u, err := url.Parse(r.stores.DatabaseURL)
	if err != nil {
		return "", fmt.Errorf("bench: parse the database URL: %w", err)
	}
	template := strings.TrimPrefix(u.Path, "/")
	if r.databases == 0 {
		if _, _, err := pg.Migrate(ctx, u.String()); err != nil {
			return "", err
		}
	}
	r.databases++
	name := fmt.Sprintf("bench_%d", r.databases)
	u.Path = "/postgres" // the template must have no connection while it is copied
	admin, err := pg.Open(ctx, u.String(), "bench", 1)
	if err != nil {
		return "", err
	}
	defer admin.Close()
	_, err = admin.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+pgx.Identifier{template}.Sanitize()+" STRATEGY FILE_COPY")
	if err != nil {
		return "", fmt.Errorf("bench: make a database: %w", err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Redis empties the second of the server's numbered databases, which the server
// itself never looks at, and returns a client on it that closes with the rig.
func (r *Rig) Redis(ctx context.Context) (redis.UniversalClient, error) {
	rdb, err := redisx.Open(ctx, r.stores.RedisURL+"?db=1")
	if err != nil {
		return nil, err
	}
	r.onClose(func(context.Context) error { return rdb.Close() })
	if err := rdb.FlushDB(ctx).Err(); err != nil {
		return nil, fmt.Errorf("bench: empty Redis: %w", err)
	}
	return rdb, nil
}

// Bus opens an embedded bus of this process's own, synced always as the
// server's is. It closes with the rig.
func (r *Rig) Bus(ctx context.Context) (*bus.Bus, error) {
	dir, err := r.Dir("nats-" + rand.Text()[:8])
	if err != nil {
		return nil, err
	}
	cfg := bus.DefaultConfig()
	cfg.StoreDir, cfg.Log = dir, slog.New(slog.DiscardHandler)
	b, err := bus.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r.onClose(b.Close)
	return b, nil
}

// Token mints a shopper's access token, valid for the run.
func (r *Rig) Token(user int64) (string, error) {
	return r.tokens.Mint(auth.Principal{UserID: user, Role: auth.Shopper}, 24*time.Hour)
}

// Users reserves n ids that no shopper has had and returns the first.
func (r *Rig) Users(n int) int64 {
	first := r.users
	r.users += int64(n)
	return first
}
