package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"stampede/platform/loadgen"
	"stampede/platform/loadgen/wire"
)

const (
	// refusedPaths is how many shoppers take turns being refused: enough that the
	// server meets another one each time, few enough to be fetched in a moment.
	refusedPaths = 1024
	// fewConns keeps two cores busy with requests that are answered from memory;
	// more only wait for each other.
	fewConns = 64
	// pathsLast is how long fetched paths are used before others are fetched,
	// half of what they live.
	pathsLast = time.Minute
)

// Refusal is what most requests of a sale get: POST rush/{path} of an item that
// is sold out. The floor is a handler that looks at nothing and answers the same
// bytes to the same requests.
func Refusal() Stage {
	return Stage{
		Name: "refusal", Unit: "answers", Target: 0.85, Clients: true, Probe: 5000,
		Ours:  "rushes of a sold-out item",
		Floor: "a bare net/http handler with the same answer",
		Remark: "Ours adds the route and the path's base64 and HMAC-SHA256 to what net/http does on both sides, which is nearly all of it. " +
			"0.9 takes finding the route before the router is asked; much more would take an HTTP server of our own.",
		Figures: []Figure{{Name: figureMedian, Unit: "ms"}, {Name: figureP99, Unit: "ms"}},
		Open:    openRefusal,
	}
}

func openRefusal(ctx context.Context, rig *Rig) (floor, ours Side, closeSides func(context.Context) error, err error) {
	s, err := rig.Server(ctx)
	if err != nil {
		return floor, ours, nil, err
	}
	item, err := s.soldOut(ctx)
	if err != nil {
		return floor, ours, nil, err
	}
	paths := &paths{server: s, item: item}
	if err := paths.fetch(ctx, refusedPaths); err != nil {
		return floor, ours, nil, err
	}
	said, err := capture(ctx, s, rushTarget+paths.path(0), "", nil)
	if err != nil {
		return floor, ours, nil, err
	}
	if said.Status != http.StatusGone {
		return floor, ours, nil, fmt.Errorf("a sold-out item answers %d: %s", said.Status, said.Body)
	}
	fresh := func(ctx context.Context, _ int) error {
		if time.Since(paths.fetched) < pathsLast {
			return nil
		}
		return paths.fetch(ctx, refusedPaths)
	}
	return besideBare(ctx, rig, s, said, fewConns, play{
		request: func(b []byte, i int) []byte { return post(b, s.Addr, rushTarget+paths.path(i%refusedPaths)) },
		answer:  wants(http.StatusGone),
	}, fresh)
}

// besideBare makes two sides of a play: ours against the server, the floor
// against a bare handler that gives the answer.
func besideBare(ctx context.Context, rig *Rig, s *Server, said answer, conns int, p play, prepare func(context.Context, int) error) (floor, ours Side, closeSides func(context.Context) error, err error) {
	bare, addr, err := startBare(ctx, rig, said)
	if err != nil {
		return floor, ours, nil, err
	}
	atFloor, err := dial(addr, conns)
	if err != nil {
		return floor, ours, bare.End, err
	}
	atOurs, err := dial(s.Addr, conns)
	if err != nil {
		atFloor.close()
		return floor, ours, bare.End, err
	}
	work := func(c *clients, p play) func(context.Context, int) (Sample, error) {
		return func(ctx context.Context, n int) (Sample, error) {
			took, err := c.drive(ctx, n, p)
			if err != nil {
				return Sample{}, err
			}
			return Sample{Figures: percentiles(took)}, nil
		}
	}
	// The floor answers one thing only, whatever ours makes of its answers.
	floor = Side{Prepare: prepare, Work: work(atFloor, play{request: p.request, answer: wants(said.Status)})}
	ours = Side{Prepare: prepare, Work: work(atOurs, p), Serving: s.Child}
	return floor, ours, func(ctx context.Context) error {
		atFloor.close()
		atOurs.close()
		return bare.End(ctx)
	}, nil
}

// soldOut plans an item of one unit and has a shopper buy and pay it.
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
	// The payment reaches Redis by an event, a moment later.
	p := &paths{server: s, item: item}
	if err := p.fetch(ctx, 1); err != nil {
		return 0, err
	}
	return item, s.askUntil(ctx, post(nil, s.Addr, rushTarget+p.path(0)), func(resp *wire.Response) error {
		switch resp.Status {
		case http.StatusGone:
			return nil
		case http.StatusConflict: // held by the one who is paying
			return errAgain
		default:
			return unexpected(resp, http.StatusGone)
		}
	})
}
