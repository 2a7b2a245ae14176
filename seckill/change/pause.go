package change

import (
	"context"
	"fmt"
	"net/http"

	"stampede/inventory"
	"stampede/platform/edge/httpx"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
)

func (s *Service) itemPauseRoutes(api httpx.API, base string) {
	for _, move := range []struct {
		verb, summary string
		paused        bool
	}{
		{"pause", "Refuse new rushes for one item until it is resumed; the activity's other items sell on", true},
		{"resume", "Take rushes for the item again, unless its activity is paused", false},
	} {
		op := operator.Write(http.MethodPost, base+"/{id}/"+move.verb, move.verb+"-item", "item."+move.verb, move.summary, http.StatusOK, moveRefusals...)
		op.NoKey = httpx.SetsState
		op.Description = "Idempotent: if the item is already in the requested state, it is returned unchanged and nothing is recorded."
		post(s, api, op, func(ctx context.Context, c *change, id int64) (plan.ItemView, error) {
			return pauseItem(ctx, c, id, move.verb, move.paused)
		})
	}
}

// pauseItem pauses or resumes one item. It reaches Redis as a pause of the activity
// does, by the item's stock row, so that the rush has one pause to look at.
func pauseItem(ctx context.Context, c *change, id int64, verb string, pause bool) (out plan.ItemView, err error) {
	_, old, err := c.lockItem(ctx, id, plan.ActPauseItem)
	if err != nil {
		return out, err
	}
	if out = plan.ViewItem(&old); old.Paused == pause {
		return out, nil
	}
	row := old
	row.Paused = pause
	if err := c.putItem(ctx, &row); err != nil {
		return out, err
	}
	now := plan.Paused(&c.activity, &row)
	if err := c.s.deps.Stock.Change(ctx, c.tx, id, inventory.Change{Paused: &now}); err != nil {
		return out, fmt.Errorf("change: pause item %d: %w", id, err)
	}
	c.apply = append(c.apply, id)
	if err := c.touch(ctx); err != nil {
		return out, err
	}
	out = plan.ViewItem(&row)
	return out, c.record(ctx, "item."+verb, inventory.ItemSubject(id), edited(plan.ViewItem(&old), out))
}

// admissionRate is how fast attempts leave an item's line to be decided.
type admissionRate struct {
	PerSecond *int32 `json:"per_second" minimum:"0" maximum:"1000000" doc:"Attempts a second that are let in evenly, on all instances together; 0 lets none in, null all at once"`
}

type admissionInput struct {
	ID   string `path:"id" doc:"The item" example:"42"`
	Body admissionRate
}

// admissionRoutes registers the routes that read and set an item's admission
// rate.
func (s *Service) admissionRoutes(api httpx.API) {
	const path = operator.Base + "/items/{id}/admission"
	get := operator.Read(path, "get-admission-rate", "How fast shoppers in line for an item are let in")
	read(api, get, func(ctx context.Context, id int64) (admissionRate, error) {
		item, err := itemRow(ctx, seckilldb.New(s.deps.DB), id)
		return admissionRate{PerSecond: item.Admission}, err
	})
	op := operator.Write(http.MethodPut, path, "set-admission-rate", "item.admission", "Set how fast shoppers in line for an item are let in", http.StatusOK, moveRefusals...)
	op.Description = "Takes effect on every instance within a moment, also for shoppers who wait. Shoppers above the rate get places in one line for all instances: who has more than three seconds to wait is answered 429 wait-your-turn with the place and the time. " +
		"Who stands too far behind to get a unit, or two minutes behind, is answered 429 too-hot; users who may already hold a unit do not wait. A pause says instead that the shop has paused the item."
	httpx.Register(api, op, func(ctx context.Context, in *admissionInput) (*operator.Body[admissionRate], error) {
		return inChange(ctx, s, in.ID, func(ctx context.Context, c *change, id int64) (admissionRate, error) {
			return setAdmission(ctx, c, id, in.Body)
		})
	})
}

// setAdmission sets the rate of an item. It is in the books, because a rate of 0 must
// survive the loss of Redis; the instances learn it as they learn other changes of the
// plan.
func setAdmission(ctx context.Context, c *change, id int64, in admissionRate) (admissionRate, error) {
	_, item, err := c.lockItem(ctx, id, plan.ActPauseItem)
	if err != nil {
		return in, err
	}
	before := admissionRate{PerSecond: item.Admission}
	if unchanged(before, in) {
		return in, nil
	}
	item.Admission = in.PerSecond
	if err := c.putItem(ctx, &item); err != nil {
		return in, err
	}
	if err := c.touch(ctx); err != nil {
		return in, err
	}
	return in, c.record(ctx, "item.admission", inventory.ItemSubject(id), edited(before, in))
}
