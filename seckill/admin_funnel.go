package seckill

import (
	"context"
	"fmt"

	"stampede/inventory"
	"stampede/seckill/internal/wire"
)

// funnelView is a snapshot of an item's attempts and units.
type funnelView struct {
	ItemID   wire.ID          `json:"item_id"`
	At       wire.Time        `json:"at"`
	Attempts int64            `json:"attempts" doc:"Rushes that this instance has answered since it started"`
	Answers  map[string]int64 `json:"answers" doc:"Answers by code; left: gave up while waiting; admission-rate: answered too-hot because of the rate that an operator set"`
	Loaded   bool             `json:"loaded" doc:"Redis decides on the item; false while it is being prepared"`
	Epoch    int64            `json:"epoch" doc:"Loads so far"`
	Queued   int64            `json:"queued" doc:"Grants whose order is not written yet"`
	Stock    *int32           `json:"stock" doc:"Units of goods put on sale; null when unlimited"`
	Oversell *int32           `json:"oversell" doc:"Units on sale beyond the stock by agreement; the books' total holds both; null when unlimited"`
	Books    funnelBooks      `json:"books" doc:"Where every unit is"`
}

// funnelBooks accounts for every unit: total = available + held + sold + backup
// + written off in Postgres, and Redis agrees when the difference is 0.
type funnelBooks struct {
	Unlimited      bool  `json:"unlimited" doc:"Nothing is counted down"`
	Total          int64 `json:"total" doc:"available + held + sold + backup + written_off"`
	Available      int64 `json:"available" doc:"Units that no live order holds, in Postgres"`
	Held           int64 `json:"held" doc:"Units of orders that are not paid yet"`
	Sold           int64 `json:"sold" doc:"Units of paid orders"`
	Backup         int64 `json:"backup" doc:"Units held back, for orders whose money came late"`
	WrittenOff     int64 `json:"written_off" doc:"Units withdrawn from sale"`
	Remaining      int64 `json:"remaining" doc:"Units left to take, in Redis"`
	InFlight       int64 `json:"in_flight" doc:"Units granted in Redis whose order is not written yet"`
	ReleasePending int64 `json:"release_pending" doc:"Units given back in Postgres that are on their way to Redis"`
	RetakePending  int64 `json:"retake_pending" doc:"Units that late payments took from the backup and that Redis does not count as sold yet"`
	Difference     int64 `json:"difference" doc:"0 when every unit is accounted for"`
}

// itemFunnel reads an item's funnel.
func (s *Service) itemFunnel(ctx context.Context, in *ByID) (*bodyOf[funnelView], error) {
	return answerByID(in.ID, func(id int64) (funnelView, error) { return s.funnel(ctx, id) })
}

// funnel combines three sources: the plan in Postgres, this instance's counters,
// and inventory's counts. They are read one after the other, so during a rush
// the figures are moments apart; verify is the proof that they agree.
func (s *Service) funnel(ctx context.Context, id int64) (funnelView, error) {
	plan, err := s.readItem(ctx, id)
	if err != nil {
		return funnelView{}, err
	}
	v := funnelView{
		ItemID: wire.ID(id), At: wire.Time(s.deps.Clock.Now()), Answers: s.Rush.Funnel(id), Stock: plan.Stock,
	}
	if !plan.Unlimited {
		v.Oversell = new(*plan.OnSale - *plan.Stock)
	}
	for _, n := range v.Answers {
		v.Attempts += n
	}
	item, published := s.Catalogue.Item(id)
	if !published {
		return v, nil // a draft, or long over: it has no live data
	}
	state, ok, err := s.deps.Stock.State(ctx, item.Stock())
	if err != nil {
		return funnelView{}, fmt.Errorf("seckill: read state of item %d: %w", id, err)
	}
	v.Loaded, v.Epoch, v.Queued = ok && state.Ready(), state.Epoch, max(0, state.Seq-state.Persisted)
	row, _, err := s.deps.Stock.Book(ctx, id)
	if err != nil {
		return funnelView{}, fmt.Errorf("seckill: read books of item %d: %w", id, err)
	}
	v.Books = booksOf(&row)
	return v, nil
}

// booksOf renders an item's books.
func booksOf(r *inventory.BookRow) funnelBooks {
	return funnelBooks{
		Unlimited: r.Unlimited, Total: r.Total, Available: r.Available, Held: r.Held, Sold: r.Sold, Backup: r.Backup,
		WrittenOff: r.WrittenOff, Remaining: r.RedisRemaining, InFlight: r.InFlight, ReleasePending: r.ReleasePending, RetakePending: r.RetakePending, Difference: r.Difference,
	}
}
