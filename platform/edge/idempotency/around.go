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
	// claimFor is how long a claim keeps others away when its process dies. It is
	// longer than any request may take; whoever comes with the key meanwhile is
	// told to come again.
	claimFor = time.Minute
	// afterwards bounds keeping the answer, or giving the claim back, once the
	// work is done, whether the client still waits or not.
	afterwards = 5 * time.Second
)

// Around runs fn at most once at a time for the principal in ctx and a key, and
// not again once it has succeeded. operation names what is done, request is all
// of what was asked for. Without a key it only runs fn. T must survive being
// written as JSON and read again.
//
// fn itself must bear being repeated: it runs again after it has failed, and
// after its process died within the minute that a claim lasts. An answer that
// cannot be kept is told all the same, and logged.
func Around[T any](ctx context.Context, db *pgxpool.Pool, log *slog.Logger, key, operation string, request any, fn func(context.Context) (T, error)) (T, error) {
	var none T
	if key == "" {
		return fn(ctx)
	}
	if err := check(key); err != nil {
		return none, err
	}
	digest, err := fingerprint(operation, request)
	if err != nil {
		return none, err
	}
	c := claim{db: db, actor: auth.From(ctx).UserID, key: key}
	mine, kept, response, err := c.take(ctx, digest)
	if err != nil {
		return none, err
	}
	if !mine {
		return replay[T](digest, kept, response)
	}
	answer, err := fn(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	if err != nil {
		if lost := c.giveBack(ctx); lost != nil {
			log.WarnContext(ctx, "idempotency claim not given back, it ends by itself", "operation", operation, "error", lost)
		}
		return none, err
	}
	if err := c.keep(ctx, answer); err != nil {
		log.WarnContext(ctx, "idempotent answer not kept", "operation", operation, "error", err)
	}
	return answer, nil
}

// claim is one user's key while a request with it is carried out.
type claim struct {
	db    *pgxpool.Pool
	actor int64
	key   string
	until *time.Time // names this claim among later ones of the key
}

// take claims the key unless it has an answer or is claimed; then it returns the
// request and the answer, nil while there is none. A claim that has run out goes
// to whoever repeats the same request: another one may not pass for it, because
// the first may have had its effect.
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
		return false, digest, nil, nil // given back this moment: in flight until the client asks again
	}
	if err != nil {
		return false, nil, nil, fmt.Errorf("idempotency: look for kept answer: %w", err)
	}
	return false, kept.Request, kept.Response, nil
}

// giveBack ends a claim whose request has failed.
func (c *claim) giveBack(ctx context.Context) error {
	err := idempotencydb.New(c.db).GiveClaimBack(ctx, idempotencydb.GiveClaimBackParams{Actor: c.actor, Key: c.key, ClaimedUntil: c.until})
	if err != nil {
		return fmt.Errorf("idempotency: give claim back: %w", err)
	}
	return nil
}

// keep turns a claim into its answer, unless it has run out and is another's.
func (c *claim) keep(ctx context.Context, answer any) error {
	raw, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("idempotency: encode answer: %w", err)
	}
	err = idempotencydb.New(c.db).KeepAnswer(ctx, idempotencydb.KeepAnswerParams{Actor: c.actor, Key: c.key, ClaimedUntil: c.until, Response: raw})
	if err != nil {
		return fmt.Errorf("idempotency: keep answer: %w", err)
	}
	return nil
}
