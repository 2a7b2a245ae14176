package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"stampede/platform/loadgen/wire"
)

const (
	// manyConns is what a reverse proxy holds towards the server, and what the
	// promise about the slowest grants is made for.
	manyConns = 256
	// spotChecks is how many orders of a round are asked for afterwards, evenly
	// spread, besides the last of each connection.
	spotChecks = 500
	// pollPause is the pause between two looks for an order that is not there yet:
	// it bounds by how much a round is measured too long.
	pollPause = 2 * time.Millisecond
)

// figureHot counts the attempts of a round that were told to come again.
const figureHot = "told too-hot"

// Whole is the whole way: an attempt is granted in Redis (append-only file
// synced always), published durably (synced always), answered 202, and its order
// committed in Postgres, which ends the round: the last order of each connection
// has been read over HTTP. The floor answers 202 to the same requests and does
// nothing.
func Whole() Stage {
	return Stage{
		Name: "whole", Unit: "orders", Target: 0.45, AtLeast: 40_000, Clients: true, Probe: 4000, Most: 150_000,
		Ours:  "attempts granted, published and written, all of it synced to disk",
		Floor: "a bare net/http handler with the same 202",
		Remark: "From the first request of a round until the last order can be read. All processes share the cores with the clients; " +
			"the list above says who takes how much of them.",
		Figures: []Figure{
			{Name: figureMedian, Unit: "ms"},
			{Name: figureP99, Unit: "ms", AtMost: 25},
			{Name: figureHot, Unit: "attempts"},
		},
		Open: openWhole,
	}
}

// openWhole rushes with paths that were fetched beforehand, and counts a round as
// over when the last granted order can be read: what is measured is the way to
// the order, not to the promise.
func openWhole(ctx context.Context, rig *Rig) (floor, ours Side, closeSides func(context.Context) error, err error) {
	s, err := rig.Server(ctx)
	if err != nil {
		return floor, ours, nil, err
	}
	item, err := s.Endless(ctx)
	if err != nil {
		return floor, ours, nil, err
	}
	w := &whole{server: s, paths: &paths{server: s, item: item}}
	if err := w.paths.fetch(ctx, 1); err != nil {
		return floor, ours, nil, err
	}
	said, err := capture(ctx, s, rushTarget+w.paths.path(0), "", nil)
	if err != nil {
		return floor, ours, nil, err
	}
	if said.Status != http.StatusAccepted {
		return floor, ours, nil, fmt.Errorf("a rush answers %d: %s", said.Status, said.Body)
	}
	w.last = make([]atomic.Int64, manyConns)
	floor, ours, closeSides, err = besideBare(ctx, rig, s, said, manyConns, play{request: w.request, answer: w.judge}, nil)
	if err != nil {
		return floor, ours, closeSides, err
	}
	oursWork := ours.Work
	ours.Prepare, ours.Check = w.paths.fetch, w.spotCheck
	ours.Work = func(ctx context.Context, n int) (Sample, error) {
		w.begin()
		began := time.Now()
		sample, err := oursWork(ctx, n)
		if err != nil {
			return sample, err
		}
		if err := w.awaitLast(ctx); err != nil {
			return sample, err
		}
		sample.Took = time.Since(began)
		sample.Figures[figureHot] = float64(w.hot.Load())
		return sample, nil
	}
	return floor, ours, closeSides, nil
}

// whole is a round of the whole way.
type whole struct {
	server *Server
	paths  *paths
	hot    atomic.Int64
	last   []atomic.Int64 // the last attempt that each connection was granted, −1 for none
}

func (w *whole) begin() {
	w.hot.Store(0)
	for i := range w.last {
		w.last[i].Store(-1)
	}
}

// request sends each path once in a round of ours. The floor, which looks at
// none, gets whichever are there in turn.
func (w *whole) request(b []byte, i int) []byte {
	return post(b, w.server.Addr, rushTarget+w.paths.path(i%len(w.paths.all)))
}

func (w *whole) judge(i, conn int, resp *wire.Response) error {
	switch resp.Status {
	case http.StatusAccepted:
		w.last[conn].Store(int64(i))
		return nil
	case http.StatusTooManyRequests:
		w.hot.Add(1)
		return errAgain
	default:
		return unexpected(resp, http.StatusAccepted)
	}
}

// awaitLast returns when the last order of every connection is there. The writer
// takes an item's grants in their order, so the others are there as well.
func (w *whole) awaitLast(ctx context.Context) error {
	var last []int
	for i := range w.last {
		if at := w.last[i].Load(); at >= 0 {
			last = append(last, int(at))
		}
	}
	return w.await(ctx, last)
}

// spotCheck proves that for a spread of a round's attempts.
func (w *whole) spotCheck(ctx context.Context, n int) error {
	var some []int
	for i := 0; i < n; i += max(1, n/spotChecks) {
		some = append(some, i)
	}
	return w.await(ctx, some)
}

// await asks for the orders of attempts until each of them has been written.
func (w *whole) await(ctx context.Context, attempts []int) error {
	conn, err := wire.Dial(w.server.Addr, clientTimeout)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var req []byte
	var resp wire.Response
	for _, i := range attempts {
		req = wire.AppendRequest(req[:0], http.MethodGet, w.server.Addr,
			"/api/v1/orders/"+string(w.paths.all[i].number[:]), w.paths.crowd.tokens[i], nil)
		for {
			if err := conn.Do(req, &resp); err != nil {
				return err
			}
			if resp.Status != http.StatusOK {
				return unexpected(&resp, http.StatusOK)
			}
			if bytes.Contains(resp.Body, []byte(`"status":"pending_payment"`)) {
				break
			}
			if !bytes.Contains(resp.Body, []byte(`"status":"queued"`)) {
				return fmt.Errorf("a granted attempt became %s", resp.Body)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pollPause):
			}
		}
	}
	return nil
}
