package seckill

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/seckill/catalogue"
)

// admissionRate is how fast an item's line may be entered.
type admissionRate struct {
	PerSecond int `json:"per_second" minimum:"0" maximum:"1000000" doc:"Attempts a second that each instance lets into the line; 0 is no bound, everybody is let in"`
}

// admissionInput sets an item's rate.
type admissionInput struct {
	ID   string `path:"id" doc:"The item" example:"42"`
	Body admissionRate
}

// admissionRoutes registers how the valve before an item's line is read and set.
func (s *Service) admissionRoutes(api httpx.API) {
	const path = adminBase + "/items/{id}/admission"
	httpx.Register(api, readOp(path, "get-admission-rate", "How fast an item's line may be entered on each instance", readProblems),
		func(ctx context.Context, in *ByID) (*bodyOf[admissionRate], error) {
			return answerByID(in.ID, func(id int64) (admissionRate, error) { return s.admission(ctx, id) })
		})
	httpx.Register(api, httpx.Op{
		Method: http.MethodPut, Path: path, ID: "set-admission-rate", Tag: "operator", Role: auth.Operator,
		Summary:     "Bound how fast an item's line may be entered",
		Description: "Takes effect on every instance at once. Attempts above the rate are answered 429 too-hot; nobody who may already hold a unit is.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found", http.StatusConflict: errTransition.Code, http.StatusUnprocessableEntity: "invalid",
		},
		Away: awayChange,
	}, func(ctx context.Context, in *admissionInput) (*bodyOf[admissionRate], error) {
		return answerByID(in.ID, func(id int64) (admissionRate, error) { return s.setAdmission(ctx, id, in.Body) })
	})
}

// admission reads the rate of an item, also of one that nobody has published.
func (s *Service) admission(ctx context.Context, id int64) (admissionRate, error) {
	if _, err := s.readItem(ctx, id); err != nil {
		return admissionRate{}, err
	}
	perSecond, err := s.Rush.Admission(ctx, id)
	return admissionRate{PerSecond: perSecond}, err
}

// setAdmission sets the rate of an item on sale.
func (s *Service) setAdmission(ctx context.Context, id int64, in admissionRate) (admissionRate, error) {
	item, ok := s.Catalogue.Item(id)
	if !ok {
		return admissionRate{}, fault.Plain(fault.NotFound, "There is no such item on sale.")
	}
	if !item.OnSale {
		return admissionRate{}, errTransition.Saying("The item's sale is over; nobody is let into its line any more.")
	}
	// The log is written first: a rate that is in force without an entry would be
	// worse than an entry whose rate Redis did not take.
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		return audit.Record(ctx, tx, "item.admission", catalogue.ItemSubject(id), in)
	})
	if err != nil {
		return admissionRate{}, err
	}
	if err := s.Rush.SetAdmission(ctx, id, in.PerSecond); err != nil {
		return admissionRate{}, err
	}
	s.logChange(ctx, slog.String("action", "admission"), slog.Int64("item_id", id), slog.Int("per_second", in.PerSecond))
	return in, nil
}
