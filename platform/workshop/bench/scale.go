package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"stampede/platform/watch/proof"
	"stampede/platform/workshop/loadgen"
)

// ScalePlan says which sizes of a sale to play.
type ScalePlan struct {
	// Shoppers lists crowd sizes for one item, Items lists numbers of items on
	// sale at the same time for a crowd of ItemsShoppers. There is one unit for
	// every hundred shoppers.
	Shoppers, Items []int
	ItemsShoppers   int
	// Least is the minimum number of attempts per point: a small sale is played
	// several times, because processor time is counted in hundredths of a
	// second.
	Least int
	// Million is the crowd of the proof: it is played once, its losers repeat
	// their attempts to time pure refusals, and the books are proved. 0 means
	// none.
	Million int
	// Connections is how many HTTP connections send attempts.
	Connections int
	// Progress receives a line per point; required.
	Progress io.Writer
	// Prove proves the books of one item against the client log; required with Million.
	Prove func(ctx context.Context, databaseURL, redisURL string, item int64, told []proof.ClientRecord) (bool, error)
}

// The three plans of `stampede bench --scale`.
var (
	// CurvePlan is the table of platform/operating/measured.md, some minutes of work.
	CurvePlan = ScalePlan{
		Shoppers: []int{1_000, 10_000, 100_000, 1_000_000}, Items: []int{1, 10, 100, 1_000}, ItemsShoppers: 100_000,
		Least: 20_000, Connections: manyConns,
	}
	// MillionPlan is the proof alone.
	MillionPlan = ScalePlan{Million: 1_000_000, Connections: manyConns}
	// ShortPlan runs the same steps in seconds, and measures nothing.
	ShortPlan = ScalePlan{
		Shoppers: []int{1_000}, Items: []int{10}, ItemsShoppers: 1_000, Million: 5_000, Connections: 64,
	}
)

// unitsPer is how many shoppers compete for a unit, as in a typical flash sale.
const unitsPer = 100

// ScalePoint is one size of a sale and the cost of an attempt in it.
type ScalePoint struct {
	Shoppers int `json:"shoppers"`
	Items    int `json:"items"`
	Units    int `json:"units"`
	// Sales is how many times it was played; the figures cover all of them.
	Sales     int     `json:"sales"`
	Attempts  int     `json:"attempts"` // including those repeated after too-hot
	PerSecond float64 `json:"attempts_per_second"`
	// Server and All are microseconds of processor time per attempt: of the
	// server, and of the server with Postgres and Redis. Clients is the load
	// generator's.
	Server  float64 `json:"server_us"`
	All     float64 `json:"all_us"`
	Clients float64 `json:"clients_us"`
}

// ScaleReport is the result of a plan.
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
	// Warm up: a server's first sale also pays for growing its memory,
	// connections and caches.
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

// settleFor is the time for delivering the events after the last order, so that
// their cost is included.
const settleFor = 500 * time.Millisecond

// play plans the sale as many times as it is to be played, fetches all paths,
// and fires one crowd after the other. users is the first shopper's id; the
// other ids follow it.
func (x sale) play(ctx context.Context, s *Server, users int64) (ScalePoint, error) {
	p := ScalePoint{Shoppers: x.shoppers, Items: x.items, Units: x.units(), Sales: x.times}
	var crowds []*loadgen.Crowd
	defer func() { disband(crowds) }()
	r, err := s.rig.measure(ctx, Side{
		Prepare: func(ctx context.Context, _ int) (err error) {
			crowds, err = x.gather(ctx, s, users)
			return err
		},
		Work: func(ctx context.Context, _ int) (sample Sample, err error) {
			for _, c := range crowds {
				v, err := x.sell(ctx, s, c)
				if err != nil {
					return sample, err
				}
				sample.Done += v.Sent
				sample.Took += v.Elapsed
			}
			p.Attempts = sample.Done
			return sample, pause(ctx, settleFor)
		},
	}, x.shoppers*x.times)
	if err != nil {
		return p, err
	}
	p.PerSecond = r.perSecond
	for name, t := range r.cpu {
		each := float64(t.Nanoseconds()) / 1000
		switch name {
		case nameSelf:
			p.Clients = each
			continue
		case nameServer:
			p.Server = each
		}
		p.All += each
	}
	return p, nil
}

// mostAgain is how many times refused shoppers retry before a sale is given up:
// each round must sell some units, or something is wrong.
const mostAgain = 100

// sell fires a crowd until its items are sold out, and waits until every grant
// is an order.
func (x sale) sell(ctx context.Context, s *Server, c *loadgen.Crowd) (loadgen.Volley, error) {
	already, err := s.written(ctx)
	if err != nil {
		return loadgen.Volley{}, err
	}
	v := c.Fire(ctx)
	// Shoppers told to retry do so, as a page would.
	for again := 0; v.Granted < int64(x.units()) && ctx.Err() == nil; again++ {
		_ = pause(ctx, againAfter) // the end of ctx is checked below
		more := c.FireAgain(ctx, "too-hot", "fenced", "all-held", "sold-out")
		if more.Sent == 0 || again == mostAgain {
			return v, fmt.Errorf("%d of %d units were sold and further attempts get none: %v", v.Granted, x.units(), v.Answers)
		}
		v.Sent += more.Sent
		v.Granted += more.Granted
		v.Elapsed += more.Elapsed
	}
	if v.Granted > int64(x.units()) {
		return v, fmt.Errorf("%d grants for %d units", v.Granted, x.units())
	}
	_, err = s.awaitWritten(ctx, already+v.Granted)
	return v, errors.Join(err, ctx.Err())
}

const (
	// pathsPerSecond is the rate that even a small, busy machine issues paths
	// at; it determines how far ahead of the opening they are fetched.
	pathsPerSecond = 10_000
	// loadsPerSecond is the same for the first Loads of the items.
	loadsPerSecond = 50
	// openingMargin allows for publishing and for Redis's clock.
	openingMargin = 2 * time.Second
	// mostLead keeps the first path valid until the last is fetched; the server
	// issues none earlier than two minutes ahead.
	mostLead = 110 * time.Second
)

// gather plans the sales, creates a crowd for each and fetches its paths before
// they open, as far as time allows.
func (x sale) gather(ctx context.Context, s *Server, users int64) ([]*loadgen.Crowd, error) {
	seconds := float64(x.shoppers*x.times)/pathsPerSecond + float64(x.items*x.times)/loadsPerSecond
	opens := time.Now().Add(min(openingMargin+time.Duration(seconds*float64(time.Second)), mostLead))
	var crowds []*loadgen.Crowd
	for i := range x.times {
		items, err := s.plan(ctx, x.units()/x.items, x.items, opens)
		if err != nil {
			return crowds, err
		}
		crowds = append(crowds, s.newCrowd(items, x.shoppers, users+int64(i*x.shoppers), x.conns))
	}
	for _, c := range crowds {
		if err := allIssued(ctx, c.FetchPaths(ctx)); err != nil {
			return crowds, err
		}
	}
	return crowds, awaitOpening(ctx, opens)
}

// disband closes the crowds' connections.
func disband(crowds []*loadgen.Crowd) {
	for _, c := range crowds {
		c.Close()
	}
}

// writtenSeries counts the orders that the server has committed.
const writtenSeries = `stampede_order_grants_written_total{result="created"}`

// written reads that counter.
func (s *Server) written(ctx context.Context) (int64, error) {
	metrics, err := get(ctx, s.OpsURL+"/metrics", "")
	if err != nil {
		return 0, fmt.Errorf("bench: read metrics: %w", err)
	}
	for line := range strings.Lines(string(metrics)) {
		if value, ok := strings.CutPrefix(line, writtenSeries+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int64(n), err
		}
	}
	return 0, fmt.Errorf("bench: the server has no metric %s", writtenSeries)
}

const (
	// writtenEvery is how often the counter is read: each read costs the server
	// a millisecond.
	writtenEvery = 50 * time.Millisecond
	// writtenPatience is how long grants may take to become orders before the
	// sale is given up.
	writtenPatience = 2 * time.Minute
)

// awaitWritten waits until the counter has reached n and returns the time at
// which it did.
func (s *Server) awaitWritten(ctx context.Context, n int64) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, writtenPatience)
	defer cancel()
	for {
		have, err := s.written(ctx)
		switch {
		case err != nil:
			return time.Time{}, err
		case have >= n:
			return time.Now(), nil
		}
		if err := pause(ctx, writtenEvery); err != nil {
			return time.Time{}, fmt.Errorf("bench: %d of %d orders were written: %w", have, n, err)
		}
	}
}
