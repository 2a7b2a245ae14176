package seckill

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"stampede/inventory"
	"stampede/platform/edge/httpx"
	"stampede/seckill/internal/seckilldb"
)

// admissionRate is how fast an item's line may be entered.
type admissionRate struct {
	PerSecond *int32 `json:"per_second" minimum:"0" maximum:"1000000" doc:"Attempts a second that each instance admits to the line; 0 admits none, null all"`
}

// String is the rate in a log line.
func (r admissionRate) String() string {
	if r.PerSecond == nil {
		return "unlimited"
	}
	return strconv.Itoa(int(*r.PerSecond))
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
			return answerByID(in.ID, func(id int64) (admissionRate, error) {
				item, err := s.readItem(ctx, id)
				return admissionRate{PerSecond: item.Admission}, err
			})
		})
	op := writeOp(http.MethodPut, path, "set-admission-rate", "Limit how fast an item's line may be entered", http.StatusOK, moveProblems)
	op.Description = "Takes effect on every instance within a moment, and holds whatever becomes of Redis. Attempts above the rate are answered 429 too-hot, except those of users who may already hold a unit. A pause says instead that the shop has paused the item."
	httpx.Register(api, op, func(ctx context.Context, in *admissionInput) (*bodyOf[admissionRate], error) {
		return answerByID(in.ID, func(id int64) (admissionRate, error) { return s.setAdmission(ctx, id, in.Body) })
	})
}

// setAdmission sets the rate of an item. It is in the books, because a rate of 0 must
// survive the loss of Redis; the instances learn it as they learn other changes of the
// plan.
func (s *Service) setAdmission(ctx context.Context, id int64, in admissionRate) (admissionRate, error) {
	err := s.transact(ctx, func(ctx context.Context, c *change) error {
		_, item, err := c.lockItem(ctx, id, actPauseItem)
		if err != nil {
			return err
		}
		before := admissionRate{PerSecond: item.Admission}
		if unchanged(before, in) {
			return nil
		}
		if err := c.q.SetItemAdmission(ctx, seckilldb.SetItemAdmissionParams{ID: id, PerSecond: in.PerSecond}); err != nil {
			return fmt.Errorf("seckill: set admission rate: %w", err)
		}
		c.did = []slog.Attr{slog.String("action", "admission"), slog.Int64("item_id", id), slog.String("per_second", in.String())}
		if err := c.touch(ctx); err != nil {
			return err
		}
		return c.record(ctx, "item.admission", inventory.ItemSubject(id), edited(before, in))
	})
	return in, err
}
