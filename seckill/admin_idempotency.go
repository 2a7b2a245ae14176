package seckill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"stampede/platform/auth"
	"stampede/platform/fault"
	"stampede/seckill/internal/seckilldb"
)

// idempotencyKept is how long a key remembers its answer: long enough for any
// client that repeats a request whose answer it lost, including one that was
// switched off overnight.
const idempotencyKept = 24 * time.Hour

var (
	errKeyReused = fault.New(fault.Invalid, "idempotency-mismatch",
		"This Idempotency-Key was used for another request within 24 hours; use a new key for a new request.")
	// A header may carry any bytes and Postgres keeps text only; a client whose key is none hears it at once.
	errKeyNoText = fault.New(fault.Invalid, "invalid", "The Idempotency-Key is not UTF-8 text; a UUID makes a good key.")

	errKeyInFlight = fault.New(fault.Conflict, "idempotency-in-flight",
		"A request with this Idempotency-Key is being carried out; repeat yours in a moment.").After(time.Second)
)

// IdempotencyKey is the header that creating requests accept.
type IdempotencyKey struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"Repeating a request with the same key and body gives the same answer and has no second effect, for 24 hours"`
}

// once runs fn at most once per operator and key: a repetition gets the first
// answer. The answer is kept by the transaction that has the effect, so there
// is no moment at which one exists without the other; a request that fails
// keeps nothing and may be repeated. Without a key it only runs fn.
func once[T any](ctx context.Context, c *change, key, operation string, request any, fn func() (T, error)) (T, error) {
	var none T
	if key == "" {
		return fn()
	}
	if !utf8.ValidString(key) {
		return none, errKeyNoText
	}
	actor := auth.From(ctx).UserID
	digest, err := fingerprint(operation, request)
	if err != nil {
		return none, err
	}
	// Tried, not waited for: a second request beside the first would hold a connection for as long as that takes.
	free, err := c.q.TryIdempotencyLock(ctx, seckilldb.TryIdempotencyLockParams{Actor: fmt.Sprint(actor), Key: key})
	if err != nil {
		return none, fmt.Errorf("seckill: lock idempotency key: %w", err)
	}
	if !free {
		return none, errKeyInFlight
	}
	kept, err := c.q.IdempotentAnswer(ctx, seckilldb.IdempotentAnswerParams{Actor: actor, Key: key, KeptSeconds: idempotencyKept.Seconds()})
	switch {
	case err == nil:
		if !bytes.Equal(kept.Request, digest) {
			return none, errKeyReused
		}
		var answer T
		if err := json.Unmarshal(kept.Response, &answer); err != nil {
			return none, fmt.Errorf("seckill: read kept answer: %w", err)
		}
		return answer, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return none, fmt.Errorf("seckill: look for kept answer: %w", err)
	}
	answer, err := fn()
	if err != nil {
		return none, err
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return none, fmt.Errorf("seckill: encode answer: %w", err)
	}
	err = c.q.KeepIdempotentAnswer(ctx, seckilldb.KeepIdempotentAnswerParams{Actor: actor, Key: key, Request: digest, Response: raw})
	if err != nil {
		return none, fmt.Errorf("seckill: keep answer: %w", err)
	}
	return answer, nil
}

// fingerprint tells two requests apart by their operation and meaning, not by
// the spacing of their JSON.
func fingerprint(operation string, request any) ([]byte, error) {
	raw, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("seckill: encode request: %w", err)
	}
	sum := sha256.Sum256(append([]byte(operation+"\n"), raw...))
	return sum[:], nil
}
