package risk

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/identity/blacklist"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/seckill/risk/internal/riskdb"
)

type riskRuleDraft struct {
	Kind          string     `json:"kind" enum:"unpaid_holds,open_unpaid"`
	Threshold     int32      `json:"threshold" minimum:"1" maximum:"100000" doc:"The rule applies to users whose count reaches it" example:"3"`
	WindowSeconds *int64     `json:"window_seconds,omitempty" minimum:"60" maximum:"7776000" doc:"unpaid_holds: how recent a closing must be to count, 30 days by default"`
	Action        string     `json:"action" enum:"short_window,later,chance,none"`
	Amount        float64    `json:"amount,omitempty" doc:"short_window: seconds to pay, 10 to 65535; later: milliseconds after the opening, 1 to 600000; chance: above 0 and below 1; none: nothing" example:"60"`
	Reason        string     `json:"reason,omitempty" maxLength:"500" doc:"Why, for operators; never shown to a shopper" example:"Holds units and never pays."`
	ExpiresAt     *time.Time `json:"expires_at,omitempty" doc:"When the rule expires; never if omitted"`
	DryRunUntil   *time.Time `json:"dry_run_until,omitempty" doc:"Until then the rule restricts no user; whom it would have restricted is in the decisions, as dry-run"`
}

type riskRule struct {
	ID            string  `json:"id"`
	Kind          string  `json:"kind" enum:"unpaid_holds,open_unpaid" doc:"What is counted about a user"`
	Threshold     int32   `json:"threshold" doc:"The count at which the rule applies to a user"`
	WindowSeconds int64   `json:"window_seconds" doc:"How far back is counted"`
	Action        string  `json:"action" enum:"short_window,later,chance,none" doc:"What the rule does to the rush path"`
	Amount        float64 `json:"amount" doc:"short_window: seconds to pay; later: milliseconds after the opening; chance: the probability of a path; none: 0"`
	Reason        string  `json:"reason,omitempty" doc:"Why the rule exists, in its author's words" example:"Holds units and never pays."`
	ExpiresAt     string  `json:"expires_at,omitempty" format:"date-time" doc:"Missing for a rule without an end"`
	DryRunUntil   string  `json:"dry_run_until,omitempty" format:"date-time" doc:"Until then the rule only records decisions, as dry-run"`
	InForce       bool    `json:"in_force" doc:"false once it has expired, and for a rule of a kind that is not counted"`
	CreatedAt     string  `json:"created_at" format:"date-time"`
	UpdatedAt     string  `json:"updated_at" format:"date-time"`
}

func (s *Service) view(r Rule) riskRule {
	return riskRule{
		ID: httpx.FormatID(r.ID), Kind: r.Kind, Threshold: r.Threshold, WindowSeconds: r.WindowSeconds, Action: r.Action,
		Amount: r.Amount, Reason: r.Note, InForce: counted(&r) && !over(&r, s.deps.Clock.Now()),
		ExpiresAt: httpx.MomentOrNone(r.ExpiresAt), DryRunUntil: httpx.MomentOrNone(r.DryRunUntil),
		CreatedAt: httpx.Moment(r.CreatedAt), UpdatedAt: httpx.Moment(r.UpdatedAt),
	}
}

func (s *Service) rule(in *riskRuleDraft) (Rule, error) {
	r := Rule{
		Kind: in.Kind, Threshold: in.Threshold, WindowSeconds: pg.ValueOr(in.WindowSeconds, int64(defaultWindow.Seconds())),
		Action: in.Action, Amount: in.Amount, Note: in.Reason, ExpiresAt: in.ExpiresAt, DryRunUntil: in.DryRunUntil,
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
		stored, err = putRule(ctx, q, &r)
		return nil, stored, err
	})
}

func putRule(ctx context.Context, q *riskdb.Queries, r *Rule) (Rule, error) {
	return q.PutRule(ctx, riskdb.PutRuleParams{
		ID: r.ID, Kind: r.Kind, Threshold: r.Threshold, WindowSeconds: r.WindowSeconds, Action: r.Action, Amount: r.Amount, Note: r.Note,
		ExpiresAt: r.ExpiresAt, DryRunUntil: r.DryRunUntil, AtMost: maxRules,
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
		r.ID = id
		stored, err = putRule(ctx, q, &r)
		return s.view(was), stored, err
	})
}

// storeRule stores one rule together with its marks and its audit record; once per
// Idempotency-Key.
func (s *Service) storeRule(ctx context.Context, action, key string, r *Rule, missing *fault.Error,
	put func(context.Context, *riskdb.Queries) (before any, stored Rule, err error),
) (*httpx.Output[riskRule], error) {
	// Before the transaction: counting in other modules may take a while.
	hits, err := s.hits(ctx, r, nil)
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

type riskDryRun struct {
	Count int       `json:"count" doc:"The number of users the rule would apply to"`
	Data  []riskHit `json:"data" nullable:"false" doc:"The worst 100 of them"`
}

// tryRuleInput takes no Idempotency-Key: nothing is stored.
type tryRuleInput struct{ Body riskRuleDraft }

func (s *Service) tryRule(ctx context.Context, in *tryRuleInput) (*httpx.Output[riskDryRun], error) {
	r, err := s.rule(&in.Body)
	if err != nil {
		return nil, err
	}
	hits, err := s.hits(ctx, &r, nil)
	if err != nil {
		return nil, unreachable(err)
	}
	out := riskDryRun{Count: len(hits), Data: []riskHit{}}
	for _, h := range hits[:min(len(hits), shownHits)] {
		v := riskHit{UserID: httpx.FormatID(h.UserID), Count: h.Count}
		if h.Until.Before(never) {
			v.Until = httpx.Moment(h.Until)
		}
		out.Data = append(out.Data, v)
	}
	return httpx.Answer(out), nil
}

// The kinds of rules: what a rule counts about a user.
const (
	// UnpaidHolds counts orders that were closed unpaid within the window.
	UnpaidHolds = "unpaid_holds"
	// OpenUnpaid counts orders that wait for payment now; the window is ignored.
	OpenUnpaid = "open_unpaid"
)

// The actions of rules on a path, from mild to strict, with the meaning of their amount.
const (
	ShortWindow = "short_window" // seconds to pay
	Later       = "later"        // milliseconds after the opening
	Chance      = "chance"       // probability of a path, above 0 and below 1
	None        = "none"         // no path
)

// Rule is one of the shop's rules about offenders. Without an end it never expires;
// before the end of its dry run it only records decisions.
type Rule = riskdb.RiskRule

// maxRules bounds the rules, all of which are checked for every path of an
// offender.
const maxRules = 200

// Bounds of a rule. The CHECKs of risk.rules repeat those of the amounts.
const (
	minWindow = time.Minute
	// defaultWindow is the window of a rule that gives none.
	defaultWindow = 30 * 24 * time.Hour
	// maxWindow is also how long unpaid closings are kept.
	maxWindow    = 90 * 24 * time.Hour
	maxThreshold = 100_000
	// minPaySeconds is the shortest window an activity may have; maxPaySeconds is
	// the longest that a path can carry.
	minPaySeconds, maxPaySeconds = 10, 65_535
	// maxLater is ten minutes: after that a flash sale is over, and refusing the
	// path would be the more honest rule.
	maxLater  = 10 * time.Minute
	maxReason = 500
)

// check returns the error in a rule, nil if there is none.
func check(r *Rule, now time.Time) error {
	invalid := func(detail fault.Text) error { return fault.Plain(fault.Invalid, detail) }
	switch {
	case r.Threshold < 1 || r.Threshold > maxThreshold:
		return invalid(fault.T("threshold must be between 1 and 100000.", "threshold 须为 1 至 100000。"))
	case r.WindowSeconds < int64(minWindow.Seconds()) || r.WindowSeconds > int64(maxWindow.Seconds()):
		return invalid(fault.T("window_seconds must be between 60 (a minute) and 7776000 (90 days).",
			"window_seconds 须为 60（一分钟）至 7776000（90 天）。"))
	case r.ExpiresAt != nil && !r.ExpiresAt.After(now):
		return invalid(fault.T("expires_at must lie in the future; omit it for a rule without an end.",
			"expires_at 须晚于当前时间；长期有效的规则请留空。"))
	case len([]rune(r.Note)) > maxReason || strings.ContainsRune(r.Note, 0):
		return invalid(fault.T("reason may have at most 500 characters.", "reason 最多 500 个字符。"))
	}
	switch r.Action {
	case ShortWindow:
		if r.Amount < minPaySeconds || r.Amount > maxPaySeconds {
			return invalid(fault.T("amount of short_window is the seconds to pay, between 10 and 65535.",
				"short_window 的 amount 为付款秒数，须为 10 至 65535。"))
		}
	case Later:
		if r.Amount < 1 || r.Amount > float64(maxLater.Milliseconds()) {
			return invalid(fault.T("amount of later is milliseconds after the opening, between 1 and 600000.",
				"later 的 amount 为开抢后的毫秒数，须为 1 至 600000。"))
		}
	case Chance:
		if !(r.Amount > 0 && r.Amount < 1) {
			return invalid(fault.T("amount of chance is the probability of a path, above 0 and below 1.",
				"chance 的 amount 为获得链接的概率，须大于 0 且小于 1。"))
		}
	default:
		if r.Amount != 0 {
			return invalid(fault.T("none takes no amount.", "none 没有 amount。"))
		}
	}
	return nil
}

// counted reports whether the rule's kind is counted. Another version of the program
// may have stored one that is not.
func counted(r *Rule) bool { return r.Kind == UnpaidHolds || r.Kind == OpenUnpaid }

func over(r *Rule, now time.Time) bool { return r.ExpiresAt != nil && !now.Before(*r.ExpiresAt) }

var (
	errNoRule = fault.Plain(fault.NotFound,
		fault.T("There is no such rule; it may already have been removed.", "没有该规则，可能已被移除。"))
	errTooMany = blacklist.ErrFull.Saying(fault.T("200 rules are in force, the maximum; remove one, or let one expire.",
		"生效的规则已达 200 条上限，请移除一条或等待其过期。"))
	errKindStay = fault.Plain(fault.Invalid,
		fault.T("A rule's kind cannot be changed; remove the rule and create another one.", "规则的类型不能修改，请移除后重新创建。"))
)

// unreachable is an operator's error for a failed store.
func unreachable(err error) error { return httpx.Unreachable(fault.T("The rules", "规则"), err) }

// Routes registers the operators' routes.
func (s *Service) Routes(rt *httpx.Router) {
	rt.API.Member("activity",
		huma.Schema{Type: huma.TypeString, Description: "The name of the activity that you take part in, in a one-activity problem", Examples: []any{"Singles' Day"}})
	rt.API.Member("activity_id",
		huma.Schema{Type: huma.TypeString, Description: "The activity that you take part in, in a one-activity problem", Examples: []any{"12"}})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/risk/rules", ID: "list-risk-rules", Tag: "operator", Role: auth.Viewer,
		Summary: "Rules that weaken or refuse rush paths, newest first",
	}, s.listRules)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/risk/rules", ID: "add-risk-rule", Tag: "operator", Role: auth.Operator, Status: http.StatusCreated,
		Summary: "Create a rule", Audit: "risk-rule.add",
		Description: "A rule applies to every user whose count has reached its threshold: orders closed unpaid within the window (`unpaid_holds`, 30 days " +
			"by default), or orders that wait for payment now (`open_unpaid`). Actions are graded: `short_window` gives fewer seconds to pay, " +
			"`later` lets the path be used some milliseconds after the opening, `chance` gives a path with a probability that is drawn " +
			"once for each item, `none` gives none. All rules that apply to a user apply together. In force on every instance within a second.",
		Refuses: []*fault.Error{blacklist.ErrFull},
	}, s.addRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: "/api/v1/admin/risk/rules/{id}", ID: "change-risk-rule", Tag: "operator", Role: auth.Operator,
		Summary: "Replace everything in a rule except its kind", Audit: "risk-rule.change",
		Description: "Its users are recounted. Earlier decisions keep the rule as it was.",
	}, s.changeRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: "/api/v1/admin/risk/rules/{id}", ID: "remove-risk-rule", Tag: "operator", Role: auth.Operator,
		Summary: "Remove a rule", Audit: "risk-rule.remove",
	}, s.removeRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/risk/rules/dry-run", ID: "try-risk-rule", Tag: "operator", Role: auth.Viewer,
		Summary: "The users a rule would apply to now", NoKey: "it stores nothing",
		Description: "Nothing is stored and no user is restricted.",
	}, s.tryRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/risk/decisions", ID: "list-risk-decisions", Tag: "operator", Role: auth.Viewer,
		Summary:     "Decisions that restricted a user, newest first",
		Description: "Each with the rule at that time, its data about the user, and the result. Kept for `--keep-records`.",
	}, s.listDecisions)
}

type decisionsInput struct {
	UserID httpx.QueryID `query:"user_id" doc:"Only about this user"`
	RuleID httpx.QueryID `query:"rule_id" doc:"Only by this rule"`
	httpx.ChangesInput
}

func (s *Service) listDecisions(ctx context.Context, in *decisionsInput) (*httpx.PageOutput[riskDecision], error) {
	made := func(d riskDecision) time.Time { return d.at }
	return httpx.PageOfChanges(in.ChangesInput, func(p httpx.PageInput) ([]riskDecision, error) {
		before, err := p.BeforeID()
		if err != nil {
			return nil, err
		}
		rows, err := readDecisions(ctx, s.deps.DB, in.UserID.N, in.RuleID.N, before, p.Ask())
		return httpx.MadeSince(rows, in.UpdatedFrom, made), unreachable(err)
	}, made, func(d riskDecision) riskDecision { return d }, func(d riskDecision) string { return d.ID })
}
