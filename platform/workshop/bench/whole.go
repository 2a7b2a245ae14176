package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"stampede/platform/workshop/loadgen"
)

const (
	// manyConns is how many connections a reverse proxy opens to the server,
	// and the load for which the bound on the slowest grants is promised.
	manyConns = 256
	// spotChecks is how many orders of a round are queried afterwards, evenly
	// spread, besides the last ones.
	spotChecks = 500
)

// figureHot counts the attempts of a round that were answered too-hot.
const figureHot = "told too-hot"

// Whole measures the whole way: an attempt is granted in Redis (append-only
// file synced always), published durably (synced always), answered 202, and its
// order committed in Postgres, which ends the round: the last order of each
// connection has been read over HTTP. The baseline answers 202 to the same
// requests and does nothing.
func Whole() Stage {
	return Stage{
		Name: "whole", Unit: "orders", Target: 0.45, AtLeast: 40_000, Probe: 4000, Most: 150_000,
		Ours:     "attempts granted, published and written, all of it synced to disk",
		Baseline: "a bare net/http handler with the same 202",
		Remark: "From the first request of a round until the last order can be read. All processes share the cores with the clients; " +
			"the list above shows each one's share.",
		Figures: []Figure{
			{Name: figureMedian, Unit: "ms"},
			{Name: figureP99, Unit: "ms", AtMost: 25},
			{Name: figureHot, Unit: "attempts"},
		},
		Open: openWhole,
	}
}

// openWhole rushes with prefetched paths, and ends a round when the last
// granted order can be read: it measures the way to the order, not to the 202.
func openWhole(ctx context.Context, rig *Rig) (baseline, ours Side, closeSides func(context.Context) error, err error) {
	s, item, first, said, err := granted(ctx, rig)
	if err != nil {
		return baseline, ours, nil, err
	}
	bare, url, err := startBare(ctx, rig, said)
	if err != nil {
		return baseline, ours, nil, err
	}
	var crowd *loadgen.Crowd
	baseline = Side{
		Prepare: func(_ context.Context, n int) error { crowd = first.Repeat(url, n); return nil },
		Work: func(ctx context.Context, n int) (Sample, error) {
			v := crowd.Fire(ctx)
			return Sample{Figures: percentiles(v.Grant)}, allAnswered(v, n, "queued")
		},
	}
	return baseline, s.orders(item, flatOut), bare.End, nil
}

// flatOut is the rate of attempts that are sent as fast as they are answered.
const flatOut = 0

// orders is the side that takes attempts for an item to their orders, at a rate in
// attempts a second or flatOut.
func (s *Server) orders(item int64, perSecond float64) Side {
	var crowd *loadgen.Crowd
	return Side{
		Prepare: func(ctx context.Context, n int) (err error) {
			crowd, err = s.crowd(ctx, item, n, manyConns)
			return err
		},
		Work: func(ctx context.Context, n int) (Sample, error) {
			v, hot, err := fireAll(ctx, crowd, n, perSecond)
			if err != nil {
				return Sample{}, err
			}
			// The writer takes an item's grants in order, so the others have
			// been written as well.
			sample := Sample{Figures: percentiles(v.Grant)}
			sample.Figures[figureHot] = float64(hot)
			return sample, allWritten(ctx, crowd, crowd.Last())
		},
		Check: func(ctx context.Context, n int) error {
			var some []int
			for i := 0; i < n; i += max(1, n/spotChecks) {
				some = append(some, i)
			}
			return allWritten(ctx, crowd, some)
		},
	}
}

// granted starts the server and gets a first shopper's attempt granted, for a
// baseline that sends the same answer.
func granted(ctx context.Context, rig *Rig) (s *Server, item int64, first *loadgen.Crowd, said answer, err error) {
	if s, err = rig.Server(ctx); err != nil {
		return nil, 0, nil, said, err
	}
	if item, err = s.Endless(ctx); err != nil {
		return nil, 0, nil, said, err
	}
	if first, err = s.crowd(ctx, item, 1, manyConns); err != nil {
		return nil, 0, nil, said, err
	}
	said, err = capture(ctx, s, first.RushTarget(0), "", nil, http.StatusAccepted)
	return s, item, first, said, err
}

// fireAll fires a crowd until each of its n attempts is granted. hot counts the
// attempts that were told to retry; they do, as a page would.
func fireAll(ctx context.Context, crowd *loadgen.Crowd, n int, perSecond float64) (v loadgen.Volley, hot int64, err error) {
	if perSecond == flatOut {
		v = crowd.Fire(ctx)
	} else {
		v = crowd.FireAt(ctx, perSecond)
	}
	hot = v.Answers[tooHot]
	for again := v; again.Answers[tooHot] > 0; {
		if err := pause(ctx, againAfter); err != nil {
			return v, hot, err
		}
		again = crowd.FireAgain(ctx, tooHot)
		hot += again.Answers[tooHot]
		v.Granted += again.Granted
	}
	if v.Granted != int64(n) {
		return v, hot, fmt.Errorf("%d of %d attempts were granted: %v", v.Granted, n, v.Answers)
	}
	return v, hot, nil
}

// tooHot is the code that tells a shopper to retry.
const tooHot = "too-hot"

// allWritten polls for winners' orders until they exist.
func allWritten(ctx context.Context, crowd *loadgen.Crowd, winners []int) error {
	ctx, cancel := context.WithTimeout(ctx, writtenPatience)
	defer cancel()
	if found := crowd.Ask(ctx, winners); found[statusPending] != int64(len(winners)) {
		return fmt.Errorf("of %d granted attempts not all became orders: %v", len(winners), found)
	}
	return nil
}

// againAfter is the pause before a retry, about the time of one batch.
const againAfter = 10 * time.Millisecond

// until repeats ask until it reports that it is done.
func until(ctx context.Context, ask func() (done bool, err error)) error {
	for {
		if done, err := ask(); done || err != nil {
			return err
		}
		if err := pause(ctx, againAfter); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
