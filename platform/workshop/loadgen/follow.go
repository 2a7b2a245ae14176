package loadgen

import (
	"context"
	"net/http"
	"sync"
	"time"
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
	// mostFollowed is how many shoppers are followed at a time, each in 7 KiB of memory.
	// When a server dies, every shopper is left to ask for the order: those beyond the
	// bound wait in a list, which is never asked about unless the server comes back.
	mostFollowed = 50_000
	// pollers is how many connections poll, and how many winners pay, concurrently.
	// Each poll takes a millisecond, so they manage ten thousand a second.
	pollers = 32
)

// followers follow every shopper in line, each in a goroutine of its own, over
// a few connections.
type followers struct {
	run     *run
	ctx     context.Context // the followers' lifetime
	cancel  context.CancelFunc
	links   chan *link // those that no poll uses
	payers  chan struct{}
	winners sync.WaitGroup // those still followed or waiting

	mu      sync.Mutex
	at      int      // those followed now
	waiting []*trail // for a place, the next one first
}

func (r *run) startFollowers(ctx context.Context) *followers {
	f := &followers{run: r, links: make(chan *link, pollers), payers: make(chan struct{}, pollers)}
	f.ctx, f.cancel = context.WithCancel(ctx)
	for range min(pollers, r.cfg.Connections) {
		f.links <- r.client.newLink(f.ctx) //nolint:contextcheck // derived from ctx above
	}
	return f
}

// add follows a winner, now or when another one needs no more following. It never
// blocks: the rush must end also when no follower does.
func (f *followers) add(t *trail) {
	t.silent = true // until the first poll
	f.winners.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == f.run.cfg.followed {
		f.waiting = append(f.waiting, t)
		return
	}
	f.at++
	go func() {
		for next := t; next != nil; next = f.next() {
			f.follow(next)
			f.winners.Done()
		}
	}()
}

// next takes the place of a follower that is done over to a winner who waits, or
// gives the place up.
func (f *followers) next() *trail {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		f.at--
		return nil
	}
	t := f.waiting[0]
	f.waiting = f.waiting[1:]
	return t
}

// end stops the followers. No winner may be added afterwards.
func (f *followers) end() {
	f.cancel()
	f.winners.Wait()
	for range len(f.links) {
		(<-f.links).close()
	}
}

// follow polls for a winner's order, is woken by pushes, and lets the winner pay,
// until nothing more is to come or the followers end.
func (f *followers) follow(t *trail) {
	var paid bool
	var pause time.Duration
	for f.ctx.Err() == nil {
		switch status, _, _ := t.state(); {
		case status == statusPending && t.pays && !paid:
			if paid = f.pay(t); !paid {
				return
			}
			pause = 0
		case status != "" && (status != statusPending || !paid):
			f.run.settled.Add(1)
			return
		}
		switch {
		case pause == 0 && (t.eager || paid):
			pause = firstPoll
		case pause == 0:
			pause = 2 * maxPoll
		case pause < maxPoll:
			pause = min(2*pause, maxPoll)
		}
		select {
		case <-f.ctx.Done():
			return
		case <-t.wake:
		case <-time.After(pause):
			pause = f.poll(t, pause)
		}
	}
}

// pay lets a winner pay when fewer than pollers do.
func (f *followers) pay(t *trail) bool {
	select {
	case <-f.ctx.Done():
		return false
	case f.payers <- struct{}{}:
	}
	paid := f.run.pay(f.ctx, t.shopper)
	<-f.payers
	if !paid {
		f.run.settled.Add(1)
	}
	return paid
}

// poll asks the server once when a connection is free, records the answer, and
// returns the pause that the server wants if the winner waits long already.
func (f *followers) poll(t *trail, pause time.Duration) time.Duration {
	r, s := f.run, &f.run.shoppers[t.shopper]
	token, err := r.token(int64(t.shopper))
	if err != nil {
		return pause // the token was already minted for the path, so this cannot fail
	}
	var l *link
	select {
	case <-f.ctx.Done():
		return pause
	case l = <-f.links:
	}
	defer func() { f.links <- l }()
	a, err := l.do(get, "/api/v1/orders/"+s.no.String(), token, nil)
	t.silent = err != nil || a.status >= http.StatusInternalServerError
	if t.silent {
		return pause
	}
	if !a.ok() {
		if string(a.code()) == "not-entered" {
			if s.answer == answerQueued { // otherwise the attempt never arrived, which is a valid end
				r.tally.violate(s.no.String(), "was answered 202 and is no longer known")
			}
			t.leave()
		}
		return pause
	}
	status, _ := textMember(a.body, `"status"`)
	if string(status) != answerQueued {
		t.heard(string(status), false, time.Since(r.base))
		return pause
	}
	if position, told := numberMember(a.body, `"position"`); told && t.place(position) {
		r.tally.violate(s.no.String(), "moved back in line between two polls")
	}
	if asked, ok := numberMember(a.body, `"poll_after_ms"`); ok && pause >= maxPoll {
		pause = max(time.Duration(asked)*time.Millisecond, maxPoll)
	}
	return pause
}

// pay starts a payment and presses the bank's button; false if that failed.
func (c *Crowd) pay(ctx context.Context, i int) bool {
	token, err := c.token(int64(i))
	if err != nil {
		return false
	}
	var p struct {
		PayURL string `json:"pay_url"`
		QRCode string `json:"qr_code"` // where a company is practised with, it leads to a page too
	}
	if err := c.client.call(ctx, http.MethodPost, "/api/v1/orders/"+c.shoppers[i].no.String()+"/payments", token, map[string]string{}, &p); err != nil {
		c.tally.trouble("payment: " + codeOf(err))
		return false
	}
	page := p.PayURL + p.QRCode // one of them
	if page == "" {
		return true // it cost nothing
	}
	// The button on the page that a shopper's browser would open.
	if err := c.client.call(ctx, http.MethodPost, page, "", map[string]string{"action": "pay"}, nil); err != nil {
		c.tally.trouble("bank: " + codeOf(err))
		return false
	}
	return true
}
