package seckilltest

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
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
