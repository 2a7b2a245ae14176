package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"stampede/platform/workshop/loadgen"
)

const (
	// refusedPaths is how many shoppers take turns being refused: enough that
	// each request is from a different shopper, few enough that their paths are
	// fetched quickly.
	refusedPaths = 1024
	// fewConns keeps two cores busy with requests that are answered from memory;
	// more would only wait for each other.
	fewConns = 64
	// pathsLast is how long fetched paths are used before new ones are fetched,
	// half of their lifetime.
	pathsLast = time.Minute
)

// Refusal measures the answer that most requests of a sale get: POST
// rush/{path} for a sold-out item. The baseline is a handler that checks
// nothing and sends the same bytes to the same requests.
func Refusal() Stage {
	return Stage{
		Name: "refusal", Unit: "answers", Target: 0.85, Probe: 5000,
		Ours:     "rushes of a sold-out item",
		Baseline: "a bare net/http handler with the same answer",
		Remark: "Ours adds the route and the path's base64 and HMAC-SHA256 to what net/http does on both sides, which is nearly all of it. " +
			"0.9 requires finding the route without the router; much more would require a custom HTTP server.",
		Figures: []Figure{{Name: figureMedian, Unit: "ms"}, {Name: figureP99, Unit: "ms"}},
		Open:    openRefusal,
	}
}

// soldOut is the code for an item with no units left.
const soldOut = "sold-out"

func openRefusal(ctx context.Context, rig *Rig) (baseline, ours Side, closeSides func(context.Context) error, err error) {
	s, err := rig.Server(ctx)
	if err != nil {
		return baseline, ours, nil, err
	}
	item, err := s.soldOut(ctx)
	if err != nil {
		return baseline, ours, nil, err
	}
	refused, err := s.crowd(ctx, item, refusedPaths, fewConns)
	if err != nil {
		return baseline, ours, nil, err
	}
	fetched := time.Now()
	said, err := capture(ctx, s, refused.RushTarget(0), "", nil, http.StatusGone)
	if err != nil {
		return baseline, ours, nil, err
	}
	bare, url, err := startBare(ctx, rig, said)
	if err != nil {
		return baseline, ours, nil, err
	}
	side := func(url string) Side {
		var crowd *loadgen.Crowd
		return Side{
			Prepare: func(ctx context.Context, n int) (err error) {
				if time.Since(fetched) > pathsLast {
					if refused, err = s.crowd(ctx, item, refusedPaths, fewConns); err != nil {
						return err
					}
					fetched = time.Now()
				}
				crowd = refused.Repeat(url, n)
				return nil
			},
			Work: func(ctx context.Context, n int) (Sample, error) {
				v := crowd.Fire(ctx)
				return Sample{Figures: percentiles(v.Refusal)}, allAnswered(v, n, soldOut)
			},
		}
	}
	return side(url), side(s.URL), bare.End, nil
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
	cfg := loadgen.DefaultConfig()
	cfg.BaseURL, cfg.ItemID, cfg.Shoppers, cfg.Connections, cfg.Sockets = s.URL, item, 1, 1, 0
	cfg.PayShare, cfg.FirstUser, cfg.Token = 1, s.rig.Users(1), s.rig.Token
	if _, err := loadgen.Run(ctx, cfg); err != nil {
		return 0, err
	}
	// An event carries the payment to Redis a moment later; until then the unit
	// is held.
	other, err := s.crowd(ctx, item, 1, 1)
	if err != nil {
		return 0, err
	}
	return item, until(ctx, func() (bool, error) {
		v := other.Fire(ctx)
		if v.Answers["all-held"] == 1 {
			return false, nil
		}
		return true, allAnswered(v, 1, soldOut)
	})
}
