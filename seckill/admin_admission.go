package seckill

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// admissionRate is how fast an item's line may be entered.
type admissionRate struct {
	PerSecond *int `json:"per_second" minimum:"0" maximum:"1000000" doc:"Attempts a second that each instance admits to the line; 0 admits none, null all"`
}

// String is the rate in a log line.
func (r admissionRate) String() string {
	if r.PerSecond == nil {
		return "unlimited"
	}
	return strconv.Itoa(*r.PerSecond)
}

// admissionInput sets an item's rate.
type admissionInput struct {
	ID   string `path:"id" doc:"The item" example:"42"`
	Body admissionRate
}

// admissionRoutes registers the routes that read and set an item's admission
// rate.
func (s *Service) admissionRoutes(api httpx.API) {
	const path = adminBase + "/items/{id}/admission"
	httpx.Register(api, readOp(path, "get-admission-rate", "How fast an item's line may be entered on each instance", readProblems),
		func(ctx context.Context, in *ByID) (*bodyOf[admissionRate], error) {
			return answerByID(in.ID, func(id int64) (admissionRate, error) { return s.admission(ctx, id) })
		})
	httpx.Register(api, httpx.Op{
		Method: http.MethodPut, Path: path, ID: "set-admission-rate", Tag: "operator", Role: auth.Operator,
		Summary:     "Limit how fast an item's line may be entered",
		Description: "Takes effect on every instance immediately. Attempts above the rate are answered 429 too-hot, except those of users who may already hold a unit. A pause says instead that the shop has paused the item.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found", http.StatusConflict: errTransition.Code, http.StatusUnprocessableEntity: "invalid",
		},
		Away: awayChange,
	}, func(ctx context.Context, in *admissionInput) (*bodyOf[admissionRate], error) {
		return answerByID(in.ID, func(id int64) (admissionRate, error) { return s.setAdmission(ctx, id, in.Body) })
	})
}

// admission returns the rate of an item, also of an unpublished one.
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
		return admissionRate{}, errTransition.Saying("The item's sale is over; its line admits no more attempts.")
	}
	before, err := s.admission(ctx, id)
	if err != nil {
		return admissionRate{}, err
	}
	// The audit log is written first: a rate in force without an entry would be
	// worse than an entry for a rate that Redis did not store.
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		return audit.Record(ctx, tx, "item.admission", inventory.ItemSubject(id), edited(before, in))
	})
	if err != nil {
		return admissionRate{}, err
	}
	if err := s.Rush.SetAdmission(ctx, id, in.PerSecond); err != nil {
		return admissionRate{}, err
	}
	s.logChange(ctx, slog.String("action", "admission"), slog.Int64("item_id", id), slog.String("per_second", in.String()))
	return in, nil
}
