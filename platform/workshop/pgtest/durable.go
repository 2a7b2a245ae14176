package pgtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"stampede/platform/store/pg"
	"stampede/platform/workshop/embedded"
)

// Durable starts a private Postgres and Redis for a benchmark that sync every
// write, as a shop's do. Those shared by tests sync nothing.
func Durable(b *testing.B) (*pgxpool.Pool, *redis.Client) {
	b.Helper()
	dir, err := os.MkdirTemp("", "stampede-durable-") //nolint:usetesting // Postgres may run as another account, which needs access
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above; its contents are 0700
		b.Fatal(err)
	}
	stack, err := embedded.Start(b.Context(), embedded.Config{DataDir: filepath.Join(dir, "data")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stack.Stop(context.Background()) })
	if _, _, err := pg.Migrate(b.Context(), stack.DatabaseURL); err != nil {
		b.Fatal(err)
	}
	const conns = 4
	db, err := pg.Open(b.Context(), stack.DatabaseURL, "benchmark", conns)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(db.Close)
	rdb, err := newClient(stack.RedisURL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = rdb.Close() })
	return db, rdb
}
