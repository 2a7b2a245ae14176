package risk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const ruleColumns = `id, kind, threshold, window_seconds, action, amount, note, expires_at, created_at, updated_at`

func scanRule(row pgx.CollectableRow) (Rule, error) {
	var r Rule
	var seconds int64
	var expires *time.Time
	err := row.Scan(&r.ID, &r.Kind, &r.Threshold, &seconds, &r.Action, &r.Amount, &r.Note, &expires, &r.CreatedAt, &r.UpdatedAt)
	r.Window = time.Duration(seconds) * time.Second
	if expires != nil {
		r.ExpiresAt = *expires
	}
	return r, err
}

// maxRules bounds the rules, which every path of an offender goes through.
const maxRules = 200

// activeRules returns the rules that have not ended, the oldest first.
func activeRules(ctx context.Context, db querier) ([]Rule, error) {
	return collectRules(db.Query(ctx, `SELECT `+ruleColumns+` FROM risk.rules
		WHERE expires_at IS NULL OR expires_at > clock_timestamp() ORDER BY id LIMIT $1`, maxRules))
}

// listRules returns a page of rules, the newest first.
func listRules(ctx context.Context, db querier, before int64, limit int) ([]Rule, error) {
	return collectRules(db.Query(ctx, `SELECT `+ruleColumns+` FROM risk.rules WHERE $1 = 0 OR id < $1 ORDER BY id DESC LIMIT $2`, before, limit))
}

func collectRules(rows pgx.Rows, err error) ([]Rule, error) {
	var rules []Rule
	if err == nil {
		rules, err = pgx.CollectRows(rows, scanRule)
	}
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	return rules, nil
}

// insertRule stores a new rule; false when there are too many.
func insertRule(ctx context.Context, tx pgx.Tx, r Rule) (Rule, bool, error) {
	return oneRule(tx.Query(ctx, `
		INSERT INTO risk.rules (kind, threshold, window_seconds, action, amount, note, expires_at)
		SELECT $1, $2, $3, $4, $5, $6, $7 WHERE (SELECT count(*) FROM risk.rules WHERE expires_at IS NULL OR expires_at > clock_timestamp()) < $8
		RETURNING `+ruleColumns,
		string(r.Kind), r.Threshold, int64(r.Window/time.Second), string(r.Action), r.Amount, r.Note, moment(r.ExpiresAt), maxRules))
}

// updateRule replaces all of a rule but its kind; false when there is none.
func updateRule(ctx context.Context, tx pgx.Tx, r Rule) (Rule, bool, error) {
	return oneRule(tx.Query(ctx, `
		UPDATE risk.rules SET threshold = $2, window_seconds = $3, action = $4, amount = $5, note = $6, expires_at = $7, updated_at = clock_timestamp()
		WHERE id = $1 AND kind = $8 RETURNING `+ruleColumns,
		r.ID, r.Threshold, int64(r.Window/time.Second), string(r.Action), r.Amount, r.Note, moment(r.ExpiresAt), string(r.Kind)))
}

// deleteRule removes a rule and its marks, and returns it.
func deleteRule(ctx context.Context, tx pgx.Tx, id int64) (Rule, bool, error) {
	return oneRule(tx.Query(ctx, `DELETE FROM risk.rules WHERE id = $1 RETURNING `+ruleColumns, id))
}

func oneRule(rows pgx.Rows, err error) (Rule, bool, error) {
	if err != nil {
		return Rule{}, false, fmt.Errorf("change rule: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRule)
	if errors.Is(err, pgx.ErrNoRows) {
		return Rule{}, false, nil
	}
	if err != nil {
		return Rule{}, false, fmt.Errorf("change rule: %w", err)
	}
	return r, true, nil
}

// moment is a time as a nullable column takes it.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
