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
	// refusalEvery is how often one refusal is recorded that happens again and
	// again: somebody who keeps pressing a button does not fill the log.
	refusalEvery = time.Minute
	// maxRefusals bounds what is remembered of those. Beyond it everything is
	// forgotten, which records some twice; the roles that are recorded have few
	// holders.
	maxRefusals = 1024
	// refusalTimeout bounds the wait of whoever is refused.
	refusalTimeout = 2 * time.Second
	// maxSubject is more than any of our addresses; the rest is the client's making.
	maxSubject = 200
)

// RefusedAction begins the action of every refusal; the operation's id follows:
// "refused.pause-activity".
const RefusedAction = "refused."

// Refusals records what people of the shop tried and their role may not do. Those
// are mistakes worth a talk or stolen tokens worth a look. Shoppers who knock at
// operators' routes are not recorded: anybody can be one, and the log is never
// trimmed. Safe for concurrent use.
type Refusals struct {
	db  *pgxpool.Pool
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	told map[refusal]time.Time
}

// refusal is what counts as the same one.
type refusal struct {
	actor         int64
	action, where string
}

// NewRefusals records in db. What cannot be recorded is logged.
func NewRefusals(db *pgxpool.Pool, log *slog.Logger) *Refusals {
	return &Refusals{db: db, log: log, now: time.Now, told: map[refusal]time.Time{}}
}

// Record writes down that the principal in ctx was refused an operation, at most
// once a minute for each address; httpx.ReportRefusals hands it to a router.
func (r *Refusals) Record(ctx context.Context, op httpx.Op, path string) {
	p := auth.From(ctx)
	if p.Role == auth.Shopper {
		return
	}
	path = path[:min(len(path), maxSubject)]
	if !r.isNews(refusal{p.UserID, op.ID, path}) {
		return
	}
	// Who leaves before the answer was refused all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusalTimeout)
	defer cancel()
	detail := map[string]string{"method": op.Method, "needs": string(op.Role), "request_id": httpx.RequestID(ctx)}
	if err := insert(ctx, r.db, RefusedAction+op.ID, path, detail); err != nil {
		r.log.WarnContext(ctx, "refusal not in the audit log", "operation", op.ID, "actor", p.UserID, "error", err)
	}
}

// isNews reports whether the refusal was not recorded within refusalEvery, and
// notes it.
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
