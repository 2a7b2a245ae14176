package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"stampede/platform/watch/proof"
	"stampede/platform/workshop/loadgen"
)

// ScalePlan says which sizes of a sale to play.
type ScalePlan struct {
	// Shoppers are crowds for one item, Items are numbers of items on sale at once
	// for a crowd of ItemsShoppers. There is a unit for every hundred shoppers.
	Shoppers, Items []int
	ItemsShoppers   int
	// Least is how many attempts a point is made of at least: a small sale is
	// played several times, because processor time is counted in hundredths of a
	// second.
	Least int
	// Million is the crowd of the proof: it is played once, its losers send their
	// attempts again for the time of pure refusals, and the books are proved. 0 is
	// none.
	Million int
	// Connections is how many HTTP connections fire.
	Connections int
	// Progress receives a line per point; required.
	Progress io.Writer
	// Prove proves the books of one item against what its shoppers were told;
	// required with Million.
	Prove func(ctx context.Context, databaseURL, redisURL string, item int64, told []proof.ClientRecord) (bool, error)
}

// The three plans of `stampede bench --scale`.
var (
	// CurvePlan is the table of the README, some minutes of work.
	CurvePlan = ScalePlan{
		Shoppers: []int{1_000, 10_000, 100_000, 1_000_000}, Items: []int{1, 10, 100, 1_000}, ItemsShoppers: 100_000,
		Least: 20_000, Connections: manyConns,
	}
	// MillionPlan is the proof alone.
	MillionPlan = ScalePlan{Million: 1_000_000, Connections: manyConns}
	// ShortPlan goes the same ways in seconds, and measures nothing.
	ShortPlan = ScalePlan{
		Shoppers: []int{1_000}, Items: []int{10}, ItemsShoppers: 1_000, Million: 5_000, Connections: 64,
	}
)

// unitsPer is how many shoppers there are for a unit: a sale worth the name.
const unitsPer = 100

// ScalePoint is one size of a sale and what an attempt cost in it.
type ScalePoint struct {
	Shoppers int `json:"shoppers"`
	Items    int `json:"items"`
	Units    int `json:"units"`
	// Sales is how often it was played; the figures are of all together.
	Sales     int     `json:"sales"`
	Attempts  int     `json:"attempts"` // with those that were sent again after too-hot
	PerSecond float64 `json:"attempts_per_second"`
	// Server and All are microseconds of processor time per attempt: of the
	// server, and of the server with Postgres and Redis. Clients is the tool's own.
	Server  float64 `json:"server_us"`
	All     float64 `json:"all_us"`
	Clients float64 `json:"clients_us"`
}

// ScaleReport is what was found.
type ScaleReport struct {
	Shoppers []ScalePoint   `json:"by_shoppers,omitempty"`
	Items    []ScalePoint   `json:"by_items,omitempty"`
	Million  *MillionReport `json:"million,omitempty"`
}

// Scale plays the plan on the rig's server.
func Scale(ctx context.Context, rig *Rig, plan ScalePlan) (*ScaleReport, error) {
	s, err := rig.Server(ctx)
	if err != nil {
		return nil, err
	}
	// The first sale of a server's life pays for memory, connections and caches
	// that are still small.
	warm := sale{shoppers: 2_000, items: 1, times: 1, conns: plan.Connections}
	if _, err := warm.play(ctx, s, s.rig.Users(warm.shoppers)); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	report := &ScaleReport{}
	for _, n := range plan.Shoppers {
		p, err := plan.point(ctx, s, n, 1)
		if err != nil {
			return nil, err
		}
		report.Shoppers = append(report.Shoppers, p)
	}
	for _, n := range plan.Items {
		p, err := plan.point(ctx, s, plan.ItemsShoppers, n)
		if err != nil {
			return nil, err
		}
		report.Items = append(report.Items, p)
	}
	if plan.Million > 0 {
		if report.Million, err = plan.million(ctx, s); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// point plays one size.
func (plan *ScalePlan) point(ctx context.Context, s *Server, shoppers, items int) (ScalePoint, error) {
	x := sale{shoppers: shoppers, items: items, times: max(1, (plan.Least+shoppers-1)/shoppers), conns: plan.Connections}
	p, err := x.play(ctx, s, s.rig.Users(x.times*shoppers))
	if err != nil {
		return p, fmt.Errorf("%d shoppers, %d items: %w", shoppers, items, err)
	}
	_, _ = fmt.Fprintf(plan.Progress, "%9d shoppers %5d items: %6.0f attempts/s, %5.1f µs each in the server, %5.1f µs with its stores\n",
		shoppers, items, p.PerSecond, p.Server, p.All)
	return p, nil
}

// sale is a size of a sale.
type sale struct {
	shoppers, items, times, conns int
}

func (x sale) units() int { return max(x.shoppers/unitsPer/x.items, 1) * x.items }

// settleFor is what the events behind the last order get to be delivered, so
// that their cost counts.
const settleFor = 500 * time.Millisecond

// play plans the sale as often as it is to be played, fetches all paths, and
// fires one crowd after the other. users is the first of as many ids as there
// are shoppers in all.
func (x sale) play(ctx context.Context, s *Server, users int64) (ScalePoint, error) {
	p := ScalePoint{Shoppers: x.shoppers, Items: x.items, Units: x.units(), Sales: x.times}
	crowds, err := x.gather(ctx, s, users)
	defer disband(crowds)
	if err != nil {
		return p, err
	}
	before, firing := s.rig.usage(), time.Duration(0)
	for _, c := range crowds {
		v, err := x.sell(ctx, s, c)
		if err != nil {
			return p, err
		}
		p.Attempts += v.Sent
		firing += v.Elapsed
	}
	if err := pause(ctx, settleFor); err != nil {
		return p, err
	}
	each := func(t time.Duration) float64 { return float64(t.Nanoseconds()) / 1000 / float64(p.Attempts) }
	for name, t := range s.rig.usage().since(before) {
		switch name {
		case nameSelf:
			p.Clients += each(t)
			continue
		case nameServer:
			p.Server += each(t)
		}
		p.All += each(t)
	}
	p.PerSecond = float64(p.Attempts) / max(firing.Seconds(), 1e-9)
	return p, nil
}

// mostAgain is how often the refused come again before a sale is given up: each
// time sells some units, or something is wrong.
const mostAgain = 100

// sell fires a crowd until nothing is left of its items, and waits until every
// grant is an order.
func (x sale) sell(ctx context.Context, s *Server, c *loadgen.Crowd) (loadgen.Volley, error) {
	already, err := s.written(ctx)
	if err != nil {
		return loadgen.Volley{}, err
	}
	v := c.Fire(ctx)
	// Who was told to come again does, as a page would.
	for again := 0; v.Granted < int64(x.units()) && ctx.Err() == nil; again++ {
		_ = pause(ctx, againAfter) // its end is looked at below
		more := c.FireAgain(ctx, "too-hot", "fenced", "all-held", "sold-out")
		if more.Sent == 0 || again == mostAgain {
			return v, fmt.Errorf("%d of %d units were sold and no shopper gets more: %v", v.Granted, x.units(), v.Answers)
		}
		v.Sent += more.Sent
		v.Granted += more.Granted
		v.Elapsed += more.Elapsed
	}
	if v.Granted > int64(x.units()) {
		return v, fmt.Errorf("%d grants were told for %d units", v.Granted, x.units())
	}
	_, err = s.awaitWritten(ctx, already+v.Granted)
	return v, errors.Join(err, ctx.Err())
}
