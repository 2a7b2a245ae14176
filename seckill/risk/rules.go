package risk

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/watch/audit"
	"stampede/seckill/risk/internal/riskdb"
)

// riskRuleDraft is a rule as an operator submits it.
type riskRuleDraft struct {
	Kind          string     `json:"kind" enum:"unpaid_holds,open_unpaid"`
	Threshold     int32      `json:"threshold" minimum:"1" maximum:"100000" doc:"The rule applies to users whose count reaches it" example:"3"`
	WindowSeconds *int64     `json:"window_seconds,omitempty" minimum:"60" maximum:"7776000" doc:"unpaid_holds: how recent a closing must be to count, 30 days by default"`
	Action        string     `json:"action" enum:"short_window,later,chance,none"`
	Amount        float64    `json:"amount,omitempty" doc:"short_window: seconds to pay, 10 to 65535; later: milliseconds after the opening, 1 to 600000; chance: above 0 and below 1; none: nothing" example:"60"`
	Note          string     `json:"note,omitempty" maxLength:"500" doc:"For operators; never shown to a shopper"`
	ExpiresAt     *time.Time `json:"expires_at,omitempty" doc:"When the rule expires; never if omitted"`
	DryRunUntil   *time.Time `json:"dry_run_until,omitempty" doc:"Until then the rule restricts no user; whom it would have restricted is in the decisions, as dry-run"`
}

// riskRule is a rule as operators see it.
type riskRule struct {
	ID            string  `json:"id"`
	Kind          string  `json:"kind" enum:"unpaid_holds,open_unpaid" doc:"What is counted about a user"`
	Threshold     int32   `json:"threshold" doc:"The count at which the rule applies to a user"`
	WindowSeconds int64   `json:"window_seconds" doc:"How far back is counted"`
	Action        string  `json:"action" enum:"short_window,later,chance,none" doc:"What the rule does to the rush path"`
	Amount        float64 `json:"amount" doc:"short_window: seconds to pay; later: milliseconds after the opening; chance: the probability of a path; none: 0"`
	Note          string  `json:"note,omitempty" doc:"Why the rule exists, in its author's words"`
	ExpiresAt     string  `json:"expires_at,omitempty" format:"date-time" doc:"Missing for a rule without an end"`
	DryRunUntil   string  `json:"dry_run_until,omitempty" format:"date-time" doc:"Until then the rule only records decisions, as dry-run"`
	InForce       bool    `json:"in_force" doc:"false once it has expired, and for a rule of a kind that is not counted"`
	CreatedAt     string  `json:"created_at" format:"date-time"`
	UpdatedAt     string  `json:"updated_at" format:"date-time"`
}

func (s *Service) view(r Rule) riskRule {
	v := riskRule{
		ID: httpx.FormatID(r.ID), Kind: r.Kind, Threshold: r.Threshold, WindowSeconds: r.WindowSeconds, Action: r.Action,
		Amount: r.Amount, Note: r.Note, InForce: counted(&r) && !over(&r, s.deps.Clock.Now()),
		CreatedAt: httpx.Moment(r.CreatedAt), UpdatedAt: httpx.Moment(r.UpdatedAt),
	}
	if r.ExpiresAt != nil {
		v.ExpiresAt = httpx.Moment(*r.ExpiresAt)
	}
	if r.DryRunUntil != nil {
		v.DryRunUntil = httpx.Moment(*r.DryRunUntil)
	}
	return v
}

// rule reads and checks an input.
func (s *Service) rule(in *riskRuleDraft) (Rule, error) {
	r := Rule{
		Kind: in.Kind, Threshold: in.Threshold, WindowSeconds: int64(defaultWindow.Seconds()), Action: in.Action, Amount: in.Amount, Note: in.Note,
		ExpiresAt: in.ExpiresAt, DryRunUntil: in.DryRunUntil,
	}
	if in.WindowSeconds != nil {
		r.WindowSeconds = *in.WindowSeconds
	}
	err := check(&r, s.deps.Clock.Now())
	return r, err
}

type rulesInput struct{ httpx.ChangesInput }

func (s *Service) listRules(ctx context.Context, in *rulesInput) (*httpx.PageOutput[riskRule], error) {
	return httpx.PageOfChanges(in.ChangesInput, func(p httpx.PageInput) ([]Rule, error) {
		before, err := p.BeforeID()
		if err != nil {
			return nil, err
		}
		rules, err := riskdb.New(s.deps.DB).Rules(ctx, riskdb.RulesParams{Before: before, AtMost: int32(p.Ask())}) //nolint:gosec // a page
		return rules, unreachable(err)
	}, func(r Rule) time.Time { return r.UpdatedAt }, s.view, func(r Rule) string { return httpx.FormatID(r.ID) })
}

type addRuleInput struct {
	idempotency.Header
	Body riskRuleDraft
}

func (s *Service) addRule(ctx context.Context, in *addRuleInput) (*httpx.Output[riskRule], error) {
	r, err := s.rule(&in.Body)
	if err != nil {
		return nil, err
	}
	return s.storeRule(ctx, "risk-rule.add", in.Key, &r, errTooMany, func(ctx context.Context, q *riskdb.Queries) (before any, stored Rule, err error) {
		stored, err = q.InsertRule(ctx, riskdb.InsertRuleParams{
			Kind: r.Kind, Threshold: r.Threshold, WindowSeconds: r.WindowSeconds, Action: r.Action, Amount: r.Amount, Note: r.Note,
			ExpiresAt: r.ExpiresAt, DryRunUntil: r.DryRunUntil, AtMost: maxRules,
		})
		return nil, stored, err
	})
}

type changeRuleInput struct {
	ID   string `path:"id" doc:"The rule's id"`
	Body riskRuleDraft
}

func (s *Service) changeRule(ctx context.Context, in *changeRuleInput) (*httpx.Output[riskRule], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	r, err := s.rule(&in.Body)
	if err != nil {
		return nil, err
	}
	return s.storeRule(ctx, "risk-rule.change", "", &r, errNoRule, func(ctx context.Context, q *riskdb.Queries) (before any, stored Rule, err error) {
		was, err := q.LockRule(ctx, id)
		if err != nil {
			return nil, was, err
		}
		if was.Kind != r.Kind {
			return nil, was, errKindStay
		}
		stored, err = q.UpdateRule(ctx, riskdb.UpdateRuleParams{
			ID: id, Kind: r.Kind, Threshold: r.Threshold, WindowSeconds: r.WindowSeconds, Action: r.Action, Amount: r.Amount, Note: r.Note,
			ExpiresAt: r.ExpiresAt, DryRunUntil: r.DryRunUntil,
		})
		return s.view(was), stored, err
	})
}

// storeRule stores one rule together with its marks and its audit record; once per
// Idempotency-Key.
func (s *Service) storeRule(ctx context.Context, action, key string, r *Rule, missing *fault.Error,
	put func(context.Context, *riskdb.Queries) (before any, stored Rule, err error),
) (*httpx.Output[riskRule], error) {
	// Before the transaction: counting in other modules may take a while.
	hits, err := s.hits(ctx, s.deps.DB, r, nil)
	if err != nil {
		return nil, unreachable(err)
	}
	out := httpx.Answer(riskRule{})
	err = s.current.Change(ctx, func(tx pgx.Tx) (stored bool, err error) {
		out.Body, err = idempotency.Once(ctx, tx, key, action, r, func() (none riskRule, err error) {
			before, rule, err := put(ctx, riskdb.New(tx))
			if err != nil {
				return none, orMissing(err, missing)
			}
			if _, err := setMarks(ctx, tx, rule.ID, hits); err != nil {
				return none, err
			}
			stored = true
			return s.view(rule), audit.Record(ctx, tx, action, "risk rule "+httpx.FormatID(rule.ID), audit.Change{Before: before, After: s.view(rule)})
		})
		return stored, err
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return out, nil
}

// orMissing is the error of a statement on a rule, missing where it found no row.
func orMissing(err error, missing *fault.Error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return missing
	}
	return err
}

type removeRuleInput struct {
	ID string `path:"id" doc:"The rule's id"`
}

func (s *Service) removeRule(ctx context.Context, in *removeRuleInput) (*httpx.Output[riskRule], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	var gone Rule
	err = s.current.Change(ctx, func(tx pgx.Tx) (bool, error) {
		if gone, err = riskdb.New(tx).RemoveRule(ctx, id); err != nil {
			return false, orMissing(err, errNoRule)
		}
		return true, audit.Record(ctx, tx, "risk-rule.remove", "risk rule "+httpx.FormatID(id), audit.Change{Before: s.view(gone)})
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(s.view(gone)), nil
}

// shownHits is how many users a dry run lists; the count includes all.
const shownHits = 100

type riskHit struct {
	UserID string `json:"user_id"`
	Count  int64  `json:"count" doc:"What the rule counts about this user"`
	Until  string `json:"until,omitempty" format:"date-time" doc:"When the user falls below the threshold if nothing more happens"`
}

type tryRuleOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Count int       `json:"count" doc:"The number of users the rule would apply to"`
		Data  []riskHit `json:"data" nullable:"false" doc:"The worst 100 of them"`
	} `nameHint:"RiskDryRun"`
}

// tryRuleInput takes no Idempotency-Key: nothing is stored.
type tryRuleInput struct{ Body riskRuleDraft }

func (s *Service) tryRule(ctx context.Context, in *tryRuleInput) (*tryRuleOutput, error) {
	r, err := s.rule(&in.Body)
	if err != nil {
		return nil, err
	}
	hits, err := s.hits(ctx, s.deps.DB, &r, nil)
	if err != nil {
		return nil, unreachable(err)
	}
	out := &tryRuleOutput{CacheControl: httpx.NoStore}
	out.Body.Count = len(hits)
	out.Body.Data = []riskHit{}
	for _, h := range hits[:min(len(hits), shownHits)] {
		v := riskHit{UserID: httpx.FormatID(h.User), Count: h.Count}
		if h.Until.Before(never) {
			v.Until = httpx.Moment(h.Until)
		}
		out.Body.Data = append(out.Body.Data, v)
	}
	return out, nil
}
