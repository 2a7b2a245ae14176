package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"stampede/platform/workshop/loadgen"
)

// Paths measures POST items/{id}/rush-path, each by a different shopper with
// their own token. The baseline answers every request with a path and checks
// nothing, not even the token.
func Paths() Stage {
	return Stage{
		Name: "paths", Unit: "paths", AtLeast: 20_000, Probe: 2000, Most: 200_000,
		Ours:     "rush paths issued, each with an access token",
		Baseline: "a bare net/http handler with the same answer",
		Figures:  []Figure{{Name: figureMedian, Unit: "ms"}, {Name: figureP99, Unit: "ms"}},
		Open:     openPaths,
	}
}

func openPaths(ctx context.Context, rig *Rig) (baseline, ours Side, closeSides func(context.Context) error, err error) {
	s, err := rig.Server(ctx)
	if err != nil {
		return baseline, ours, nil, err
	}
	item, err := s.Endless(ctx)
	if err != nil {
		return baseline, ours, nil, err
	}
	token, err := rig.Token(rig.Users(1))
	if err != nil {
		return baseline, ours, nil, err
	}
	target := "/api/v1/items/" + strconv.FormatInt(item, 10) + "/rush-path"
	said, err := capture(ctx, s, target, token, strings.NewReader(`{"quantity":1}`), http.StatusOK)
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
			// Minted in advance: shoppers arrive with their tokens.
			Prepare: func(_ context.Context, n int) error {
				first, tokens := rig.Users(n), make([]string, n)
				for i := range tokens {
					if tokens[i], err = rig.Token(first + int64(i)); err != nil {
						return err
					}
				}
				crowd = loadgen.NewCrowd(loadgen.CrowdConfig{
					BaseURL: url, Items: []int64{item}, Shoppers: n, FirstUser: first, Connections: fewConns,
					Token: func(user int64) (string, error) { return tokens[user-first], nil },
				})
				return nil
			},
			Work: func(ctx context.Context, _ int) (Sample, error) {
				f := crowd.FetchPaths(ctx)
				return Sample{Figures: percentiles(f.Took)}, allIssued(ctx, f)
			},
		}
	}
	return side(url), side(s.URL), bare.End, nil
}

// allIssued is an error unless each shopper got a path.
func allIssued(ctx context.Context, f loadgen.Fetched) error {
	if len(f.Refused) > 0 {
		return fmt.Errorf("%d shoppers got a path, the others none: %v", f.Issued, f.Refused)
	}
	return ctx.Err()
}

// The names of the figures that percentiles gives.
const (
	figureMedian = "median"
	figureP99    = "p99"
)

// percentiles are the figures of a distribution, in milliseconds.
func percentiles(l loadgen.Latency) map[string]float64 {
	return map[string]float64{figureMedian: l.P50, figureP99: l.P99}
}
