package seckill

import (
	"context"

	"stampede/platform/edge/idempotency"
)

// IdempotencyKey is the header that creating requests accept.
type IdempotencyKey = idempotency.Header

// once runs fn at most once per operator and key, in the change's transaction; a
// repeated request gets the first answer.
func once[T any](ctx context.Context, c *change, key, operation string, request any, fn func() (T, error)) (T, error) {
	return idempotency.Once(ctx, c.tx, key, operation, request, fn)
}
