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
	"stampede/seckill/rush"
)

// Results of a decision that restricted a shopper.
const (
	resultShortWindow = "short-window"
	resultLater       = "later"
	resultUnlucky     = "refused-by-chance"
	resultRefused     = "refused"
	resultPaused      = "paused"
	resultDryRun      = "dry-run" // restricted nothing
)

const (
	// maxQueued bounds the decisions waiting to be stored, some 300 bytes each: a
	// few seconds of a crowd of offenders, all of whom the rate limit slows down.
	maxQueued = 8192
	// maxStored bounds the decisions in one statement.
	maxStored = 500
	// storeTimeout bounds one statement, which is tried twice: a stop waits for it.
	storeTimeout = 2 * time.Second
)

// decision is a row of risk.decisions.
type decision struct {
	at             time.Time
	user, item     int64
	activity, rule int64
	no             ids.ID
	note, inputs   []byte // JSON
	result         string
}

// decide queues a decision to be stored. It never blocks: a shopper's answer does
// not depend on it.
func (s *Service) decide(a *rush.Applicant, rule int64, note ruleNote, in inputs, result string) {
	s.metrics.decisions.WithLabelValues(result).Inc()
	d := decision{at: a.Now, user: a.User, item: a.Item.ID, activity: a.Item.ActivityID, rule: rule, no: a.OrderNo, result: result}
	var err error
	if d.note, err = json.Marshal(note); err == nil {
		d.inputs, err = json.Marshal(in)
	}
	if err != nil {
		s.metrics.lost.Inc() // numbers and fixed strings always encode
		return
	}
	select {
	case s.queue <- d:
	default:
		s.metrics.lost.Inc()
	}
}

// storeDecisions stores the queued decisions, one statement for those that
// arrived during the previous one, until ctx ends and the queue is empty.
func (s *Service) storeDecisions(ctx context.Context) error {
	// The current batch is stored even if ctx has ended. Nothing follows it: by then
	// no requests are served.
	storing := context.WithoutCancel(ctx)
	for {
		select {
		case d := <-s.queue:
			if !s.store(storing, s.gather(d)) && ctx.Err() != nil {
				return nil //nolint:nilerr // the end of ctx is not a failure: Postgres is unavailable and the process is stopping
			}
			continue
		default:
		}
		select {
		case <-ctx.Done():
			return nil
		case d := <-s.queue:
			s.store(storing, s.gather(d))
		}
	}
}

func (s *Service) gather(first decision) []decision {
	batch := []decision{first}
	for len(batch) < maxStored {
		select {
		case d := <-s.queue:
			batch = append(batch, d)
		default:
			return batch
		}
	}
	return batch
}

// store writes a batch and retries once; decisions that Postgres took neither
// time are counted as lost.
func (s *Service) store(ctx context.Context, batch []decision) bool {
	var rows riskdb.InsertDecisionsParams
	for _, d := range batch {
		rows.At, rows.OrderNos, rows.Users = append(rows.At, d.at), append(rows.OrderNos, d.no), append(rows.Users, d.user)
		rows.Items, rows.Activities, rows.RuleIds = append(rows.Items, d.item), append(rows.Activities, d.activity), append(rows.RuleIds, d.rule)
		rows.Rules, rows.Inputs, rows.Results = append(rows.Rules, string(d.note)), append(rows.Inputs, string(d.inputs)), append(rows.Results, d.result)
	}
	var err error
	for range 2 {
		if err = s.insertDecisions(ctx, rows); err == nil {
			return true
		}
	}
	s.metrics.lost.Add(float64(len(batch)))
	s.deps.Log.WarnContext(ctx, "decisions not stored", "decisions", len(batch), "error", err)
	return false
}

func (s *Service) insertDecisions(ctx context.Context, rows riskdb.InsertDecisionsParams) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return riskdb.New(s.deps.DB).InsertDecisions(ctx, rows)
}

type riskDecision struct {
	ID         string         `json:"id"`
	At         string         `json:"at" format:"date-time"`
	UserID     string         `json:"user_id"`
	ItemID     string         `json:"item_id"`
	ActivityID string         `json:"activity_id"`
	OrderNo    ids.ID         `json:"order_no" doc:"The number of the path that was restricted or refused"`
	RuleID     string         `json:"rule_id,omitempty" doc:"Missing if the blacklist decided, or the pause after unpaid orders" example:"3"`
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
