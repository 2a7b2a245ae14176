package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"stampede/platform/base/app"
)

// run is one play from beginning to end.
type run struct {
	cfg Config
	*Crowd
	item   itemView
	offset time.Duration // server's clock − ours

	phase     atomic.Value // string
	total     atomic.Int64
	waits     atomic.Pointer[time.Time] // the end of a phase that only waits
	won       atomic.Int64              // winners so far, to choose those who pay
	settled   atomic.Int64              // winners who need not be followed any more
	fetched   Fetched
	followers *followers
}

// ErrInterrupted comes with the report of what was told until ctx ended.
var ErrInterrupted = errors.New("the play was interrupted: the report is of what shoppers were told until then, and nothing after it was looked at")

// Run plays the shoppers and reports. An error without a report means that the
// play could not be carried out; refusals and broken promises are in the report.
// When ctx ends after the first attempt was sent there are both, the error being
// ErrInterrupted: what shoppers were told by then can still be held against the
// books.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, Crowd: NewCrowd(CrowdConfig{
		BaseURL: cfg.BaseURL, Items: []int64{cfg.ItemID}, Shoppers: cfg.Shoppers, FirstUser: cfg.FirstUser,
		Quantity: cfg.Quantity, Connections: cfg.Connections, Token: cfg.Token,
	})}
	r.phase.Store("look")
	defer r.Close()
	if err := r.look(ctx); err != nil {
		return nil, r.why(ctx, err)
	}
	stopProgress := r.showProgress()
	defer stopProgress()
	if err := r.prepare(ctx); err != nil {
		return nil, r.why(ctx, err)
	}
	if err := r.waitForOpening(ctx); err != nil {
		return nil, r.why(ctx, err)
	}
	r.followers = r.startFollowers(ctx)
	defer r.followers.end()
	began := time.Since(r.base)
	volley := r.rush(ctx)
	r.settle(ctx)
	stopProgress()
	rep := r.report(began, volley, r.ending(ctx))
	if ctx.Err() != nil {
		return rep, ErrInterrupted
	}
	return rep, nil
}

// prefetch bounds how long paths are fetched ahead: a path lives 120 s, and the
// first must still be fresh when the last shopper fires.
const prefetch = 60 * time.Second

// pathsFrom is how long before the opening the server issues paths.
const pathsFrom = 2 * time.Minute

// prepare goes through the door, opens sockets and fetches paths. Shoppers whose
// path did not come in time fetch it as they fire.
func (r *run) prepare(ctx context.Context) error {
	if r.door.reserve {
		if err := r.reserve(ctx); err != nil {
			return err
		}
	}
	if err := r.wait(ctx, "wait for paths", r.until(r.item.OpensAt)-pathsFrom); err != nil {
		return err
	}
	// After the wait, which may be days: a socket does not outlive its token.
	sockets := r.cfg.Sockets
	if sockets < 0 {
		sockets = len(r.shoppers)
	}
	sockets = min(sockets, len(r.shoppers), MostSockets(r.conns))
	r.begin("open sockets", sockets)
	if err := r.Listen(ctx, sockets); err != nil {
		return err
	}
	phase := "fetch paths"
	if r.door.worksForPaths() {
		phase = "work for paths"
	}
	r.begin(phase, len(r.shoppers))
	fetchCtx, cancel := context.WithTimeout(ctx, max(r.until(r.item.OpensAt), 0)+prefetch)
	defer cancel()
	began := time.Now()
	r.fetched = r.FetchPaths(fetchCtx)
	r.door.took += time.Since(began)
	return ctx.Err()
}

// reserveMargin is more than our idea of the server's clock is off: reserving is no
// race.
const reserveMargin = time.Second

// reserve has every shopper reserve, once that is open. Who holds a reservation
// already gets the same answer again, also after it has closed.
func (r *run) reserve(ctx context.Context) error {
	if err := r.wait(ctx, "wait for the reservation", r.until(*r.item.ReserveFrom)+reserveMargin); err != nil {
		return err
	}
	if r.until(*r.item.ReserveUntil) < 0 {
		return nil
	}
	r.begin("reserve", len(r.shoppers))
	began := time.Now()
	r.Reserve(ctx)
	r.door.took = time.Since(began)
	return ctx.Err()
}

// openingMargin is half a tick of common timers: no shopper profits from being refused.
const openingMargin = 5 * time.Millisecond

// waitForOpening ends a moment after the opening by the server's clock.
func (r *run) waitForOpening(ctx context.Context) error {
	return r.wait(ctx, "wait for the opening", r.until(r.item.OpensAt)+openingMargin)
}

// rush sends every attempt once and has every winner followed.
func (r *run) rush(ctx context.Context) Volley {
	r.begin("rush", len(r.shoppers))
	f := firing{after: func(w *hand, i int) {
		s := &r.shoppers[i]
		if !s.answer.mayBeInLine() {
			return
		}
		if s.trail == nil {
			s.trail = newTrail(i)
		}
		if position, ok := numberMember(w.resp.Body, `"position"`); ok && s.answer == idQueued {
			s.trail.place(position)
		}
		nth := int(r.won.Add(1) - 1)
		s.trail.pays, s.trail.eager = paysAt(nth, r.cfg.PayShare), nth < eagerWinners || nth%eagerEvery == 0
		r.followers.add(s.trail)
	}}
	if r.cfg.Rate > 0 {
		// A burst of 10 ms: one attempt at a time cannot be timed finely enough for
		// tens of thousands a second.
		f.pace = rate.NewLimiter(rate.Limit(r.cfg.Rate), max(1, int(r.cfg.Rate/100)))
	}
	return r.fire(ctx, f)
}

// settle waits until no winner needs to be followed any more, at most the
// configured time.
func (r *run) settle(ctx context.Context) {
	r.begin("settle", int(r.won.Load()))
	finished := make(chan struct{})
	go func() { r.followers.winners.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(r.cfg.Settle):
	case <-ctx.Done():
	}
	r.followers.end()
	<-finished
}

// ending is how a play came to its end.
type ending uint8

const (
	waitedOut ending = iota // every winner settled, or the wait for it was over
	cutShort                // by the operator
	deserted                // the server does not answer any more
)

// ending asks the server once more: one that went away has broken no promise
// that is known.
func (r *run) ending(ctx context.Context) ending {
	if ctx.Err() != nil {
		return cutShort
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	a, err := r.client.do(ctx, http.MethodGet, itemTarget(r.cfg.ItemID, ""), "", nil)
	if err != nil || a.status >= http.StatusInternalServerError {
		return deserted
	}
	return waitedOut
}

// why is what ended a play before anything was rushed: where ctx did, not what broke
// because of it.
func (r *run) why(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("interrupted in the phase %q; nothing was rushed", r.snapshot().Phase)
}

func (r *run) begin(phase string, total int) {
	r.phase.Store(phase)
	r.done.Store(0)
	r.total.Store(int64(total))
	r.waits.Store(nil)
}

// wait is a phase of its own that takes so long, if that is positive.
func (r *run) wait(ctx context.Context, phase string, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	r.begin(phase, 0)
	end := time.Now().Add(d)
	r.waits.Store(&end)
	return app.Sleep(ctx, d)
}
