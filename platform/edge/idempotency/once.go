package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/idempotency/internal/idempotencydb"
)

// Once runs fn at most once for the principal in ctx and a key; fn makes its changes
// in tx. operation names the effect, request is the complete input. Without a key it
// only runs fn. T must survive a round trip through JSON.
func Once[T any](ctx context.Context, tx pgx.Tx, key, operation string, request any, fn func() (T, error)) (T, error) {
	var none T
	if key == "" {
		return fn()
	}
	digest, err := fingerprint(key, operation, request)
	if err != nil {
		return none, err
	}
	actor := auth.From(ctx).UserID
	// A try-lock: a second request that waited for the first would hold a connection
	// for that long.
	q := idempotencydb.New(tx)
	free, err := q.TryLockKey(ctx, idempotencydb.TryLockKeyParams{Actor: actor, Key: key})
	if err != nil {
		return none, fmt.Errorf("idempotency: lock key: %w", err)
	}
	if !free {
		return none, ErrInFlight
	}
	kept, err := q.AnswerOfToday(ctx, idempotencydb.AnswerOfTodayParams{Actor: actor, Key: key, Kept: Kept})
	switch {
	case err == nil:
		return replay[T](ctx, digest, kept.Request, kept.Response)
	case !errors.Is(err, pgx.ErrNoRows):
		return none, fmt.Errorf("idempotency: read stored answer: %w", err)
	}
	answer, err := fn()
	if err != nil {
		return none, err
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return none, fmt.Errorf("idempotency: encode answer: %w", err)
	}
	err = q.PutAnswer(ctx, idempotencydb.PutAnswerParams{Actor: actor, Key: key, Request: digest, Response: raw})
	if err != nil {
		return none, fmt.Errorf("idempotency: store answer: %w", err)
	}
	return answer, nil
}
