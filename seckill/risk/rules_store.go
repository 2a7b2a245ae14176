package risk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/seckill/risk/internal/riskdb"
)

func ruleOf(row riskdb.RiskRule) Rule {
	r := Rule{
		ID: row.ID, Kind: Kind(row.Kind), Threshold: row.Threshold, Window: time.Duration(row.WindowSeconds) * time.Second, Action: Action(row.Action),
		Amount: row.Amount, Note: row.Note, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	if row.ExpiresAt != nil {
		r.ExpiresAt = *row.ExpiresAt
	}
	if row.DryRunUntil != nil {
		r.DryRun = *row.DryRunUntil
	}
	return r
}

// maxRules bounds the rules, all of which are checked for every path of an
// offender.
const maxRules = 200

// activeRules returns the rules that have not expired, oldest first.
func activeRules(ctx context.Context, db riskdb.DBTX) ([]Rule, error) {
	return rulesOf(riskdb.New(db).ActiveRules(ctx, maxRules))
}

// listRules returns a page of rules, newest first.
func listRules(ctx context.Context, db riskdb.DBTX, before int64, limit int) ([]Rule, error) {
	return rulesOf(riskdb.New(db).Rules(ctx, riskdb.RulesParams{Before: before, AtMost: int32(limit)})) //nolint:gosec // a page
}

func rulesOf(rows []riskdb.RiskRule, err error) ([]Rule, error) {
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	rules := make([]Rule, len(rows))
	for i, row := range rows {
		rules[i] = ruleOf(row)
	}
	return rules, nil
}

// insertRule stores a new rule; false if there are too many.
func insertRule(ctx context.Context, tx pgx.Tx, r Rule) (Rule, bool, error) {
	return oneRule(riskdb.New(tx).InsertRule(ctx, riskdb.InsertRuleParams{
		Kind: string(r.Kind), Threshold: r.Threshold, WindowSeconds: int64(r.Window / time.Second), Action: string(r.Action),
		Amount: r.Amount, Note: r.Note, ExpiresAt: moment(r.ExpiresAt), DryRunUntil: moment(r.DryRun), AtMost: maxRules,
	}))
}

// updateRule replaces everything in a rule except its kind; false if there is
// none.
func updateRule(ctx context.Context, tx pgx.Tx, r Rule) (Rule, bool, error) {
	return oneRule(riskdb.New(tx).UpdateRule(ctx, riskdb.UpdateRuleParams{
		ID: r.ID, Kind: string(r.Kind), Threshold: r.Threshold, WindowSeconds: int64(r.Window / time.Second), Action: string(r.Action),
		Amount: r.Amount, Note: r.Note, ExpiresAt: moment(r.ExpiresAt), DryRunUntil: moment(r.DryRun),
	}))
}

// deleteRule removes a rule and its marks, and returns it.
func deleteRule(ctx context.Context, tx pgx.Tx, id int64) (Rule, bool, error) {
	return oneRule(riskdb.New(tx).RemoveRule(ctx, id))
}

func oneRule(row riskdb.RiskRule, err error) (Rule, bool, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Rule{}, false, nil
	}
	if err != nil {
		return Rule{}, false, fmt.Errorf("change rule: %w", err)
	}
	return ruleOf(row), true, nil
}

// moment is a time as a value for a nullable column.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
