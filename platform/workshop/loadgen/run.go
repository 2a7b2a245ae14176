// Package loadgen plays shoppers: over HTTP and WebSocket, as a page or an app
// would, against a server of which it knows only the URL and the signing key.
// It keeps a log of every answer that shoppers got, so that the books can be
// checked against it.
//
// A run has five phases. Door: if the item requires it, every shopper reserves
// and does the proof of work, before anything is measured; a check that a
// program cannot pass is reported in one sentence instead. Prepare: tokens are
// minted, sockets opened and rush paths fetched while the item has not opened
// yet. Fire: every shopper sends the attempt, at a rate or as fast as the
// connections allow. Follow: every winner polls and listens until the order
// exists, and the chosen share pays at the bank. Report: latencies, answers and
// inconsistencies.
//
// Requests sent by the thousand go through a link; planning, sockets and
// paying at the bank use ordinary clients. A [Crowd] is shoppers without
// sockets, payments and a progress bar, for custom measurements.
//
// One Run owns its shoppers; each is used by one goroutine at a time: first by
// a preparing worker, then by a firing one, then by its own follower. Reports
// from sockets go through a mutex of the shopper.
//
// # Size
//
// The package has more than 2,000 lines because all phases work on the same shoppers,
// and the report on the log that each phase writes.
package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"stampede/platform/base/app"
)

// run is one run from beginning to end.
type run struct {
	cfg Config
	*Crowd
	item   itemView
	offset time.Duration // server's clock − ours

	phase     atomic.Value // string
	total     atomic.Int64
	waits     atomic.Pointer[time.Time] // when a phase that only waits ends
	won       atomic.Int64              // winners so far, to choose the payers
	settled   atomic.Int64              // winners that need no more following
	fetched   Fetched
	followers *followers
}

// ErrInterrupted accompanies the report of the answers until ctx ended.
var ErrInterrupted = errors.New("the run was interrupted: the report covers the answers until then, and later outcomes were not checked")

// Run plays the shoppers and reports. An error without a report means that the
// run failed; refusals and broken promises are in the report. If ctx ends after
// the first attempt was sent, Run returns a report and ErrInterrupted: the
// answers so far can still be checked against the books.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, Crowd: NewCrowd(cfg.CrowdConfig)}
	r.patient = true
	r.phase.Store("look")
	defer r.Close()
	if err := r.look(ctx); err != nil {
		return nil, r.why(ctx, err)
	}
	stopProgress := r.showProgress(ctx)
	defer stopProgress()
	if err := r.prepare(ctx); err != nil {
		return nil, r.why(ctx, err)
	}
	if err := r.wait(ctx, "wait for the opening", r.until(r.item.OpensAt)+openingMargin); err != nil {
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

// pathLife is how long a path is valid.
const pathLife = 120 * time.Second

// prefetch bounds how long in advance paths are fetched: the first must still be valid
// when the last shopper fires.
const prefetch = pathLife / 2

// pathsFrom is how long before the opening the server issues paths.
const pathsFrom = 2 * time.Minute

// prepare goes through the door, opens sockets and fetches paths. Shoppers
// without a path by then fetch it when they fire.
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

// reserveMargin exceeds the error of our estimate of the server's clock:
// reserving is not a race.
const reserveMargin = time.Second

// reserve makes every shopper reserve once reservations are open. A shopper who
// already has a reservation gets the same answer again, even after reservations
// have closed.
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

// openingMargin is half a tick of common timers: too early an attempt is only refused.
const openingMargin = 5 * time.Millisecond

// rush sends every attempt once and follows every winner.
func (r *run) rush(ctx context.Context) Volley {
	r.begin("rush", len(r.shoppers))
	f := firing{after: func(w *hand, i int) {
		s := &r.shoppers[i]
		if !slices.Contains(leftToStatus, s.answer) {
			return
		}
		if s.trail == nil {
			s.trail = newTrail(i)
		}
		if position, ok := numberMember(w.resp.body, `"position"`); ok && s.answer == answerQueued {
			s.trail.place(position)
		}
		nth := int(r.won.Add(1) - 1)
		s.trail.pays, s.trail.eager = paysAt(nth, r.cfg.PayShare), nth < eagerWinners || nth%eagerEvery == 0
		r.followers.add(s.trail)
	}}
	if r.cfg.Rate > 0 {
		f.every = time.Duration(float64(time.Second) / r.cfg.Rate)
	}
	return r.fire(ctx, f)
}

// settle waits until no winner needs following any more, at most the configured time.
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

// ending is how a run ended.
type ending uint8

const (
	waitedOut ending = iota // every winner settled, or the wait timed out
	cutShort                // by the operator
	deserted                // the server no longer answers
)

// ending queries the server once more: if it went away, a broken promise cannot
// be proved.
func (r *run) ending(ctx context.Context) ending {
	if ctx.Err() != nil {
		return cutShort
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	a, err := r.client.do(ctx, http.MethodGet, itemTarget(r.cfg.ItemID, ""), "", "", nil)
	if err != nil || a.status >= http.StatusInternalServerError {
		return deserted
	}
	return waitedOut
}

// why returns the error that ended a run before the rush: the interrupt if ctx
// ended, not its consequences.
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

// wait runs a phase that only waits for the given time, if that is positive.
func (r *run) wait(ctx context.Context, phase string, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	r.begin(phase, 0)
	end := time.Now().Add(d)
	r.waits.Store(&end)
	return app.Sleep(ctx, d)
}
