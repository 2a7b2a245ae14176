package seckilltest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"stampede/platform/workshop/require"
)

// RedisCalls is a hook that counts the commands a client sends; a pipeline is one.
type RedisCalls struct{ N atomic.Int64 }

// DialHook leaves connections unchanged.
func (c *RedisCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command.
func (c *RedisCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.N.Add(1); return next(ctx, cmd) }
}

// ProcessPipelineHook counts a pipeline.
func (c *RedisCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.N.Add(1); return next(ctx, cmds) }
}

// Statements is a second pool on a database, with the number of statements that were begun
// on it.
func Statements(t testing.TB, db *pgxpool.Pool) (*pgxpool.Pool, *atomic.Int64) {
	t.Helper()
	cfg, statements := db.Config(), new(atomic.Int64)
	cfg.ConnConfig.Tracer = statementCounter{statements}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, statements
}

type statementCounter struct{ n *atomic.Int64 }

func (c statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
