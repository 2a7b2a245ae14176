package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/idempotency/internal/idempotencydb"
)

const (
	// claimFor is how long the claim of a dead process blocks the key. It is longer
	// than any request may take; until then other requests with the key are told to
	// retry.
	claimFor = time.Minute
	// afterwards bounds storing the answer, or releasing the claim, once the work is
	// done, whether or not the client still waits.
	afterwards = 5 * time.Second
)

// Around runs fn for the principal in ctx and a key, never concurrently and not again
// once it has succeeded. operation names the effect, request is the complete input.
// Without a key it only runs fn. T must survive a round trip through JSON.
//
// fn must be safe to repeat: it runs again after it has failed, and after its process
// died, once the claim has expired. If the answer cannot be stored, the client still
// gets it, and the error is logged.
func Around[T any](ctx context.Context, db *pgxpool.Pool, log *slog.Logger, key, operation string, request any, fn func(context.Context) (T, error)) (T, error) {
	var none T
	if key == "" {
		return fn(ctx)
	}
	digest, err := fingerprint(key, operation, request)
	if err != nil {
		return none, err
	}
	c := claim{db: db, actor: auth.From(ctx).UserID, key: key}
	mine, kept, response, err := c.take(ctx, digest)
	if err != nil {
		return none, err
	}
	if !mine {
		return replay[T](ctx, digest, kept, response)
	}
	answer, err := fn(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	if err != nil {
		lost := idempotencydb.New(db).GiveClaimBack(ctx, idempotencydb.GiveClaimBackParams{Actor: c.actor, Key: key, ClaimedUntil: c.until})
		if lost != nil {
			log.WarnContext(ctx, "releasing an idempotency claim failed, it expires within a minute", "operation", operation, "error", lost)
		}
		return none, err
	}
	if err := c.keep(ctx, answer); err != nil {
		log.WarnContext(ctx, "storing an idempotent answer failed", "operation", operation, "error", err)
	}
	return answer, nil
}

// claim is one user's key while a request with it is running.
type claim struct {
	db    *pgxpool.Pool
	actor int64
	key   string
	until *time.Time // distinguishes this claim from later ones of the key
}

// take claims the key unless it has an answer or is claimed; then it returns the
// request and the answer, nil while there is none. An expired claim can be taken
// over by the same request only: a different one must not replace it, because the
// first may have had its effect.
func (c *claim) take(ctx context.Context, digest []byte) (mine bool, request, response []byte, err error) {
	q := idempotencydb.New(c.db)
	c.until, err = q.Claim(ctx, idempotencydb.ClaimParams{Actor: c.actor, Key: c.key, Request: digest, ClaimFor: claimFor, Kept: Kept})
	if err == nil {
		return true, nil, nil, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return false, nil, nil, fmt.Errorf("idempotency: claim key: %w", err)
	}
	kept, err := q.Answer(ctx, idempotencydb.AnswerParams{Actor: c.actor, Key: c.key})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, digest, nil, nil // released just now: in flight until the client retries
	}
	if err != nil {
		return false, nil, nil, fmt.Errorf("idempotency: read stored answer: %w", err)
	}
	return false, kept.Request, kept.Response, nil
}

// keep turns a claim into its answer, unless it has expired and was taken over.
func (c *claim) keep(ctx context.Context, answer any) error {
	raw, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("idempotency: encode answer: %w", err)
	}
	err = idempotencydb.New(c.db).KeepAnswer(ctx, idempotencydb.KeepAnswerParams{Actor: c.actor, Key: c.key, ClaimedUntil: c.until, Response: raw})
	if err != nil {
		return fmt.Errorf("idempotency: store answer: %w", err)
	}
	return nil
}
