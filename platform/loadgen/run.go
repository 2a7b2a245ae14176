package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// run is one play from beginning to end.
type run struct {
	cfg Config
	*Crowd
	item   itemView
	offset time.Duration // server's clock − ours

	phase     atomic.Value // string
	total     atomic.Int64
	won       atomic.Int64 // winners so far, to choose those who pay
	settled   atomic.Int64 // winners whom nobody needs to follow any more
	sockets   *sockets
	followers *followers
}

// Run plays the shoppers and reports. An error means that the play could not be
// carried out; refusals and broken promises are in the report.
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
		return nil, err
	}
	stopProgress := r.showProgress()
	defer stopProgress()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer r.sockets.close()
	if err := r.waitForOpening(ctx); err != nil {
		return nil, err
	}
	r.followers = r.startFollowers(ctx)
	defer r.followers.end()
	began := time.Since(r.base)
	volley, err := r.rush(ctx)
	if err != nil {
		return nil, err
	}
	r.settle(ctx)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("the play was interrupted: %w", err)
	}
	stopProgress()
	return r.report(began, volley), nil
}

// look reads the item once: it must exist, and its clock tells the opening.
func (r *run) look(ctx context.Context) error {
	sent := time.Now()
	if err := r.client.call(ctx, http.MethodGet, "/api/v1/items/"+strconv.FormatInt(r.cfg.ItemID, 10), "", nil, &r.item); err != nil {
		if codeOf(err) == "not-found" {
			return fmt.Errorf("there is no item %d at %s; GET /api/v1/sessions lists what is on sale", r.cfg.ItemID, r.cfg.BaseURL)
		}
		return fmt.Errorf("could not read item %d at %s; is the server running there? %w", r.cfg.ItemID, r.cfg.BaseURL, err)
	}
	trip := time.Since(sent)
	if !r.item.ServerTime.IsZero() {
		r.offset = r.item.ServerTime.Sub(sent.Add(trip / 2))
	}
	return nil
}

// prefetch bounds how long paths are fetched ahead: a path lives 120 s, and the
// first must still be fresh when the last shopper fires.
const prefetch = 60 * time.Second

// pathsFrom is how long before the opening the server issues paths.
const pathsFrom = 2 * time.Minute

// prepare opens sockets and fetches paths. Shoppers whose path did not come in
// time fetch it as they fire.
func (r *run) prepare(ctx context.Context) error {
	// A key that signs nothing is found out once and not by every shopper.
	if _, err := r.token(0); err != nil {
		return err
	}
	var err error
	if r.sockets, err = openSockets(ctx, r); err != nil {
		return err
	}
	opening := r.untilOpening()
	if wait := opening - pathsFrom; wait > 0 {
		r.begin("wait for paths", 0)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	r.begin("fetch paths", len(r.shoppers))
	fetchCtx, cancel := context.WithTimeout(ctx, max(r.untilOpening(), 0)+prefetch)
	defer cancel()
	r.FetchPaths(fetchCtx)
	return ctx.Err()
}

func (r *run) untilOpening() time.Duration { return r.item.OpensAt.Sub(time.Now().Add(r.offset)) }

// waitForOpening ends a moment after the opening by the server's clock. The
// margin is half a tick of common timers: nobody profits from being refused.
func (r *run) waitForOpening(ctx context.Context) error {
	wait := r.untilOpening() + 5*time.Millisecond
	if wait <= 0 {
		return nil
	}
	r.begin("wait for the opening", 0)
	return sleep(ctx, wait)
}

// rush sends every attempt once and has every winner followed.
func (r *run) rush(ctx context.Context) (Volley, error) {
	r.begin("rush", len(r.shoppers))
	f := firing{after: func(w *hand, i int) {
		s := &r.shoppers[i]
		if s.answer != idQueued && s.answer != idNone {
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
	return r.fire(ctx, f), ctx.Err()
}

// settle waits until nobody needs to be followed any more, at most the
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

func (r *run) begin(phase string, total int) {
	r.phase.Store(phase)
	r.done.Store(0)
	r.total.Store(int64(total))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errors.New("interrupted while waiting for the opening")
	case <-time.After(d):
		return nil
	}
}
