package seckill

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"stampede/inventory"
	"stampede/platform/edge/httpx"
	"stampede/seckill/internal/seckilldb"
)

// itemPauseRoutes registers the routes that pause and resume one item.
func (s *Service) itemPauseRoutes(api httpx.API, base string) {
	for _, move := range []struct {
		verb, summary string
		paused        bool
	}{
		{"pause", "Refuse new rushes for one item until it is resumed; the activity's other items sell on", true},
		{"resume", "Take rushes for the item again, unless its activity is paused", false},
	} {
		op := writeOp(http.MethodPost, base+"/{id}/"+move.verb, move.verb+"-item", move.summary, http.StatusOK, moveProblems)
		op.Description = "Idempotent: if the item is already in the requested state, it is returned unchanged and nothing is recorded."
		httpx.Register(api, op, func(ctx context.Context, in *ByID) (*bodyOf[itemView], error) {
			return answerByID(in.ID, func(id int64) (itemView, error) { return s.pauseItem(ctx, id, move.verb, move.paused) })
		})
	}
}

// pauseItem pauses or resumes one item. It reaches Redis as a pause of the activity
// does, by the item's stock row, so that the rush has one pause to look at.
func (s *Service) pauseItem(ctx context.Context, id int64, verb string, pause bool) (itemView, error) {
	var out itemView
	err := s.transact(ctx, func(ctx context.Context, c *change) error {
		_, old, err := c.lockItem(ctx, id, actPauseItem)
		if err != nil {
			return err
		}
		if out = viewItem(&old); old.Paused == pause {
			return nil
		}
		row, err := c.q.SetItemPaused(ctx, seckilldb.SetItemPausedParams{ID: id, Paused: pause})
		if err != nil {
			return fmt.Errorf("seckill: set item paused: %w", err)
		}
		now := paused(&c.activity, &row)
		if err := c.s.deps.Stock.Change(ctx, c.tx, id, inventory.Change{Paused: &now}); err != nil {
			return fmt.Errorf("seckill: pause item %d: %w", id, err)
		}
		c.apply = append(c.apply, id)
		c.did = []slog.Attr{slog.String("action", verb), slog.Int64("item_id", id)}
		if err := c.touch(ctx); err != nil {
			return err
		}
		out = viewItem(&row)
		return c.record(ctx, "item."+verb, inventory.ItemSubject(id), edited(viewItem(&old), out))
	})
	return out, err
}
