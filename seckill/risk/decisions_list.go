package risk

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/seckill/risk/internal/riskdb"
)

// riskDecision is a decision as operators see it.
type riskDecision struct {
	ID         string         `json:"id"`
	At         string         `json:"at" format:"date-time"`
	UserID     string         `json:"user_id"`
	ItemID     string         `json:"item_id"`
	ActivityID string         `json:"activity_id"`
	OrderNo    ids.ID         `json:"order_no" doc:"The number of the path that was restricted or refused"`
	RuleID     string         `json:"rule_id,omitempty" doc:"Missing if the blacklist decided, or the pause after unpaid orders"`
	Rule       map[string]any `json:"rule" doc:"The rule at that time, the blacklist's entry, or kind unpaid_in_activity for a pause"`
	Inputs     map[string]any `json:"inputs" doc:"The rule's data about the user: the count, and until when the rule applies"`
	Result     string         `json:"result" enum:"short-window,later,refused-by-chance,refused,paused,dry-run" doc:"short-window, later: a weaker path; refused-by-chance, refused, paused: none; dry-run: not restricted yet"`

	at time.Time
}

// readDecisions returns decisions, newest first; 0 means any user, any rule,
// and the beginning.
func readDecisions(ctx context.Context, db *pgxpool.Pool, user, rule, before int64, limit int) ([]riskDecision, error) {
	rows, err := riskdb.New(db).Decisions(ctx, riskdb.DecisionsParams{UserID: user, RuleID: rule, Before: before, AtMost: int32(limit)}) //nolint:gosec // a page
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	list := make([]riskDecision, len(rows))
	for i := range rows {
		if list[i], err = viewOf(&rows[i]); err != nil {
			return nil, fmt.Errorf("read decision %d: %w", rows[i].ID, err)
		}
	}
	return list, nil
}

func viewOf(d *riskdb.RiskDecision) (riskDecision, error) {
	v := riskDecision{
		ID: httpx.FormatID(d.ID), At: httpx.Moment(d.At), UserID: httpx.FormatID(d.UserID), ItemID: httpx.FormatID(d.ItemID),
		ActivityID: httpx.FormatID(d.ActivityID), OrderNo: d.OrderNo, Result: d.Result, at: d.At,
	}
	if d.RuleID != 0 {
		v.RuleID = httpx.FormatID(d.RuleID)
	}
	if err := json.Unmarshal(d.Rule, &v.Rule); err != nil {
		return v, err
	}
	return v, json.Unmarshal(d.Inputs, &v.Inputs)
}
