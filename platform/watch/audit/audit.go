// Package audit writes the append-only log of operators' actions.
package audit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit/internal/auditdb"
)

// Entry is one action in the log: "activity.publish" on "activity 12".
type Entry = auditdb.PlatformAudit

// Change is the detail of an action that changed something.
type Change struct {
	Before any    `json:"before,omitempty"` // nil for what did not exist
	After  any    `json:"after,omitempty"`  // nil for what exists no more
	Reason string `json:"reason,omitempty"` // in the operator's words
}

// Record writes one change by the principal in ctx inside the transaction that
// makes it, so that neither exists without the other.
func Record(ctx context.Context, tx pgx.Tx, action, subject string, c Change) error {
	if c.Before == nil && c.After == nil {
		return fmt.Errorf("audit: %s names neither what was before nor what is after", action)
	}
	return insert(ctx, tx, action, subject, c)
}

// Note writes one action that changed none of the shop's data, such as a search, with
// what was asked for.
func Note(ctx context.Context, tx pgx.Tx, action, subject string, asked any) error {
	return insert(ctx, tx, action, subject, asked)
}

func insert(ctx context.Context, db auditdb.DBTX, action, subject string, detail any) error {
	raw, err := json.Marshal(detail)
	if err != nil {
		return fmt.Errorf("audit: encode %s: %w", action, err)
	}
	p := auth.From(ctx)
	err = auditdb.New(db).RecordAction(ctx, auditdb.RecordActionParams{Actor: p.UserID, Role: string(p.Role), Action: action, Subject: subject, Detail: raw})
	if err != nil {
		return fmt.Errorf("audit: record %s: %w", action, err)
	}
	return nil
}

// Filter narrows a list; the zero value matches every action.
type Filter struct {
	Subject string
	Action  string
	Actor   int64 // an operator's user id
	Before  int64 // only actions older than this one
	Limit   int   // rows; 0 means all
}

// List returns the actions that match the filter, newest first.
func List(ctx context.Context, db pg.DB, f Filter) ([]Entry, error) {
	rows, err := auditdb.New(db).Actions(ctx, auditdb.ActionsParams{
		Subject: f.Subject, Action: f.Action, Actor: f.Actor, Before: f.Before, AtMost: int32(f.Limit), //nolint:gosec // a page
	})
	if err != nil {
		return nil, fmt.Errorf("audit: list: %w", err)
	}
	return rows, nil
}
