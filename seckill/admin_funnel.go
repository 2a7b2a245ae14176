package seckill

import (
	"context"
	"fmt"
	"slices"
	"time"

	"stampede/inventory"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/tally"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/rush"
)

// FunnelCounts are the steps of a sale, counted on all instances. It is exported
// because huma requires that of embedded fields.
type FunnelCounts struct {
	At        wire.Time        `json:"at"`
	Attempts  int64            `json:"attempts" doc:"Rushes answered, on all instances, up to a second ago"`
	Answers   map[string]int64 `json:"answers" doc:"Answers to rushes by code; left: gave up while waiting; admission-rate: answered too-hot because of the rate that an operator set"`
	Paths     map[string]int64 `json:"paths" doc:"Answers to requests for a path: issued, or the refusal's code"`
	Grants    map[string]int64 `json:"grants" doc:"Grants published to the order writer: stored; unknown are settled by the sweeper"`
	Orders    map[string]int64 `json:"orders" doc:"Orders that were created and how they changed: refused-…, paid, retaken (paid late, with backup stock), closed-timeout, closed-canceled, completed, refunded, …"`
	Units     map[string]int64 `json:"units" doc:"Units of these orders"`
	Payments  map[string]int64 `json:"payments" doc:"Payments started, and captures by outcome: paid, retaken, late, duplicate, mismatch, repeated"`
	Refunds   map[string]int64 `json:"refunds" doc:"Refunds that ended: succeeded, failed"`
	Pushes    int64            `json:"pushes" doc:"Messages about orders written to sockets"`
	Waits     map[string]int64 `json:"waits" doc:"Rushes that waited in a lane, by the upper bound of the time until their answer"`
	Visible   map[string]int64 `json:"visible" doc:"Orders by the time from their grant until they could be read"`
	GrantedAt *wire.Time       `json:"granted_at,omitempty" doc:"The first unit was granted; absent before"`
	EmptiedAt *wire.Time       `json:"emptied_at,omitempty" doc:"The last free unit was granted for the first time; absent before"`
	LastAt    *wire.Time       `json:"last_granted_at,omitempty" doc:"The latest unit was granted; absent before"`
	Curve     []funnelPoint    `json:"curve,omitempty" doc:"The same per step, if step was requested; steps in which nothing happened are left out"`
}

// funnelPoint is one step of the funnel's curve.
type funnelPoint struct {
	At     wire.Time    `json:"at" doc:"The step's beginning"`
	Counts tally.Counts `json:"counts" doc:"By stage and code: answers, paths, grants, orders, units, payments, refunds, pushes, waits, visible"`
}

// funnelOf renders what was counted.
func funnelOf(now time.Time, c tally.Counts, moments map[string]tally.Moment) FunnelCounts {
	stage := func(name string) map[string]int64 {
		if c[name] == nil {
			return map[string]int64{}
		}
		return c[name]
	}
	v := FunnelCounts{
		At: wire.Time(now), Attempts: c.Sum(rush.StageAnswers), Answers: stage(rush.StageAnswers), Paths: stage(rush.StagePaths), Grants: stage(rush.StageGrants),
		Orders: stage("orders"), Units: stage("units"), Payments: stage("payments"), Refunds: stage("refunds"), Pushes: c.Sum("pushes"),
		Waits: stage(rush.StageWaits), Visible: stage("visible"),
	}
	if m, ok := moments[rush.MomentGranted]; ok {
		v.GrantedAt, v.LastAt = new(wire.Time(m.First)), new(wire.Time(m.Last))
	}
	if m, ok := moments[rush.MomentEmptied]; ok {
		v.EmptiedAt = new(wire.Time(m.First))
	}
	return v
}

// itemFunnelView is an item's funnel and where its units are.
type itemFunnelView struct {
	ItemID wire.ID `json:"item_id"`
	FunnelCounts
	Loaded   bool        `json:"loaded" doc:"Redis decides on the item; false while it is being prepared"`
	Epoch    int64       `json:"epoch" doc:"Loads so far"`
	Queued   int64       `json:"queued" doc:"Grants whose order is not written yet"`
	Stock    *int32      `json:"stock" doc:"Units of goods put on sale; null when unlimited"`
	Oversell *int32      `json:"oversell" doc:"Units on sale beyond the stock by agreement; the books' total holds both; null when unlimited"`
	Books    funnelBooks `json:"books" doc:"Where every unit is"`
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

// curveInput asks for a curve.
type curveInput struct {
	ByID
	Step  int       `query:"step" enum:"0,1,10,60,3600" doc:"Seconds per step of the curve; 0 is no curve. Seconds are kept for 90 days"`
	From  time.Time `query:"from" doc:"Where the curve begins; by default five minutes before the opening"`
	Until time.Time `query:"until" doc:"Where it ends; by default after 3600 steps, which is also the most"`
}

const (
	// beforeOpening is when a curve begins: paths are issued from two minutes before.
	beforeOpening = 5 * time.Minute
	// maxPoints bounds a curve: an hour of seconds.
	maxPoints = 3600
)

// curve reads the items' curve, nil if none was asked for.
func (s *Service) curve(ctx context.Context, in *curveInput, opens time.Time, items ...int64) ([]funnelPoint, error) {
	if in.Step == 0 {
		return nil, nil
	}
	step, from := time.Duration(in.Step)*time.Second, in.From
	if from.IsZero() {
		from = opens.Add(-beforeOpening)
	}
	until := from.Add(maxPoints * step)
	if !in.Until.IsZero() && in.Until.Before(until) {
		until = in.Until
	}
	points, err := tally.Curve(ctx, s.deps.DB, from, until, step, items...)
	if err != nil {
		return nil, err
	}
	out := make([]funnelPoint, len(points))
	for i, p := range points {
		out[i] = funnelPoint{At: wire.Time(p.At), Counts: p.Counts}
	}
	return out, nil
}

// itemFunnel answers an item's funnel.
func (s *Service) itemFunnel(ctx context.Context, in *curveInput) (*bodyOf[itemFunnelView], error) {
	return answerByID(in.ID, func(id int64) (itemFunnelView, error) {
		v, opens, err := s.funnel(ctx, id)
		if err == nil {
			v.Curve, err = s.curve(ctx, in, opens, id)
		}
		return v, err
	})
}

// funnel combines three sources: the plan in Postgres, what the instances counted,
// and inventory's counts. They are read one after the other, so during a rush
// the figures are moments apart; verify is the proof that they agree. It returns the
// item's opening too.
func (s *Service) funnel(ctx context.Context, id int64) (v itemFunnelView, opens time.Time, err error) {
	q := seckilldb.New(s.deps.DB)
	row, err := q.Item(ctx, id) // without the count of its reservations, which takes as long as they are many
	if err != nil {
		return v, opens, orNotFound(err, errNoItem, "read item")
	}
	session, err := q.Session(ctx, row.SessionID)
	if err != nil {
		return v, opens, orNotFound(err, errNoItem, "read session")
	}
	plan := viewItem(&row)
	totals, err := tally.Totals(ctx, s.deps.DB, id)
	if err != nil {
		return v, opens, err
	}
	moments, err := tally.Moments(ctx, s.deps.DB, id)
	if err != nil {
		return v, opens, err
	}
	v = itemFunnelView{ItemID: wire.ID(id), FunnelCounts: funnelOf(s.deps.Clock.Now(), totals[id], moments), Stock: plan.Stock}
	opens = session.OpensAt
	if !plan.Unlimited {
		v.Oversell = new(*plan.OnSale - *plan.Stock)
	}
	books, err := s.books(ctx, id)
	if b, ok := books[id]; ok {
		v.Loaded, v.Epoch, v.Queued, v.Books = b.State.Ready(), b.State.Epoch, b.State.Queued(), booksOf(&b.BookRow)
	}
	return v, opens, err
}

// books reads where the units of the published items among these are: a draft, or an
// item that is long over, has no live data. With an error it returns what it could read.
func (s *Service) books(ctx context.Context, ids ...int64) (map[int64]inventory.Book, error) {
	published := slices.DeleteFunc(slices.Clone(ids), func(id int64) bool {
		_, ok := s.Catalogue.Item(id)
		return !ok
	})
	if len(published) == 0 {
		return nil, nil
	}
	books, err := s.deps.Stock.BooksOf(ctx, published...)
	if err != nil {
		return books, fmt.Errorf("seckill: read books of %d items: %w", len(published), err)
	}
	return books, nil
}

// booksOf renders an item's books.
func booksOf(r *inventory.BookRow) funnelBooks {
	return funnelBooks{
		Unlimited: r.Unlimited, Total: r.Total, Available: r.Available, Held: r.Held, Sold: r.Sold, Backup: r.Backup,
		WrittenOff: r.WrittenOff, Remaining: r.RedisRemaining, InFlight: r.InFlight, ReleasePending: r.ReleasePending, RetakePending: r.RetakePending, Difference: r.Difference,
	}
}

// funnelRoutes registers the funnels of an item, a session and an activity.
func (s *Service) funnelRoutes(api httpx.API) {
	item := readOp(adminBase+"/items/{id}/funnel", "get-funnel", "An item's attempts, orders, units and books at this moment", readProblems)
	item.Description = "Counted on every instance and merged: what shoppers were told, up to a second ago. An instance that is killed loses what it counted in its last second; the books lose nothing."
	httpx.Register(api, item, s.itemFunnel)
	httpx.Register(api, readOp(adminBase+"/sessions/{id}/funnel", "get-session-funnel", "The funnel of a session: its items together, and each", readProblems),
		func(ctx context.Context, in *curveInput) (*bodyOf[funnelSumView], error) {
			return answerByID(in.ID, func(id int64) (funnelSumView, error) {
				session, err := s.readSession(ctx, id)
				if err != nil {
					return funnelSumView{}, err
				}
				return s.sumFunnels(ctx, in, session)
			})
		})
	httpx.Register(api, readOp(adminBase+"/activities/{id}/funnel", "get-activity-funnel", "The funnel of an activity: all its items together, and each", readProblems),
		func(ctx context.Context, in *curveInput) (*bodyOf[funnelSumView], error) {
			return answerByID(in.ID, func(id int64) (funnelSumView, error) {
				activity, err := s.readActivity(ctx, id)
				if err != nil {
					return funnelSumView{}, err
				}
				return s.sumFunnels(ctx, in, activity.Sessions...)
			})
		})
	s.liveRoute(api)
	s.warRoomRoutes(api)
}
