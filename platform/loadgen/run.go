package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// run is one play from beginning to end.
type run struct {
	cfg      Config
	client   *client
	shoppers []*shopper
	item     itemView
	offset   time.Duration // server's clock − ours

	phase   atomic.Value // string
	done    atomic.Int64 // steps of the phase
	total   atomic.Int64
	won     atomic.Int64 // winners so far, to choose those who pay
	settled atomic.Int64 // winners whose follower is through
	tally   *tally
	sockets *sockets
	winners sync.WaitGroup
}

// Run plays the shoppers and reports. An error means that the play could not be
// carried out; refusals and broken promises are in the report.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, client: newClient(cfg.BaseURL, cfg.Connections), tally: newTally()}
	r.phase.Store("look")
	defer r.client.http.CloseIdleConnections()
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	stopProgress := r.showProgress()
	defer stopProgress()

	r.shoppers = make([]*shopper, cfg.Shoppers)
	for i := range r.shoppers {
		r.shoppers[i] = &shopper{user: cfg.FirstUser + int64(i), position: untold, news: make(chan struct{}, 1)}
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer r.sockets.close()
	if err := r.waitForOpening(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	settleCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.fire(ctx, settleCtx, began); err != nil {
		return nil, err
	}
	fired := time.Now()
	r.settle(ctx, cancel)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("the play was interrupted: %w", err)
	}
	stopProgress()
	return r.report(began, fired), nil
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

// prepare mints tokens, opens sockets and fetches paths. Shoppers whose path
// did not come in time fetch it as they fire.
func (r *run) prepare(ctx context.Context) error {
	for _, s := range r.shoppers {
		token, err := r.cfg.Token(s.user)
		if err != nil {
			return err
		}
		s.token = token
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
	r.parallel(fetchCtx, func(s *shopper) {
		if err := r.fetchPath(fetchCtx, s); err == nil {
			r.done.Add(1)
		}
	})
	return ctx.Err()
}

func (r *run) untilOpening() time.Duration { return r.item.OpensAt.Sub(time.Now().Add(r.offset)) }

func (r *run) fetchPath(ctx context.Context, s *shopper) error {
	var p pathView
	err := r.client.call(ctx, http.MethodPost, "/api/v1/items/"+strconv.FormatInt(r.cfg.ItemID, 10)+"/rush-path",
		s.token, map[string]int{"quantity": r.cfg.Quantity}, &p)
	if err != nil {
		return err
	}
	s.path, s.no = p.Path, p.OrderNo
	return nil
}

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

// fire sends every attempt once and starts a follower for every winner.
func (r *run) fire(ctx, followCtx context.Context, began time.Time) error {
	r.begin("rush", len(r.shoppers))
	var limiter *rate.Limiter
	if r.cfg.Rate > 0 {
		limiter = rate.NewLimiter(rate.Limit(r.cfg.Rate), max(1, int(r.cfg.Rate/100)))
	}
	r.parallel(ctx, func(s *shopper) {
		if limiter != nil && limiter.Wait(ctx) != nil {
			return
		}
		r.attempt(ctx, s)
		r.tally.add(s.answer, s.answered.Sub(began))
		r.done.Add(1)
		if s.answer == answerQueued || s.answer == answerNone {
			s.pays = paysAt(int(r.won.Add(1)-1), r.cfg.PayShare)
			r.winners.Go(func() { r.follow(followCtx, s) })
		}
	})
	return ctx.Err()
}

// attempt sends one shopper's rush. Where no answer comes, or an unclear one,
// the same path is sent again, as a page would do: it is the same attempt.
func (r *run) attempt(ctx context.Context, s *shopper) {
	s.sent = time.Now()
	if s.path == "" {
		if err := r.fetchPath(ctx, s); err != nil {
			s.answered, s.answer = time.Now(), pathRefused+codeOf(err)
			return
		}
		s.sent = time.Now()
	}
	for range attemptSends {
		a, err := r.client.do(ctx, http.MethodPost, "/api/v1/rush/"+s.path, "", nil)
		s.answered = time.Now()
		switch {
		case err != nil && ctx.Err() != nil:
			s.answer = answerNone
			return
		case err != nil:
			s.answer = answerNone
			continue
		case a.ok():
			s.answer = answerQueued
			s.position = positionOf(a.body)
			return
		case a.code == "unknown":
			s.answer = answerNone
			continue
		}
		s.answer = a.code
		return
	}
}

// attemptSends is how often one attempt is sent before its outcome is left to
// polling.
const attemptSends = 3

// parallel runs fn for every shopper on as many goroutines as connections.
func (r *run) parallel(ctx context.Context, fn func(*shopper)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(r.cfg.Connections, len(r.shoppers)) {
		group.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(r.shoppers)) {
					return
				}
				fn(r.shoppers[i])
			}
		})
	}
	group.Wait()
}

// settle waits for the followers, at most the configured time.
func (r *run) settle(ctx context.Context, cancel context.CancelFunc) {
	r.begin("settle", int(r.won.Load()))
	finished := make(chan struct{})
	go func() { r.winners.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(r.cfg.Settle):
	case <-ctx.Done():
	}
	cancel()
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
