package seckill

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/httpx"
	"stampede/platform/watch/audit"
	"stampede/seckill/internal/seckilldb"
)

const adminBase = "/api/v1/admin"

// Filters of the lists, besides the page.
type (
	listing struct {
		httpx.ChangesInput
		Status string `query:"status" enum:"draft,scheduled,running,ended,terminated" doc:"Only activities in this status"`
	}
	listingSessions struct {
		httpx.ChangesInput
		ActivityID int64 `query:"activity_id" minimum:"1" doc:"Only sessions of this activity"`
	}
	listingItems struct {
		httpx.ChangesInput
		ActivityID int64 `query:"activity_id" minimum:"1" doc:"Only items of this activity"`
		SessionID  int64 `query:"session_id" minimum:"1" doc:"Only items of this session"`
	}
	listingAudit struct {
		httpx.ChangesInput
		Subject string `query:"subject" maxLength:"100" doc:"Only actions on this subject" example:"activity 12"`
		Action  string `query:"action" maxLength:"100" doc:"Only this action" example:"activity.publish"`
		Actor   int64  `query:"actor" minimum:"1" doc:"Only actions of the operator with this user id"`
	}
)

// adminRoutes registers every operator route for activities.
func (s *Service) adminRoutes(api httpx.API) {
	api.Member("version", huma.Schema{Type: huma.TypeInteger, Description: "The current version, in a stale-version problem", Examples: []any{3}})
	api.Member("possible", huma.Schema{
		Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Examples: []any{[]string{"pause", "terminate"}},
		Description: "The actions possible in this state, in a refused transition",
	})
	s.activityRoutes(api)
	s.sessionRoutes(api)
	s.itemRoutes(api)
	httpx.Register(api, readOp(adminBase+"/audit", "list-audit", "What operators did, newest first", nil), s.listAudit)
	s.funnelRoutes(api)
	s.reportRoute(api)
	s.admissionRoutes(api)
	s.detailRoutes(api)
	s.preflightRoutes(api)
	s.previewRoute(api)
}

// activityRoutes registers the routes for whole activities. Each lifecycle
// transition is a POST named after the action, without a body.
func (s *Service) activityRoutes(api httpx.API) {
	const base = adminBase + "/activities"
	createRoute(api, base, "activity", "Create a draft, with its sessions and items if given", nil, s.createActivity)
	httpx.Register(api, readOp(base, "admin-list-activities", "Activities, newest first", nil),
		func(ctx context.Context, in *listing) (*httpx.PageOutput[activityView], error) {
			return listPage(&in.ChangesInput, viewActivity, func(a *seckilldb.SeckillActivity) int64 { return a.ID }, func(a *seckilldb.SeckillActivity) time.Time { return a.UpdatedAt },
				func(before int64, limit int32) ([]seckilldb.SeckillActivity, error) {
					return seckilldb.New(s.deps.DB).Activities(ctx, seckilldb.ActivitiesParams{Before: before, Status: in.Status, RowLimit: limit})
				})
		})
	rowRoutes(api, base, "activity", amendsActivity[httpx.English], s.readActivity, s.editActivity, s.deleteActivity)
	for _, move := range []struct {
		act     action
		summary string
		do      func(context.Context, int64) (activityView, error)
	}{
		{actPublish, "Show a draft to shoppers and plan its stock; editable_until in the answer says how long it can still be changed", s.publish},
		{actPause, "Refuse new rushes until it is resumed", s.pause},
		{actResume, "Take rushes again", s.resume},
		{actTerminate, "End the activity permanently; queued grants are still written and stay payable", s.terminate},
	} {
		op := writeOp(http.MethodPost, base+"/{id}/"+string(move.act), string(move.act)+"-activity", move.summary, http.StatusOK, moveProblems)
		op.Description = "Idempotent: if the activity is already in the requested state, it is returned unchanged and nothing is recorded."
		httpx.Register(api, op, func(ctx context.Context, in *ByID) (*bodyOf[activityView], error) {
			return answerByID(in.ID, func(id int64) (activityView, error) { return move.do(ctx, id) })
		})
	}
	clone := writeOp(http.MethodPost, base+"/{id}/clone", "clone-activity", "Make a draft of an activity in any state, at other times", http.StatusCreated, readProblems)
	clone.Description = "Rules, sessions, items and agreements to oversell are copied; all times move by the same distance on the shop's clock."
	makeRoute(api, clone, s.cloneActivity)
}

// sessionRoutes registers the routes for sessions.
func (s *Service) sessionRoutes(api httpx.API) {
	const base = adminBase + "/sessions"
	createRoute(api, base, "session", "Add a session to an activity, with its items if given", editProblems, s.createSession)
	httpx.Register(api, readOp(base, "admin-list-sessions", "Sessions, newest first", nil),
		func(ctx context.Context, in *listingSessions) (*httpx.PageOutput[sessionView], error) {
			return listPage(&in.ChangesInput, viewSession, func(r *seckilldb.SeckillSession) int64 { return r.ID }, func(r *seckilldb.SeckillSession) time.Time { return r.UpdatedAt },
				func(before int64, limit int32) ([]seckilldb.SeckillSession, error) {
					return seckilldb.New(s.deps.DB).Sessions(ctx, seckilldb.SessionsParams{Before: before, ActivityID: in.ActivityID, RowLimit: limit})
				})
		})
	rowRoutes(api, base, "session", amendsSession[httpx.English], s.readSession, s.editSession, s.deleteSession)
	repeat := writeOp(http.MethodPost, base+"/{id}/repeat", "repeat-session", "Copy a session with its items to each following day", http.StatusOK, editProblems)
	repeat.Description = "At the same times on the shop's clock. Each day is an independent session; days that already have one are left unchanged and listed."
	makeRoute(api, repeat, s.repeatSession)
}

// itemRoutes registers the routes for items. Changing the stock and agreeing to
// oversell have routes beside the edit: they have their own rules and audit
// records, and an ordinary edit must not do either by accident.
func (s *Service) itemRoutes(api httpx.API) {
	const base = adminBase + "/items"
	createRoute(api, base, "item", "Add an item to a session", editProblems, s.createItem)
	httpx.Register(api, readOp(base, "admin-list-items", "Items, newest first", nil),
		func(ctx context.Context, in *listingItems) (*httpx.PageOutput[itemView], error) {
			out, err := listPage(&in.ChangesInput, viewItem, func(r *seckilldb.SeckillItem) int64 { return r.ID }, func(r *seckilldb.SeckillItem) time.Time { return r.UpdatedAt },
				func(before int64, limit int32) ([]seckilldb.SeckillItem, error) {
					return seckilldb.New(s.deps.DB).Items(ctx, seckilldb.ItemsParams{Before: before, ActivityID: in.ActivityID, SessionID: in.SessionID, RowLimit: limit})
				})
			if err != nil {
				return nil, err
			}
			return out, s.countReservations(ctx, out.Body.Data)
		})
	httpx.Register(api, readOp(base+"/{id}/reservations", "list-reservations", "Who reserved an item, in the order of user ids", listReservationProblems), s.listReservations)
	rowRoutes(api, base, "item", amendsItem[httpx.English], s.readItem, s.editItem, s.deleteItem)
	s.itemPauseRoutes(api, base)
	s.stockRoutes(api, base)
	move := writeOp(http.MethodPost, base+"/{id}/backup", "move-backup", "Move units between the sale and the backup, also after the end", http.StatusOK, backupProblems)
	move.Description = "Units above 0 go from the sale to the backup, as many of them as no shopper holds; below 0 they come back, as many as are left. `moved` says how many did. The backup is for orders that were closed unpaid and whose money still arrives."
	makeRoute(api, move, s.moveBackup)
	oversell := writeOp(http.MethodPut, base+"/{id}/oversell", "agree-to-oversell", "Agree to sell more units than the stock, by a percentage of it", http.StatusOK, editProblems)
	oversell.Description = "For a draft or scheduled item; shoppers do not see it. The oversold units count towards the item's total everywhere, including in verify."
	httpx.Register(api, oversell, func(ctx context.Context, in *editing[oversellAgreement]) (*bodyOf[itemView], error) {
		return answerByID(in.ID, func(id int64) (itemView, error) { return s.setOversell(ctx, id, in.Body) })
	})
}

// listAudit answers a page of operator actions, newest first.
func (s *Service) listAudit(ctx context.Context, in *listingAudit) (*httpx.PageOutput[auditEntry], error) {
	return listPage(&in.ChangesInput, func(e *audit.Entry) auditEntry { return viewAudit(*e) }, func(e *audit.Entry) int64 { return e.ID }, func(e *audit.Entry) time.Time { return e.At },
		func(before int64, limit int32) ([]audit.Entry, error) {
			list, err := audit.List(ctx, s.deps.DB, audit.Filter{Subject: in.Subject, Action: in.Action, Actor: in.Actor, Before: before, Limit: int(limit)})
			return httpx.MadeSince(list, in.UpdatedFrom, func(e audit.Entry) time.Time { return e.At }), err
		})
}
