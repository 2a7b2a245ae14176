// Package audit writes the append-only log of what operators did.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/auth"
)

// Entry is one action as the log keeps it.
type Entry struct {
	ID      int64           `json:"id,string"`
	At      time.Time       `json:"at"`
	Actor   int64           `json:"actor,string"`
	Role    string          `json:"role"`
	Action  string          `json:"action"`  // "activity.publish"
	Subject string          `json:"subject"` // "activity 12"
	Detail  json.RawMessage `json:"detail"`
}

// Record writes one action of the principal in ctx inside the transaction that
// carries it out, so that neither exists without the other.
func Record(ctx context.Context, tx pgx.Tx, action, subject string, detail any) error {
	raw, err := json.Marshal(detail)
	if err != nil {
		return fmt.Errorf("audit: encode %s: %w", action, err)
	}
	p := auth.From(ctx)
	_, err = tx.Exec(ctx, `INSERT INTO platform.audit (actor, role, action, subject, detail) VALUES ($1, $2, $3, $4, $5)`,
		p.UserID, string(p.Role), action, subject, raw)
	if err != nil {
		return fmt.Errorf("audit: record %s: %w", action, err)
	}
	return nil
}

// Querier reads: a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// List returns at most limit actions older than before (0 = newest), newest
// first, of one subject or of all when subject is empty.
func List(ctx context.Context, db Querier, subject string, before int64, limit int) ([]Entry, error) {
	rows, err := db.Query(ctx, `
		SELECT id, at, actor, role, action, subject, detail FROM platform.audit
		WHERE ($1 = '' OR subject = $1) AND ($2 = 0 OR id < $2) ORDER BY id DESC LIMIT $3`, subject, before, limit)
	if err != nil {
		return nil, fmt.Errorf("audit: list: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Entry])
}
