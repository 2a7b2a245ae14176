package inventory

import (
	"context"
	"net/http"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

const reconcilePath = "/api/v1/admin/reconcile"

var reconcileProblems = map[int]string{
	http.StatusNotFound: "not-found", http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "unavailable",
}

// Routes registers the operators' comparison of Redis with Postgres.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: reconcilePath, ID: "show-differences", Tag: "operator", Role: auth.Viewer,
		Summary: "What differs between Redis and the orders in Postgres",
		Description: "Compares one item, or every item that Redis has keys of, and returns what still differs after two seconds; work in flight is not a difference. " +
			"It reads whole items, so it takes some seconds for large ones, and one request at a time is answered.",
		Problems: reconcileProblems,
	}, func(ctx context.Context, in *struct {
		ItemID int64 `query:"item_id" minimum:"1" doc:"Only this item"`
	},
	) (*httpx.Output[Reconciliation], error) {
		return s.answerReconcile(ctx, in.ItemID, false)
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: reconcilePath, ID: "reconcile", Tag: "operator", Role: auth.Operator,
		Summary: "Repair what differs between Redis and the orders in Postgres",
		Description: "Repairs in Redis what an order in Postgres proves, and raises the alarm `redis-differs` for the rest. It is recorded in the audit log and may be repeated. " +
			"With `dry_run` it repairs nothing, and `repair` says what it would do.",
		Problems: reconcileProblems,
	}, func(ctx context.Context, in *struct {
		Body struct {
			ItemID string `json:"item_id,omitempty" doc:"Only this item" example:"17"`
			DryRun bool   `json:"dry_run,omitempty"`
		} `nameHint:"ReconcileRequest"`
	},
	) (*httpx.Output[Reconciliation], error) {
		var id int64
		if in.Body.ItemID != "" {
			var err error
			if id, err = httpx.ParseID(in.Body.ItemID); err != nil {
				return nil, err
			}
		}
		return s.answerReconcile(ctx, id, !in.Body.DryRun)
	})
}

func (s *Service) answerReconcile(ctx context.Context, itemID int64, repair bool) (*httpx.Output[Reconciliation], error) {
	r, err := s.Reconcile(ctx, itemID, repair)
	if err != nil {
		return nil, httpx.Unreachable(fault.T("The stores", "存储服务"), err)
	}
	return httpx.Answer(r), nil
}
