package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/auth"
)

// Once runs fn at most once for the principal in ctx and a key; fn has its effect
// in tx. operation names what is done, request is all of what was asked for.
// Without a key it only runs fn. T must survive being written as JSON and read
// again.
func Once[T any](ctx context.Context, tx pgx.Tx, key, operation string, request any, fn func() (T, error)) (T, error) {
	var none T
	if key == "" {
		return fn()
	}
	if err := check(key); err != nil {
		return none, err
	}
	digest, err := fingerprint(operation, request)
	if err != nil {
		return none, err
	}
	actor := auth.From(ctx).UserID
	// Tried, not waited for: a second request beside the first would hold a connection for as long as that takes.
	var free bool
	err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('idempotency ' || $1::bigint || ' ' || $2::text, 0))`, actor, key).Scan(&free)
	if err != nil {
		return none, fmt.Errorf("idempotency: lock key: %w", err)
	}
	if !free {
		return none, ErrInFlight
	}
	var kept, response []byte
	err = tx.QueryRow(ctx, `SELECT request, response FROM platform.idempotency
		WHERE actor = $1 AND key = $2 AND created_at > now() - make_interval(secs => $3)`, actor, key, Kept.Seconds()).Scan(&kept, &response)
	switch {
	case err == nil:
		return replay[T](digest, kept, response)
	case !errors.Is(err, pgx.ErrNoRows):
		return none, fmt.Errorf("idempotency: look for kept answer: %w", err)
	}
	answer, err := fn()
	if err != nil {
		return none, err
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return none, fmt.Errorf("idempotency: encode answer: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO platform.idempotency (actor, key, request, response) VALUES ($1, $2, $3, $4)
		ON CONFLICT (actor, key) DO UPDATE
		SET request = excluded.request, response = excluded.response, claimed_until = NULL, created_at = now()`, actor, key, digest, raw)
	if err != nil {
		return none, fmt.Errorf("idempotency: keep answer: %w", err)
	}
	return answer, nil
}
