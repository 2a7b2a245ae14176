package risk

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/httpx"
	"stampede/platform/ids"
)

// DecisionView is a decision as operators read it.
type DecisionView struct {
	ID         string         `json:"id"`
	At         string         `json:"at" format:"date-time"`
	UserID     string         `json:"user_id"`
	ItemID     string         `json:"item_id"`
	ActivityID string         `json:"activity_id"`
	OrderNo    ids.ID         `json:"order_no" doc:"The number of the path that was restricted or refused"`
	RuleID     string         `json:"rule_id,omitempty" doc:"Left out where the blacklist decided"`
	Rule       map[string]any `json:"rule" doc:"The rule as it was then, or the blacklist's entry"`
	Inputs     map[string]any `json:"inputs" doc:"What the rule saw of the user: the count, and until when it hits"`
	Result     string         `json:"result" enum:"short-window,later,refused-by-chance,refused" doc:"short-window, later: a weaker path; refused-by-chance, refused: none"`
}

// readDecisions returns decisions, the newest first; 0 stands for any user, any
// rule, and the beginning.
func readDecisions(ctx context.Context, db querier, user, rule, before int64, limit int) ([]DecisionView, error) {
	rows, err := db.Query(ctx, `
		SELECT id, at, user_id, item_id, activity_id, order_no, rule_id, rule, inputs, result FROM risk.decisions
		WHERE ($1 = 0 OR user_id = $1) AND ($2 = 0 OR rule_id = $2) AND ($3 = 0 OR id < $3)
		ORDER BY id DESC LIMIT $4`, user, rule, before, limit)
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanDecision)
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	return list, nil
}

func scanDecision(row pgx.CollectableRow) (DecisionView, error) {
	var v DecisionView
	var id, user, item, activity, rule int64
	var at time.Time
	var note, seen []byte
	if err := row.Scan(&id, &at, &user, &item, &activity, &v.OrderNo, &rule, &note, &seen, &v.Result); err != nil {
		return v, err
	}
	v.ID, v.At, v.UserID, v.ItemID, v.ActivityID = httpx.FormatID(id), httpx.Moment(at), httpx.FormatID(user), httpx.FormatID(item), httpx.FormatID(activity)
	if rule != 0 {
		v.RuleID = httpx.FormatID(rule)
	}
	if err := json.Unmarshal(note, &v.Rule); err != nil {
		return v, err
	}
	return v, json.Unmarshal(seen, &v.Inputs)
}
