// Package idempotency lets a client repeat a creating request whose answer it
// lost: with the same Idempotency-Key it gets the first answer, marked with the header
// Idempotency-Replayed, and there is no second effect.
//
// [Once] is for an effect of one transaction: the same transaction stores the answer,
// so that one never exists without the other. [Around] is for work that spans
// transactions, such as a call to a payment provider: it claims the key first and
// stores the answer afterwards.
//
// A failed request stores nothing and may be repeated. The same key with a different
// request is refused with idempotency-mismatch (422); while the first request is
// running, with idempotency-in-flight (409). Keys are scoped to a user, and kept for
// a day.
package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/edge/idempotency/internal/idempotencydb"
)

// Kept is how long a key's answer is stored: long enough for a client that repeats a
// request whose answer it lost, even after being switched off overnight.
const Kept = 24 * time.Hour

// Reasons to refuse a key.
var (
	ErrMismatch = fault.New(fault.Invalid, "idempotency-mismatch",
		fault.T("This Idempotency-Key was used for another request", "该幂等键已用于其他请求"),
		fault.T("This Idempotency-Key was used for another request within 24 hours; use a new key for a new request.",
			"该幂等键在 24 小时内已用于其他请求，新请求请使用新的幂等键。"),
		fault.T("Send the first request unchanged, or another one under a new key.", "请原样重发首次请求，或为新请求更换幂等键。"))
	ErrInFlight = fault.New(fault.Conflict, "idempotency-in-flight",
		fault.T("The first request with this key is in progress", "相同请求正在处理中"),
		fault.T("A request with this Idempotency-Key is in progress; repeat yours in a moment.",
			"使用该幂等键的请求正在处理，请稍后重试。"),
		fault.T("Repeat the same request in a moment to get the first one’s answer.", "请稍后以相同内容重试，将得到首次请求的结果。")).After(time.Second)

	// A header may contain any bytes, but Postgres stores only text; such a key is
	// refused immediately.
	errNoText = fault.Plain(fault.Invalid,
		fault.T("The Idempotency-Key is not UTF-8 text; a UUID makes a good key.",
			"Idempotency-Key 不是 UTF-8 文字，建议使用 UUID。"))
)

// Header is what creating requests accept; embed it in their inputs.
type Header struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"Repeating a request with the same key and body gives the same answer, with the header Idempotency-Replayed, and has no second effect, for 24 hours"`
}

// Replayed is set to "true" on an answer that is the first request's.
const Replayed = "Idempotency-Replayed"

type headerKey struct{}

// Marking returns a context in which a replay sets Replayed in the answer's header h.
func Marking(ctx context.Context, h http.Header) context.Context {
	return context.WithValue(ctx, headerKey{}, h)
}

// fingerprint identifies a key's request by its operation and content, regardless of the
// spacing of its JSON. It refuses an invalid key; the back office's forms may have a NUL in theirs.
func fingerprint(key, operation string, request any) ([]byte, error) {
	if !utf8.ValidString(key) || strings.IndexByte(key, 0) >= 0 {
		return nil, errNoText
	}
	raw, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("idempotency: encode request: %w", err)
	}
	sum := sha256.Sum256(append([]byte(operation+"\n"), raw...))
	return sum[:], nil
}

// replay decodes a stored answer for a repetition.
func replay[T any](ctx context.Context, digest, request, response []byte) (answer T, err error) {
	if !bytes.Equal(request, digest) {
		return answer, ErrMismatch
	}
	if response == nil {
		return answer, ErrInFlight
	}
	if err := json.Unmarshal(response, &answer); err != nil {
		return answer, fmt.Errorf("idempotency: decode stored answer: %w", err)
	}
	if h, ok := ctx.Value(headerKey{}).(http.Header); ok {
		h.Set(Replayed, "true")
	}
	return answer, nil
}

// Forget deletes answers older than Kept, and returns their number.
func Forget(ctx context.Context, db *pgxpool.Pool) (int64, error) {
	forgotten, err := idempotencydb.New(db).ForgetAnswers(ctx, Kept)
	if err != nil {
		return 0, fmt.Errorf("idempotency: delete old answers: %w", err)
	}
	return forgotten, nil
}
