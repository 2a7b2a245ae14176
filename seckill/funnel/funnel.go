package funnel

import (
	"context"
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/httpx"
	"stampede/platform/watch/tally"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
	"stampede/seckill/rush"
)

// Counts are the steps of a sale, counted on all instances. It is exported
// because huma requires that of embedded fields.
type Counts struct {
	At        wire.Time        `json:"at"`
	Attempts  int64            `json:"attempts" doc:"Rushes answered, on all instances, up to a second ago"`
	Answers   map[string]int64 `json:"answers" doc:"Answers to rushes by code; left: gave up while waiting; wait-your-turn: asked while in line by the rate that an operator set, each time"`
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
func funnelOf(now time.Time, c tally.Counts, moments map[string]tally.Moment) Counts {
	stage := func(name string) map[string]int64 {
		if c[name] == nil {
			return map[string]int64{}
		}
		return c[name]
	}
	v := Counts{
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
	Counts
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

type curveInput struct {
	operator.ByID
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
	points, err := s.points(ctx, from, until, step, items...)
	if err != nil {
		return nil, err
	}
	out := make([]funnelPoint, len(points))
	for i, p := range points {
		out[i] = funnelPoint{At: wire.Time(p.At), Counts: p.Counts}
	}
	return out, nil
}

func (s *Service) itemFunnel(ctx context.Context, in *curveInput) (*operator.Body[itemFunnelView], error) {
	return operator.Answer(in.ID, func(id int64) (itemFunnelView, error) {
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
		return v, opens, plan.OrNotFound(err, plan.ErrNoItem, "read item")
	}
	session, err := q.Session(ctx, row.SessionID)
	if err != nil {
		return v, opens, plan.OrNotFound(err, plan.ErrNoItem, "read session")
	}
	totals, err := tally.Totals(ctx, s.deps.DB, id)
	if err != nil {
		return v, opens, err
	}
	moments, err := tally.Moments(ctx, s.deps.DB, id)
	if err != nil {
		return v, opens, err
	}
	v = itemFunnelView{ItemID: wire.ID(id), Counts: funnelOf(s.deps.Clock.Now(), totals[id], moments)}
	opens = session.OpensAt
	if !row.Unlimited {
		v.Stock, v.Oversell = new(row.Stock), new(plan.UnitsOnSale(&row)-row.Stock)
	}
	books, err := s.books(ctx, id)
	if b, ok := books[id]; ok {
		v.Loaded, v.Epoch, v.Queued, v.Books = b.State.Ready(), b.State.Epoch, b.State.Queued(), booksOf(&b.Row)
	}
	return v, opens, err
}

func (s *Service) funnelRoutes(api httpx.API) {
	item := operator.Read(operator.Base+"/items/{id}/funnel", "get-funnel", "An item's attempts, orders, units and books at this moment")
	item.Description = "Counted on every instance and merged: what shoppers were told, up to a second ago. An instance that is killed loses what it counted in its last second; the books lose nothing."
	httpx.Register(api, item, s.itemFunnel)
	httpx.Register(api, operator.Read(operator.Base+"/sessions/{id}/funnel", "get-session-funnel", "The funnel of a session: its items together, and each"),
		func(ctx context.Context, in *curveInput) (*operator.Body[funnelSumView], error) {
			return operator.Answer(in.ID, func(id int64) (funnelSumView, error) {
				session, err := plan.ReadSession(ctx, s.deps.DB, id)
				if err != nil {
					return funnelSumView{}, err
				}
				return s.sumFunnels(ctx, in, session)
			})
		})
	op := operator.Read(operator.Base+"/activities/{id}/funnel", "get-activity-funnel", "The funnel of an activity: all its items together, and each")
	httpx.Register(api, op, func(ctx context.Context, in *curveInput) (*operator.Body[funnelSumView], error) {
		return operator.Answer(in.ID, func(id int64) (funnelSumView, error) {
			activity, err := plan.ReadActivity(ctx, s.deps.DB, id)
			if err != nil {
				return funnelSumView{}, err
			}
			return s.sumFunnels(ctx, in, activity.Sessions...)
		})
	})
	s.liveRoute(api)
}

// funnelSumView is the funnel of several items.
type funnelSumView struct {
	Counts
	Items []itemCounts `json:"items" doc:"Each item's share"`
}

// itemCounts is what was counted about one item of several.
type itemCounts struct {
	ItemID wire.ID      `json:"item_id"`
	Title  string       `json:"title"`
	Counts tally.Counts `json:"counts" doc:"By stage and code"`
}

// sumFunnels adds up the funnels of the items of sessions. The moments are the
// first and the last over all items; the sum is emptied when the first item is.
func (s *Service) sumFunnels(ctx context.Context, in *curveInput, sessions ...plan.SessionView) (funnelSumView, error) {
	var ids []int64
	var opens time.Time
	v := funnelSumView{Items: []itemCounts{}}
	for _, session := range sessions {
		if at := time.Time(session.OpensAt); opens.IsZero() || at.Before(opens) {
			opens = at
		}
		for _, item := range session.Items {
			ids = append(ids, int64(item.ID))
			v.Items = append(v.Items, itemCounts{ItemID: item.ID, Title: item.Title, Counts: tally.Counts{}})
		}
	}
	totals, err := tally.Totals(ctx, s.deps.DB, ids...)
	if err != nil {
		return funnelSumView{}, err
	}
	moments, err := tally.Moments(ctx, s.deps.DB, ids...)
	if err != nil {
		return funnelSumView{}, err
	}
	v.Counts = funnelOf(s.deps.Clock.Now(), tally.Sum(totals), moments)
	for i := range v.Items {
		if c := totals[int64(v.Items[i].ItemID)]; c != nil {
			v.Items[i].Counts = c
		}
	}
	v.Curve, err = s.curve(ctx, in, opens, ids...)
	return v, err
}

// liveRoute registers the funnel as server-sent events.
func (s *Service) liveRoute(api httpx.API) {
	const path = operator.Base + "/items/{id}/funnel/live"
	op := operator.Read(path, "follow-funnel", "An item's funnel every second, as server-sent events")
	op.Class, op.Scope = httpx.Events, ""
	op.Description = "Events without a name or an id, one at once and then one every second: the `data` of each is the JSON document that GET /api/v1/admin/items/{id}/funnel answers, in one line. " +
		"It is the whole state, so that a client that missed some needs no others. The stream ends after ten minutes, with its token, or when the server stops; connect again."
	httpx.Register(api, op, func(ctx context.Context, in *operator.ByID) (*huma.StreamResponse, error) {
		id, err := httpx.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		return s.funnels.stream(ctx, id, s.stopping, func() source[itemFunnelView] {
			return func(ctx context.Context) (reading[itemFunnelView], error) {
				v, _, err := s.funnel(ctx, id)
				if err != nil {
					return reading[itemFunnelView]{}, err
				}
				raw, err := json.Marshal(v)
				return reading[itemFunnelView]{v, raw}, err
			}
		})
	})
	describeEvents[itemFunnelView](api, path, "data: {\"item_id\":\"7\",\"attempts\":1200,\"answers\":{\"queued\":100,\"all-held\":1100},…}\n\n")
}
