package loadgen

import (
	"container/heap"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// firstPoll is when an eager shopper polls first, and maxPoll is how long
	// its interval grows before it polls when the server says.
	firstPoll = 10 * time.Millisecond
	maxPoll   = 160 * time.Millisecond
	// eagerWinners is how many winners poll sooner than a page would, because
	// the tool measures when the order became visible; beyond them, one in
	// eagerEvery does. If all did, a large sale would be measured under a load
	// that no shop's page causes.
	eagerWinners = 1000
	eagerEvery   = 100
	// pollers is how many connections poll concurrently. Each poll takes a
	// millisecond, so they manage ten thousand a second.
	pollers = 32
	// newsPlaces is how many pushes may wait for a poller; beyond that, its
	// next poll finds out.
	newsPlaces = 1024
)

// followers polls for every shopper in line. Each winner belongs to one poller.
type followers struct {
	ctx     context.Context //nolint:containedctx // the pollers' lifetime
	cancel  context.CancelFunc
	pollers []*poller
	lines   []chan *trail // to the pollers
	next    atomic.Int64
	group   sync.WaitGroup // the pollers
	payers  errgroup.Group
	winners sync.WaitGroup // those still followed
}

func (r *run) startFollowers(ctx context.Context) *followers {
	f := &followers{}
	f.ctx, f.cancel = context.WithCancel(ctx)
	f.payers.SetLimit(pollers)
	for range min(pollers, r.cfg.Connections) {
		//nolint:contextcheck // followers' context is derived from ctx above
		p := &poller{run: r, winners: &f.winners, payers: &f.payers, link: r.client.newLink(f.ctx), news: make(chan *trail, newsPlaces), payments: make(chan payment)}
		f.lines, f.pollers = append(f.lines, p.news), append(f.pollers, p)
		f.group.Go(func() { p.work(f.ctx) })
	}
	return f
}

// add passes a winner to a poller. It blocks while the poller's queue is full,
// which slows the crowd down instead of losing winners.
func (f *followers) add(t *trail) {
	line := f.lines[int(f.next.Add(1))%len(f.lines)]
	t.mu.Lock()
	t.wake = line
	t.mu.Unlock()
	f.winners.Add(1)
	select {
	case line <- t:
	case <-f.ctx.Done():
		f.winners.Done()
	}
}

// end stops the pollers. No winner may be added afterwards.
func (f *followers) end() {
	f.cancel()
	f.group.Wait()
	_ = f.payers.Wait() // they return no errors
	for _, p := range f.pollers {
		p.dismiss()
	}
}

// poller follows its winners over one connection.
type poller struct {
	run     *run
	winners *sync.WaitGroup
	payers  *errgroup.Group
	link    *link
	news    chan *trail // new winners, and winners that got a push
	open    trails      // ordered by the next poll
	known   map[*trail]bool
	// payments receives the results of started payments.
	payments chan payment
}

// work polls for its winners' orders, the earliest due first, and is woken by
// pushes and finished payments.
func (p *poller) work(ctx context.Context) {
	defer p.link.close()
	p.known = map[*trail]bool{}
	defer func() { p.winners.Add(-len(p.known)) }() // interrupted: the report says so
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour // nothing to poll: only news wakes the poller
		if len(p.open) > 0 {
			wait = time.Until(p.open[0].due)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case t := <-p.news:
			p.hear(ctx, t)
		case done := <-p.payments:
			t := done.trail
			t.paying, t.paid, t.unpaid, t.pause = false, done.made, !done.made, 0
			p.step(ctx, t)
		case <-timer.C:
			if len(p.open) == 0 {
				continue
			}
			t := heap.Pop(&p.open).(*trail) //nolint:errcheck // the heap contains nothing else
			p.ask(t)
			p.step(ctx, t)
		}
	}
}

// dismiss releases winners that were added while the poller ended.
func (p *poller) dismiss() {
	for {
		select {
		case t := <-p.news:
			if !p.known[t] && t.due.IsZero() {
				p.known[t] = true
				p.winners.Done()
			}
		default:
			return
		}
	}
}

// hear accepts a new winner, or continues with one that got a push.
func (p *poller) hear(ctx context.Context, t *trail) {
	if !p.known[t] {
		if t.due.IsZero() { // not one that has already finished
			p.known[t] = true
			p.step(ctx, t)
		}
		return
	}
	for i, o := range p.open {
		if o == t {
			heap.Remove(&p.open, i)
			break
		}
	}
	p.step(ctx, t)
}

// step checks what a winner waits for: an order, then the end of the payment.
func (p *poller) step(ctx context.Context, t *trail) {
	status, _, _ := t.state()
	switch {
	case t.paying: // pushes that arrive meanwhile are kept in the trail
	case status == gone:
		p.finish(t)
	case status == "" || status == statusPending && t.paid:
		p.later(t)
	case status == statusPending && t.pays && !t.unpaid:
		p.pay(ctx, t)
	default:
		p.finish(t)
	}
}

// pay starts a winner's payment beside the polling, which measures; if the
// limit of concurrent payments is reached, it retries after the next poll.
func (p *poller) pay(ctx context.Context, t *trail) {
	t.paying = p.payers.TryGo(func() error {
		paid := p.run.pay(ctx, t.shopper)
		select {
		case p.payments <- payment{t, paid}:
		case <-ctx.Done():
		}
		return nil
	})
	if !t.paying {
		p.later(t)
	}
}

// payment is the result of a winner's payment.
type payment struct {
	trail *trail
	made  bool
}

// later schedules the next poll.
func (p *poller) later(t *trail) {
	switch {
	case t.pause == 0 && (t.eager || t.paid):
		t.pause = firstPoll
	case t.pause == 0:
		t.pause = 2 * maxPoll
	case t.pause < maxPoll:
		t.pause = min(2*t.pause, maxPoll)
	}
	t.due = time.Now().Add(t.pause)
	heap.Push(&p.open, t)
}

func (p *poller) finish(t *trail) {
	delete(p.known, t)
	t.due = time.Now() // marks it as finished
	p.run.settled.Add(1)
	p.winners.Done()
}

// gone is the internal status of a number that is not in line; no server sends it.
const gone = "gone"

// ask polls once and records the server's answer.
func (p *poller) ask(t *trail) {
	r := p.run
	s := &r.shoppers[t.shopper]
	if t.token == "" {
		token, err := r.token(int64(t.shopper))
		if err != nil {
			return // the token was already minted for the path, so this cannot fail
		}
		t.token = token
	}
	a, err := p.link.do(get, "/api/v1/orders/"+s.no.String(), t.token, nil)
	t.silent = err != nil || a.status >= http.StatusInternalServerError
	if t.silent {
		return
	}
	if !a.ok() {
		if string(a.code()) == "not-entered" {
			if s.answer == idQueued { // otherwise the attempt never arrived, which is a valid end
				r.tally.violate(s.no.String(), "was answered 202 and is no longer known")
			}
			t.mu.Lock()
			t.status = gone
			t.mu.Unlock()
		}
		return
	}
	status, _ := textMember(a.body, `"status"`)
	if string(status) != answerQueued {
		t.heard(string(status), false, time.Since(r.base))
		return
	}
	if position, told := numberMember(a.body, `"position"`); told && t.place(position) {
		r.tally.violate(s.no.String(), "moved back in line between two polls")
	}
	if asked, ok := numberMember(a.body, `"poll_after_ms"`); ok && t.pause >= maxPoll {
		t.pause = max(time.Duration(asked)*time.Millisecond, maxPoll)
	}
}

// trails is a heap by due.
type trails []*trail

func (h trails) Len() int           { return len(h) }
func (h trails) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h trails) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *trails) Push(x any)        { *h = append(*h, x.(*trail)) } //nolint:errcheck // the heap contains nothing else
func (h *trails) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
