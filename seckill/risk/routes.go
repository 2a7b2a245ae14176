package risk

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/blacklist"
)

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
	rt.API.Member("activity", huma.Schema{Type: huma.TypeString, Description: "The name of the activity that you take part in, in a one-activity problem", Examples: []any{"Singles' Day"}})
	rt.API.Member("activity_id", huma.Schema{Type: huma.TypeString, Description: "The activity that you take part in, in a one-activity problem", Examples: []any{"12"}})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/risk/rules", ID: "list-risk-rules", Tag: "operator", Role: auth.Viewer,
		Summary: "Rules that weaken or refuse rush paths, newest first",
	}, s.listRules)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/risk/rules", ID: "add-risk-rule", Tag: "operator", Role: auth.Operator, Status: http.StatusCreated,
		Summary: "Create a rule",
		Description: "A rule applies to every user whose count has reached its threshold: orders closed unpaid within the window (`unpaid_holds`, 30 days " +
			"by default), or orders that wait for payment now (`open_unpaid`). Actions are graded: `short_window` gives fewer seconds to pay, " +
			"`later` lets the path be used some milliseconds after the opening, `chance` gives a path with a probability that is drawn " +
			"once for each item, `none` gives none. All rules that apply to a user apply together. In force on every instance within a second.",
		Refuses: []*fault.Error{blacklist.ErrFull},
	}, s.addRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: "/api/v1/admin/risk/rules/{id}", ID: "change-risk-rule", Tag: "operator", Role: auth.Operator,
		Summary:     "Replace everything in a rule except its kind",
		Description: "Its users are recounted. Earlier decisions keep the rule as it was.",
	}, s.changeRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: "/api/v1/admin/risk/rules/{id}", ID: "remove-risk-rule", Tag: "operator", Role: auth.Operator,
		Summary: "Remove a rule",
	}, s.removeRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/risk/rules/dry-run", ID: "try-risk-rule", Tag: "operator", Role: auth.Viewer,
		Summary:     "The users a rule would apply to now",
		Description: "Nothing is stored and no user is restricted.",
	}, s.tryRule)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/risk/decisions", ID: "list-risk-decisions", Tag: "operator", Role: auth.Viewer,
		Summary:     "Decisions that restricted a user, newest first",
		Description: "Each with the rule at that time, its data about the user, and the result. Kept for `--keep-records`.",
	}, s.listDecisions)
}

type decisionsInput struct {
	UserID int64 `query:"user_id" minimum:"1" doc:"Only about this user"`
	RuleID int64 `query:"rule_id" minimum:"1" doc:"Only by this rule"`
	httpx.ChangesInput
}

func (s *Service) listDecisions(ctx context.Context, in *decisionsInput) (*httpx.PageOutput[riskDecision], error) {
	made := func(d riskDecision) time.Time { return d.at }
	return httpx.PageOfChanges(in.ChangesInput, func(p httpx.PageInput) ([]riskDecision, error) {
		before, err := p.BeforeID()
		if err != nil {
			return nil, err
		}
		rows, err := readDecisions(ctx, s.deps.DB, in.UserID, in.RuleID, before, p.Ask())
		return httpx.MadeSince(rows, in.UpdatedFrom, made), unreachable(err)
	}, made, func(d riskDecision) riskDecision { return d }, func(d riskDecision) string { return d.ID })
}
