package redistest

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Around is a hook that is called with each command, and with those of each pipeline; next sends them.
type Around func(ctx context.Context, cmds []redis.Cmder, next func() error) error

// DialHook leaves connections unchanged.
func (Around) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is around a command.
func (a Around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook is around a pipeline.
func (a Around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}
