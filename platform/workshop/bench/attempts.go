package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/workshop/loadgen"
)

const (
	// refusedPaths is how many shoppers take turns being refused: enough that
	// each request is from a different shopper, few enough that their paths are
	// fetched quickly.
	refusedPaths = 1024
	// pathsLast is how long fetched paths are used before new ones are fetched,
	// half of their lifetime.
	pathsLast = time.Minute
	// spotChecks is how many orders of a round are queried afterwards, evenly
	// spread, besides the last ones.
	spotChecks = 500
	// againAfter is the pause before a retry, about the time of one batch.
	againAfter = 10 * time.Millisecond
	// writtenPatience is how long grants may take to become orders before the
	// stage is given up.
	writtenPatience = 2 * time.Minute

	// The codes of an item with no units left, and of one that tells a shopper to retry.
	soldOut = "sold-out"
	tooHot  = "too-hot"
	// statusPending is the status of a new order.
	statusPending = "pending_payment"
)

// repeating is a side that sends a crowd's attempts again and again to the addresses, which
// answer each with the code.
func repeating(code string, crowd func(ctx context.Context) (*loadgen.Crowd, error), urls []string) Side {
	var round *loadgen.Crowd
	return Side{
		Prepare: func(ctx context.Context, n int) error {
			c, err := crowd(ctx)
			if err == nil {
				round = c.Repeat(n, urls[0], urls[1:]...)
			}
			return err
		},
		Work: func(ctx context.Context, n int) (map[string]float64, error) {
			v := round.Fire(ctx)
			took := v.Refusal
			if v.Granted > 0 {
				took = v.Grant
			}
			return percentiles(took), allAnswered(v, n, code)
		},
	}
}

// openRefusal compares POST rush/{path} for a sold-out item with a handler that
// checks nothing and sends the same bytes to the same requests.
func openRefusal(ctx context.Context, rig *Rig) (baseline, ours Side, err error) {
	s, err := rig.Server(ctx)
	if err != nil {
		return baseline, ours, err
	}
	item, err := s.soldOut(ctx)
	if err != nil {
		return baseline, ours, err
	}
	var refused *loadgen.Crowd
	var fetched time.Time
	crowd := func(ctx context.Context) (_ *loadgen.Crowd, err error) {
		if time.Since(fetched) > pathsLast {
			refused, err = s.crowd(ctx, item, refusedPaths, rig.conns(fewConns))
			fetched = time.Now()
		}
		return refused, err
	}
	if _, err := crowd(ctx); err != nil {
		return baseline, ours, err
	}
	urls, err := startBare(ctx, s, refused.RushTarget(0), "", nil, http.StatusGone)
	return repeating(soldOut, crowd, urls), repeating(soldOut, crowd, s.urls()), err
}

// openPaths compares POST items/{id}/rush-path, each by a different shopper with
// their own token, with an answer that checks nothing, not even the token.
func openPaths(ctx context.Context, rig *Rig) (baseline, ours Side, err error) {
	s, item, err := rig.endless(ctx)
	if err != nil {
		return baseline, ours, err
	}
	token, err := rig.Token(rig.Users(1))
	if err != nil {
		return baseline, ours, err
	}
	target := "/api/v1/items/" + strconv.FormatInt(item, 10) + "/rush-path"
	urls, err := startBare(ctx, s, target, token, strings.NewReader(`{"quantity":1}`), http.StatusOK)
	side := func(urls []string) Side {
		var crowd *loadgen.Crowd
		return Side{
			// Minted in advance: shoppers arrive with their tokens.
			Prepare: func(_ context.Context, n int) (err error) {
				first, tokens := rig.Users(n), make([]string, n)
				for i := range tokens {
					if tokens[i], err = rig.Token(first + int64(i)); err != nil {
						return err
					}
				}
				crowd = loadgen.NewCrowd(loadgen.CrowdConfig{
					BaseURL: urls[0], Others: urls[1:], ItemID: item, Shoppers: n, FirstUser: first, Connections: rig.conns(fewConns),
					Token: func(user int64) (string, error) { return tokens[user-first], nil },
				})
				return nil
			},
			Work: func(ctx context.Context, _ int) (map[string]float64, error) {
				f := crowd.FetchPaths(ctx)
				return percentiles(f.Took), allIssued(ctx, f)
			},
		}
	}
	if err != nil {
		return baseline, ours, err
	}
	return side(urls), side(s.urls()), nil
}

// openWhole compares the whole way with a bare 202 to the same requests. An
// attempt is granted in Redis (append-only file synced always), published durably
// (synced always), answered 202, and its order committed in Postgres, which ends
// the round: the last order of each connection has been read over HTTP.
func openWhole(ctx context.Context, rig *Rig) (baseline, ours Side, err error) {
	s, item, err := rig.endless(ctx)
	if err != nil {
		return baseline, ours, err
	}
	first, err := s.crowd(ctx, item, 1, rig.conns(manyConns))
	if err != nil {
		return baseline, ours, err
	}
	urls, err := startBare(ctx, s, first.RushTarget(0), "", nil, http.StatusAccepted)
	baseline = repeating("queued", func(context.Context) (*loadgen.Crowd, error) { return first, nil }, urls)
	return baseline, s.whole(item), err
}

// whole is a side that sells units of an item to new shoppers, until each order can be read.
func (s *Server) whole(item int64) Side {
	var crowd *loadgen.Crowd
	return Side{
		Prepare: func(ctx context.Context, n int) (err error) {
			crowd, err = s.crowd(ctx, item, n, s.rig.conns(manyConns))
			return err
		},
		Work: func(ctx context.Context, n int) (map[string]float64, error) {
			v, hot, err := fireAll(ctx, crowd, n)
			if err != nil {
				return nil, err
			}
			figures := percentiles(v.Grant)
			figures[figureHot] = float64(hot)
			// The writer takes an item's grants in order, so the others have
			// been written as well.
			last := crowd.Last()
			return figures, allWritten(ctx, crowd, last[max(0, len(last)-manyConns):])
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

// fireAll fires a crowd until each of its n attempts is granted. hot counts the
// attempts that were told to retry; they do, as a page would.
func fireAll(ctx context.Context, crowd *loadgen.Crowd, n int) (v loadgen.Volley, hot int64, err error) {
	v = crowd.Fire(ctx)
	hot = v.Answers[tooHot]
	for again := v; again.Answers[tooHot] > 0; {
		if err := app.Sleep(ctx, againAfter); err != nil {
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

// allWritten polls for winners' orders until they exist.
func allWritten(ctx context.Context, crowd *loadgen.Crowd, winners []int) error {
	ctx, cancel := context.WithTimeout(ctx, writtenPatience)
	defer cancel()
	if found := crowd.Ask(ctx, winners); found[statusPending] != int64(len(winners)) {
		return fmt.Errorf("of %d granted attempts not all became orders: %v", len(winners), found)
	}
	return nil
}

// until repeats ask until it reports that it is done.
func until(ctx context.Context, ask func() (done bool, err error)) error {
	for {
		if done, err := ask(); done || err != nil {
			return err
		}
		if err := app.Sleep(ctx, againAfter); err != nil {
			return err
		}
	}
}

// allIssued is an error unless each shopper got a path.
func allIssued(ctx context.Context, f loadgen.Fetched) error {
	if len(f.Refused) > 0 {
		return fmt.Errorf("%d shoppers got a path, the others none: %v", f.Issued, f.Refused)
	}
	return ctx.Err()
}

// percentiles are the figures of a distribution, in milliseconds.
func percentiles(l loadgen.Latency) map[string]float64 {
	return map[string]float64{figureMedian: l.P50, figureP99: l.P99}
}

// allAnswered is an error unless n attempts were answered with the code.
func allAnswered(v loadgen.Volley, n int, code string) error {
	if v.Answers[code] != int64(n) {
		return fmt.Errorf("of %d attempts not all were answered %s: %v", n, code, v.Answers)
	}
	return nil
}

// soldOut plans an item of one unit and lets a shopper buy and pay for it.
func (s *Server) soldOut(ctx context.Context) (item int64, err error) {
	if item, err = s.Sale(ctx, 1); err != nil {
		return 0, err
	}
	cfg := s.run(item, 1, 1)
	cfg.PayShare = 1
	if _, err := loadgen.Run(ctx, cfg); err != nil {
		return 0, err
	}
	// An event carries the payment to Redis a moment later, and from there to the flag of each instance; until then the
	// unit is held.
	others := s.rig.conns(fewConns)
	other, err := s.crowd(ctx, item, others, others)
	if err != nil {
		return 0, err
	}
	return item, until(ctx, func() (bool, error) {
		v := other.Fire(ctx)
		if v.Answers["all-held"] > 0 {
			return false, nil
		}
		return true, allAnswered(v, others, soldOut)
	})
}
