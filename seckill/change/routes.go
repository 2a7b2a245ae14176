package change

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/seckill/browse"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
)

// Filters of the lists, besides the page.
type (
	listing struct {
		httpx.ChangesInput
		Status string `query:"status" enum:"draft,scheduled,running,ended,terminated" doc:"Only activities in this status"`
	}
	listingSessions struct {
		httpx.ChangesInput
		ActivityID httpx.QueryID `query:"activity_id" doc:"Only sessions of this activity"`
	}
	listingItems struct {
		httpx.ChangesInput
		ActivityID httpx.QueryID `query:"activity_id" doc:"Only items of this activity"`
		SessionID  httpx.QueryID `query:"session_id" doc:"Only items of this session"`
	}
)

// Routes registers the operators' routes.
func (s *Service) Routes(api httpx.API) {
	api.Member("version", huma.Schema{Type: huma.TypeInteger, Description: "The current version, in a stale-version problem", Examples: []any{3}})
	api.Member("possible", huma.Schema{
		Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Examples: []any{[]string{"pause", "terminate"}},
		Description: "The actions possible in this state, in a refused transition",
	})
	s.activityRoutes(api)
	s.sessionRoutes(api)
	s.itemRoutes(api)
	s.admissionRoutes(api)
	s.detailRoutes(api)
	s.planRoutes(api)
	preview := operator.Read(operator.Base+"/items/{id}/preview", "preview-item", "An item as shoppers will see it, also of a draft")
	preview.Description = "What GET items/{id} and GET items/{id}/detail answer once it is published, with none of its units taken. The shop's page /?preview={id} shows it to those who are signed in to the back office."
	// Only the staff reads a draft: a secret address would be passed on, and the draft with it.
	read(api, preview, func(ctx context.Context, id int64) (browse.Preview, error) {
		return plan.Preview(ctx, s.deps.DB, id, s.deps.Clock.Now())
	})
}

// activityRoutes registers the routes for whole activities. Each lifecycle
// transition is a POST named after the action, without a body.
func (s *Service) activityRoutes(api httpx.API) {
	const base = operator.Base + "/activities"
	create(s, api, base, "activity", "Create a draft, with its sessions and items if given", nil, createActivity)
	httpx.Register(api, operator.Read(base, "admin-list-activities", "Activities, newest first"),
		func(ctx context.Context, in *listing) (*httpx.PageOutput[plan.ActivityView], error) {
			return operator.Page(&in.ChangesInput, plan.ViewActivity, func(a *seckilldb.SeckillActivity) int64 { return a.ID },
				func(a *seckilldb.SeckillActivity) time.Time { return a.UpdatedAt },
				func(before int64, limit int32) ([]seckilldb.SeckillActivity, error) {
					return seckilldb.New(s.deps.DB).Activities(ctx, seckilldb.ActivitiesParams{Before: before, Status: in.Status, RowLimit: limit})
				})
		})
	rowRoutes(s, api, base, "activity", activityCorrections[httpx.English], plan.ReadActivity, editActivity, deleteActivity)
	transition := func(act plan.Action, summary string) httpx.Op {
		op := operator.Write(http.MethodPost, base+"/{id}/"+string(act), string(act)+"-activity", "activity."+string(act), summary, http.StatusOK, moveRefusals...)
		op.NoKey = httpx.SetsState
		op.Description = "Idempotent: if the activity is already in the requested state, it is returned unchanged and nothing is recorded."
		return op
	}
	read(api, transition(plan.ActPublish, "Show a draft to shoppers and plan its stock; editable_until in the answer says how long it can still be changed"), s.publish)
	post(s, api, transition(plan.ActPause, "Refuse new rushes until it is resumed"), pause)
	post(s, api, transition(plan.ActResume, "Take rushes again"), resume)
	post(s, api, transition(plan.ActTerminate, "End the activity permanently; queued grants are still written and stay payable"), terminate)
	clone := operator.Write(http.MethodPost, base+"/{id}/clone", "clone-activity", "activity.clone", "Make a draft of an activity in any state, at other times", http.StatusCreated)
	clone.Description = "Rules, sessions, items and agreements to oversell are copied; all times move by the same distance on the shop's clock."
	createFrom(s, api, clone, cloneActivity)
}

func (s *Service) sessionRoutes(api httpx.API) {
	const base = operator.Base + "/sessions"
	create(s, api, base, "session", "Add a session to an activity, with its items if given", editRefusals, createSession)
	httpx.Register(api, operator.Read(base, "admin-list-sessions", "Sessions, newest first"),
		func(ctx context.Context, in *listingSessions) (*httpx.PageOutput[plan.SessionView], error) {
			return operator.Page(&in.ChangesInput, plan.ViewSession, func(r *seckilldb.SeckillSession) int64 { return r.ID },
				func(r *seckilldb.SeckillSession) time.Time { return r.UpdatedAt },
				func(before int64, limit int32) ([]seckilldb.SeckillSession, error) {
					return seckilldb.New(s.deps.DB).Sessions(ctx, seckilldb.SessionsParams{Before: before, ActivityID: in.ActivityID.N, RowLimit: limit})
				})
		})
	rowRoutes(s, api, base, "session", sessionCorrections[httpx.English], plan.ReadSession, editSession, deleteSession)
	repeat := operator.Write(http.MethodPost, base+"/{id}/repeat", "repeat-session", "session.repeat", "Copy a session with its items to each following day",
		http.StatusOK, editRefusals...)
	repeat.Description = "At the same times on the shop's clock. Each day is an independent session; days that already have one are left unchanged and listed."
	createFrom(s, api, repeat, repeatSession)
}

// itemRoutes registers the routes for items. Changing the stock and agreeing to
// oversell have routes beside the edit: they have their own rules and audit
// records, and an ordinary edit must not do either by accident.
func (s *Service) itemRoutes(api httpx.API) {
	const base = operator.Base + "/items"
	create(s, api, base, "item", "Add an item to a session", editRefusals, createItem)
	httpx.Register(api, operator.Read(base, "admin-list-items", "Items, newest first"),
		func(ctx context.Context, in *listingItems) (*httpx.PageOutput[plan.ItemView], error) {
			out, err := operator.Page(&in.ChangesInput, plan.ViewItem, func(r *seckilldb.SeckillItem) int64 { return r.ID },
				func(r *seckilldb.SeckillItem) time.Time { return r.UpdatedAt },
				func(before int64, limit int32) ([]seckilldb.SeckillItem, error) {
					return seckilldb.New(s.deps.DB).Items(ctx, seckilldb.ItemsParams{Before: before, ActivityID: in.ActivityID.N, SessionID: in.SessionID.N, RowLimit: limit})
				})
			if err != nil {
				return nil, err
			}
			return out, countReservations(ctx, s.deps.DB, out.Body.Data)
		})
	httpx.Register(api, operator.Read(base+"/{id}/reservations", "list-reservations", "Who reserved an item, in the order of user ids"), s.listReservations)
	rowRoutes(s, api, base, "item", itemCorrections[httpx.English], readItem, editItem, deleteItem)
	s.itemPauseRoutes(api, base)
	s.stockRoutes(api, base)
	move := operator.Write(http.MethodPost, base+"/{id}/backup", "move-backup", "item.backup", "Move units between the sale and the backup, also after the end",
		http.StatusOK, backupRefusals...)
	move.Scope = auth.StockWrite
	move.Description = "Units above 0 go from the sale to the backup, as many of them as no shopper holds; below 0 they come back, as many as are left. `moved` says how many did. The backup is for orders that were closed unpaid and whose money still arrives."
	createFrom(s, api, move, moveBackup)
	oversell := operator.Write(http.MethodPut, base+"/{id}/oversell", "agree-to-oversell", "item.oversell", "Agree to sell more units than the stock, by a percentage of it",
		http.StatusOK, editRefusals...)
	oversell.Description = "For a draft or scheduled item; shoppers do not see it. The oversold units count towards the item's total everywhere, including in verify."
	edit(s, api, oversell, setOversell)
}
