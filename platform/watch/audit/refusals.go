package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

const (
	// refusalEvery is how often a repeated refusal is recorded, so that an operator
	// who keeps pressing a button does not fill the log.
	refusalEvery = time.Minute
	// maxRefusals bounds the remembered refusals. Above it all are forgotten, which
	// records some twice; the recorded roles have few holders.
	maxRefusals = 1024
	// refusalTimeout bounds how long recording delays the refused request.
	refusalTimeout = 2 * time.Second
	// maxSubject is longer than any path of the API; the rest was made up by the
	// client.
	maxSubject = 200
)

// RefusedAction is the prefix of a refusal's action; the operation's id follows:
// "refused.pause-activity".
const RefusedAction = "refused."

// Refusals records what the shop's staff tried although their role does not allow
// it: a mistake to talk about or a stolen token to investigate. Shoppers who call
// operators' routes are not recorded: anyone can become a shopper, and the log is
// never trimmed. Safe for concurrent use.
type Refusals struct {
	db  *pgxpool.Pool
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	told map[refusal]time.Time
}

// refusal identifies refusals that count as the same.
type refusal struct {
	actor         int64
	action, where string
}

// NewRefusals records in db. A failure to record is logged.
func NewRefusals(db *pgxpool.Pool, log *slog.Logger) *Refusals {
	return &Refusals{db: db, log: log, now: time.Now, told: map[refusal]time.Time{}}
}

// Record records that the principal in ctx was refused an operation, at most once a
// minute for each path; it is for httpx.Options.
func (r *Refusals) Record(ctx context.Context, op httpx.Op, path string) {
	p := auth.From(ctx)
	if p.Role == auth.Shopper {
		return
	}
	path = path[:min(len(path), maxSubject)]
	if !r.isNews(refusal{p.UserID, op.ID, path}) {
		return
	}
	// A client that leaves before the answer was refused all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusalTimeout)
	defer cancel()
	detail := map[string]string{"method": op.Method, "needs": string(op.Role), "request_id": httpx.RequestID(ctx)}
	if err := insert(ctx, r.db, RefusedAction+op.ID, path, detail); err != nil {
		r.log.WarnContext(ctx, "recording a refusal in the audit log failed", "operation", op.ID, "actor", p.UserID, "error", err)
	}
}

// isNews reports whether the refusal was not recorded within refusalEvery, and
// remembers it.
func (r *Refusals) isNews(what refusal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if last, known := r.told[what]; known && now.Sub(last) < refusalEvery {
		return false
	}
	if len(r.told) >= maxRefusals {
		clear(r.told)
	}
	r.told[what] = now
	return true
}
