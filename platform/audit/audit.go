// Package audit writes the append-only log of what operators did.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
	return insert(ctx, tx, action, subject, detail)
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func insert(ctx context.Context, db execer, action, subject string, detail any) error {
	raw, err := json.Marshal(detail)
	if err != nil {
		return fmt.Errorf("audit: encode %s: %w", action, err)
	}
	p := auth.From(ctx)
	_, err = db.Exec(ctx, `INSERT INTO platform.audit (actor, role, action, subject, detail) VALUES ($1, $2, $3, $4, $5)`,
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

// Filter narrows a list; its zero value takes everything.
type Filter struct {
	Subject string
	Action  string
	Actor   int64 // an operator's user id
	Before  int64 // only actions older than this one
	Limit   int   // rows; 0 means all
}

// List returns the actions that pass every part of the filter, newest first.
func List(ctx context.Context, db Querier, f Filter) ([]Entry, error) {
	rows, err := db.Query(ctx, `
		SELECT id, at, actor, role, action, subject, detail FROM platform.audit
		WHERE ($1 = '' OR subject = $1) AND ($2 = '' OR action = $2) AND ($3 = 0 OR actor = $3) AND ($4 = 0 OR id < $4)
		ORDER BY id DESC LIMIT NULLIF($5, 0)`, f.Subject, f.Action, f.Actor, f.Before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("audit: list: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Entry])
	if err != nil {
		return nil, fmt.Errorf("audit: list: %w", err)
	}
	return list, nil
}
