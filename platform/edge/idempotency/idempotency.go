// Package idempotency lets a client repeat a creating request whose answer it
// lost: with the same Idempotency-Key it gets the first answer, and there is no
// second effect.
//
// [Once] is for an effect of one transaction: the answer is kept by that
// transaction, so that there is no moment at which one exists without the other.
// [Around] is for work that crosses transactions, such as asking a payment
// provider: it claims the key first and keeps the answer afterwards.
//
// A request that fails keeps nothing and may be repeated. The same key with
// another request is refused with idempotency-mismatch (422); beside one that is
// being carried out, with idempotency-in-flight (409). Keys are a user's own, and
// remembered for a day.
package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/edge/idempotency/internal/idempotencydb"
)

// Kept is how long a key remembers its answer: long enough for any client that
// repeats a request whose answer it lost, including one that was switched off
// overnight.
const Kept = 24 * time.Hour

// What a key can be refused for.
var (
	ErrMismatch = fault.New(fault.Invalid, "idempotency-mismatch", fault.Titles{"This Idempotency-Key was used for another request", "该幂等键已用于其他请求"},
		"This Idempotency-Key was used for another request within 24 hours; use a new key for a new request.")
	ErrInFlight = fault.New(fault.Conflict, "idempotency-in-flight", fault.Titles{"The first request with this key is under way", "相同请求正在处理中"},
		"A request with this Idempotency-Key is being carried out; repeat yours in a moment.").After(time.Second)

	// A header may carry any bytes and Postgres keeps text only; a client whose key is none hears it at once.
	errNoText = fault.Plain(fault.Invalid, "The Idempotency-Key is not UTF-8 text; a UUID makes a good key.")
)

// Header is what creating requests accept; embed it in their inputs.
type Header struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"Repeating a request with the same key and body gives the same answer and has no second effect, for 24 hours"`
}

// check refuses what cannot be a key.
func check(key string) error {
	if !utf8.ValidString(key) {
		return errNoText
	}
	return nil
}

// fingerprint tells two requests apart by their operation and meaning, not by
// the spacing of their JSON.
func fingerprint(operation string, request any) ([]byte, error) {
	raw, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("idempotency: encode request: %w", err)
	}
	sum := sha256.Sum256(append([]byte(operation+"\n"), raw...))
	return sum[:], nil
}

// replay turns a kept answer into the repetition's.
func replay[T any](digest, request, response []byte) (answer T, err error) {
	if !bytes.Equal(request, digest) {
		return answer, ErrMismatch
	}
	if response == nil {
		return answer, ErrInFlight
	}
	if err := json.Unmarshal(response, &answer); err != nil {
		return answer, fmt.Errorf("idempotency: read kept answer: %w", err)
	}
	return answer, nil
}

// Forget removes what is older than Kept, and returns how many answers that were.
func Forget(ctx context.Context, db *pgxpool.Pool) (int64, error) {
	forgotten, err := idempotencydb.New(db).ForgetAnswers(ctx, Kept)
	if err != nil {
		return 0, fmt.Errorf("idempotency: forget old answers: %w", err)
	}
	return forgotten, nil
}
