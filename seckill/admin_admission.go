package seckill

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5"

	"stampede/platform/audit"
	"stampede/platform/auth"
	"stampede/platform/fault"
	"stampede/platform/httpx"
	"stampede/platform/pg"
	"stampede/seckill/catalogue"
)

// admission is how fast an item's line may be entered.
type admission struct {
	PerSecond int `json:"per_second" minimum:"0" maximum:"1000000" doc:"Attempts a second that each instance lets into the line; 0 is no bound, everybody is let in"`
}

// admissionInput sets an item's rate.
type admissionInput struct {
	ID   string `path:"id" doc:"The item" example:"42"`
	Body admission
}

// admissionRoutes registers how the valve before an item's line is read and set.
func (s *Service) admissionRoutes(api httpx.API) {
	const path = adminBase + "/items/{id}/admission"
	httpx.Register(api, readOp(path, "get-admission-rate", "How fast an item's line may be entered on each instance", readProblems),
		func(ctx context.Context, in *ByID) (*bodyOf[admission], error) {
			return answerByID(in.ID, func(id int64) (admission, error) { return s.admission(ctx, id) })
		})
	httpx.Register(api, httpx.Op{
		Method: http.MethodPut, Path: path, ID: "set-admission-rate", Tag: "operator", Role: auth.Operator,
		Summary:     "Bound how fast an item's line may be entered",
		Description: "Takes effect on every instance at once. Attempts above the rate are answered 429 too-hot; nobody who may already hold a unit is.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found", http.StatusConflict: codeForbiddenTransition, http.StatusUnprocessableEntity: "invalid",
		},
		Away: awayChange,
	}, func(ctx context.Context, in *admissionInput) (*bodyOf[admission], error) {
		return answerByID(in.ID, func(id int64) (admission, error) { return s.setAdmission(ctx, id, in.Body) })
	})
}

// admission reads the rate of an item, also of one that nobody has published.
func (s *Service) admission(ctx context.Context, id int64) (admission, error) {
	if _, err := s.readItem(ctx, id); err != nil {
		return admission{}, err
	}
	perSecond, err := s.Rush.Admission(ctx, id)
	return admission{PerSecond: perSecond}, err
}

// setAdmission sets the rate of an item on sale.
func (s *Service) setAdmission(ctx context.Context, id int64, in admission) (admission, error) {
	item, ok := s.Catalogue.Item(id)
	if !ok {
		return admission{}, fault.New(fault.NotFound, "not-found", "There is no such item on sale.")
	}
	if !item.OnSale {
		return admission{}, fault.New(fault.Conflict, codeForbiddenTransition, "The item's sale is over; nobody is let into its line any more.")
	}
	// The log is written first: a rate that is in force without an entry would be
	// worse than an entry whose rate Redis did not take.
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		return audit.Record(ctx, tx, "item.admission", catalogue.ItemSubject(id), in)
	})
	if err != nil {
		return admission{}, err
	}
	if err := s.Rush.SetAdmission(ctx, id, in.PerSecond); err != nil {
		return admission{}, err
	}
	s.logChange(ctx, slog.String("action", "admission"), slog.Int64("item_id", id), slog.Int("per_second", in.PerSecond))
	return in, nil
}
