package loadgen

import (
	"container/heap"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/platform/workshop/loadgen/wire"
)

const (
	// firstPoll is when an eager shopper asks first, and maxPoll how far apart the
	// questions grow before the shopper asks as the server told.
	firstPoll = 10 * time.Millisecond
	maxPoll   = 160 * time.Millisecond
	// eagerWinners is how many winners ask sooner than a page would, because the
	// tool measures when the order became visible; of those beyond, one in
	// eagerEvery does. If all did, a large sale would be measured under a load
	// that no shop's page makes.
	eagerWinners = 1000
	eagerEvery   = 100
	// pollers is how many connections ask at once. Each question takes a
	// millisecond, so they keep up with ten thousand a second.
	pollers = 32
	// newsPlaces is how many pushes may wait for a poller; beyond, it finds out at
	// its next question.
	newsPlaces = 1024
)

// followers polls for every shopper in line. A winner belongs to one poller.
type followers struct {
	ctx     context.Context //nolint:containedctx // the pollers' life
	cancel  context.CancelFunc
	pollers []*poller
	lines   []chan *trail // to the pollers
	next    atomic.Int64
	group   sync.WaitGroup // the pollers
	payers  errgroup.Group
	winners sync.WaitGroup // those who are not through
}

func (r *run) startFollowers(ctx context.Context) *followers {
	f := &followers{}
	f.ctx, f.cancel = context.WithCancel(ctx)
	f.payers.SetLimit(pollers)
	for range min(pollers, r.cfg.Connections) {
		//nolint:contextcheck // followers' own context is made of ctx right above
		p := &poller{run: r, winners: &f.winners, payers: &f.payers, link: r.client.newLink(f.ctx), news: make(chan *trail, newsPlaces), payments: make(chan payment)}
		f.lines, f.pollers = append(f.lines, p.news), append(f.pollers, p)
		f.group.Go(func() { p.work(f.ctx) })
	}
	return f
}

// add hands a winner to a poller. It waits when the poller has that many
// before it, which slows the crowd down rather than losing anybody.
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

// end stops the pollers. No winner may be added any more.
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
	link    link
	resp    wire.Response
	news    chan *trail // new winners, and those whom a push reached
	open    trails      // ordered by when to ask next
	known   map[*trail]bool
	// payments comes back from those that were started.
	payments chan payment
}

// work asks for its winners' orders, the one that is due first, and is woken by
// pushes and by payments that came to an end.
func (p *poller) work(ctx context.Context) {
	defer p.link.close()
	p.known = map[*trail]bool{}
	defer func() { p.winners.Add(-len(p.known)) }() // cut off: the report says so
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour // none to ask for: only news wake
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
			t := heap.Pop(&p.open).(*trail) //nolint:errcheck // the heap holds nothing else
			p.ask(t)
			p.step(ctx, t)
		}
	}
}

// dismiss lets go of winners that were handed over as the poller ended.
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

// hear takes in a new winner, or goes on with one whom a push told something.
func (p *poller) hear(ctx context.Context, t *trail) {
	if !p.known[t] {
		if t.due.IsZero() { // not one that was through already
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

// step looks what a winner waits for: an order, then the end of the payment.
func (p *poller) step(ctx context.Context, t *trail) {
	status, _, _ := t.state()
	switch {
	case t.paying: // what a push tells meanwhile is kept in the trail
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

// pay lets a winner pay beside the polling, which measures; when as many pay as
// may at once, after the next question.
func (p *poller) pay(ctx context.Context, t *trail) {
	t.paying = p.payers.TryGo(func() error {
		paid := p.run.pay(ctx, t)
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

// payment is how a winner's payment went.
type payment struct {
	trail *trail
	made  bool
}

// later plans the next question.
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
	t.due = time.Now() // marks it as through
	p.run.settled.Add(1)
	p.winners.Done()
}

// gone is the inner status of a number that is not in line: an end that no
// server tells.
const gone = "gone"

// ask polls once and notes what the server says.
func (p *poller) ask(t *trail) {
	r := p.run
	s := &r.shoppers[t.shopper]
	if t.token == "" {
		token, err := r.token(int64(t.shopper))
		if err != nil {
			return // minted before for the path, so it cannot fail now
		}
		t.token = token
	}
	err := p.link.do(get, "/api/v1/orders/"+s.no.String(), t.token, nil, &p.resp)
	t.silent = err != nil || p.resp.Status >= http.StatusInternalServerError
	if t.silent {
		return
	}
	if p.resp.Status >= http.StatusBadRequest {
		if string(codeOfAnswer(&p.resp)) == "not-entered" {
			if s.answer == idQueued { // else the attempt never arrived; that is an honest end
				r.tally.violate(s.no.String(), "was answered 202 and is not known any more")
			}
			t.mu.Lock()
			t.status = gone
			t.mu.Unlock()
		}
		return
	}
	status, _ := textMember(p.resp.Body, `"status"`)
	if string(status) != answerQueued {
		t.heard(string(status), false, time.Since(r.base))
		return
	}
	if position, told := numberMember(p.resp.Body, `"position"`); told && t.place(position) {
		r.tally.violate(s.no.String(), "rose in line between two polls")
	}
	if asked, ok := numberMember(p.resp.Body, `"poll_after_ms"`); ok && t.pause >= maxPoll {
		t.pause = max(time.Duration(asked)*time.Millisecond, maxPoll)
	}
}

// pay starts a payment and presses the bank's button; false when that was not
// possible.
func (r *run) pay(ctx context.Context, t *trail) bool {
	s := &r.shoppers[t.shopper]
	token, err := r.token(int64(t.shopper))
	if err != nil {
		return false
	}
	var p paymentView
	if err := r.client.call(ctx, http.MethodPost, "/api/v1/orders/"+s.no.String()+"/payments", token, map[string]string{}, &p); err != nil {
		r.tally.trouble("payment: " + codeOf(err))
		return false
	}
	// The button at the address that a shopper's browser would open.
	if err := r.client.call(ctx, http.MethodPost, p.PayURL, "", map[string]string{"action": "pay"}, nil); err != nil {
		r.tally.trouble("bank: " + codeOf(err))
		return false
	}
	return true
}

// trails is a heap by due.
type trails []*trail

func (h trails) Len() int           { return len(h) }
func (h trails) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h trails) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *trails) Push(x any)        { *h = append(*h, x.(*trail)) } //nolint:errcheck // the heap holds nothing else
func (h *trails) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
