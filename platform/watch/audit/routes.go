package audit

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
)

// auditEntry is an Entry as the API shows it.
type auditEntry struct {
	ID      string          `json:"id" pattern:"^[1-9][0-9]{0,18}$" example:"12"`
	At      string          `json:"at" format:"date-time" example:"2026-11-11T12:00:00.000Z"`
	Actor   string          `json:"actor" doc:"The operator's user id; 0 is the system"`
	Role    string          `json:"role" doc:"The operator's role at that time" example:"operator"`
	Action  string          `json:"action" example:"activity.publish" doc:"The thing and what was done to it; refused.… was requested and not allowed"`
	Subject string          `json:"subject" example:"activity 12" doc:"What it was done to"`
	Detail  json.RawMessage `json:"detail" doc:"What was before and after the change, one of them left out of what is new or gone, and the reason if one was given; of a search or an export, what was asked for"`
}

type listInput struct {
	httpx.ChangesInput
	Subject string `query:"subject" maxLength:"100" doc:"Only actions on this subject" example:"activity 12"`
	Action  string `query:"action" maxLength:"100" doc:"Only this action" example:"activity.publish"`
	Actor   int64  `query:"actor" minimum:"1" doc:"Only actions of the operator with this user id"`
}

// Routes registers the operators' list of the log.
func Routes(rt *httpx.Router, pool *pgxpool.Pool, standby *pg.Standby) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/audit", ID: "list-audit", Tag: "operator", Role: auth.Viewer, Summary: "What operators did, newest first",
		Away: fault.T("The audit log cannot be read right now; selling continues without it. Try again in a moment.", "暂时无法读取操作日志，抢购不受影响；请稍后重试。"),
	}, func(ctx context.Context, in *listInput) (*httpx.PageOutput[auditEntry], error) {
		return pg.Read(ctx, standby, pool, func(ctx context.Context, db pg.DB) (*httpx.PageOutput[auditEntry], error) {
			return listed(ctx, db, in)
		})
	})
}

func listed(ctx context.Context, db pg.DB, in *listInput) (*httpx.PageOutput[auditEntry], error) {
	made := func(e Entry) time.Time { return e.At }
	return httpx.PageOfChanges(in.ChangesInput, func(p httpx.PageInput) ([]Entry, error) {
		before, err := p.BeforeID()
		if err != nil {
			return nil, err
		}
		list, err := List(ctx, db, Filter{Subject: in.Subject, Action: in.Action, Actor: in.Actor, Before: before, Limit: p.Ask()})
		return httpx.MadeSince(list, in.UpdatedFrom, made), err
	}, made, func(e Entry) auditEntry {
		return auditEntry{
			ID: httpx.FormatID(e.ID), At: httpx.Moment(e.At), Actor: httpx.FormatID(e.Actor), Role: e.Role,
			Action: e.Action, Subject: e.Subject, Detail: e.Detail,
		}
	}, func(e Entry) string { return httpx.FormatID(e.ID) })
}
