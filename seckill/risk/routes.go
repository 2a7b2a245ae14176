package risk

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

var (
	errNoRule   = fault.Plain(fault.NotFound, "There is no such rule; it may have been removed already.")
	errTooMany  = fault.New(fault.Conflict, "list-full", fault.Titles{"The list is full", "名单已满"}, "There are 200 rules in force, the most there may be; remove one, or let one expire.")
	errKindStay = fault.Plain(fault.Invalid, "A rule keeps its kind; remove it and make another one.")
)

// unreachable is what an operator is told of a failed store.
func unreachable(err error) error { return httpx.Unreachable("The rules", err) }

// Routes registers the operators' routes.
func (s *Service) Routes(rt *httpx.Router) {
	rt.API.Member("activity", huma.Schema{Type: huma.TypeString, Description: "The name of the activity that you take part in, of one-activity", Examples: []any{"Singles' Day"}})
	rt.API.Member("activity_id", huma.Schema{Type: huma.TypeString, Description: "The activity that you take part in, of one-activity", Examples: []any{"12"}})
	reading := map[int]string{http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "unavailable"}
	changing := map[int]string{
		http.StatusNotFound: "not-found", http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "unavailable",
	}
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/risk/rules", ID: "list-risk-rules", Tag: "operator", Role: auth.Viewer,
		Summary: "Rules about who gets a worse rush path, the newest first", Problems: reading,
	}, s.listRules)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/risk/rules", ID: "add-risk-rule", Tag: "operator", Role: auth.Operator, Status: http.StatusCreated,
		Summary: "Make a rule",
		Description: "A rule hits every user whose count has reached its threshold: orders closed unpaid within the window (`unpaid_holds`, 30 days " +
			"unless said otherwise), orders that wait for payment now (`open_unpaid`), or refusals at the door within one minute " +
			"(`refusals_per_minute`, which then hits for the window). What it does is graded: `short_window` gives fewer seconds to pay, " +
			"`later` lets the path be used some milliseconds after the opening, `chance` gives a path with a probability that is drawn " +
			"once for each item, `none` gives none. All rules that hit somebody apply together. In force on every instance within a second.",
		Problems: map[int]string{
			http.StatusConflict: "list-full, idempotency-in-flight", http.StatusUnprocessableEntity: "invalid, idempotency-mismatch", http.StatusServiceUnavailable: "unavailable",
		},
	}, s.addRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: "/api/v1/admin/risk/rules/{id}", ID: "change-risk-rule", Tag: "operator", Role: auth.Operator,
		Summary: "Replace a rule, all but its kind", Problems: changing,
		Description: "Its users are counted anew. Decisions keep the rule as it was.",
	}, s.changeRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: "/api/v1/admin/risk/rules/{id}", ID: "remove-risk-rule", Tag: "operator", Role: auth.Operator,
		Summary: "Remove a rule", Problems: map[int]string{http.StatusNotFound: "not-found", http.StatusServiceUnavailable: "unavailable"},
	}, s.removeRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/risk/rules/dry-run", ID: "try-risk-rule", Tag: "operator", Role: auth.Viewer,
		Summary:     "Whom a rule would hit now",
		Description: "Nothing is stored and nobody is restricted. For `refusals_per_minute` that is this minute and the one before.",
		Problems:    reading,
	}, s.tryRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/risk/decisions", ID: "list-risk-decisions", Tag: "operator", Role: auth.Viewer,
		Summary:     "What restricted whom, the newest first",
		Description: "Each with the rule as it was then, what it saw of the user, and what came of it. Kept for `--keep-records`.",
		Problems:    reading,
	}, s.listDecisions)
}

type decisionsInput struct {
	UserID int64 `query:"user_id" minimum:"1" doc:"Only about this user"`
	RuleID int64 `query:"rule_id" minimum:"1" doc:"Only by this rule"`
	httpx.PageInput
}

func (s *Service) listDecisions(ctx context.Context, in *decisionsInput) (*httpx.PageOutput[riskDecision], error) {
	before, err := in.BeforeID()
	if err != nil {
		return nil, err
	}
	rows, err := readDecisions(ctx, s.deps.DB, in.UserID, in.RuleID, before, in.Ask())
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.PageOf(in.PageInput, rows, func(d riskDecision) riskDecision { return d }, func(d riskDecision) string { return d.ID }), nil
}
