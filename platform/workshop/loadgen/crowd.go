package loadgen

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/identity/humancheck"
)

// Crowd is many shoppers who compete for the same few items, small enough for
// ten million of them: some 200 bytes each, and no goroutine. Not safe for
// concurrent use; each method works on all of the crowd's connections.
type Crowd struct {
	client   *client
	conns    int
	item     int64
	token    func(user int64) (string, error)
	base     time.Time // the origin of the shoppers' times
	shoppers []shopper

	door    *door        // the checks before they get paths
	done    atomic.Int64 // shoppers that have finished the current phase
	tally   *tally
	sockets sockets      // those of the first shoppers
	patient bool         // they send attempts again that were not taken yet
	heard   atomic.Int64 // when one of them last had an answer, since base
}

// CrowdConfig configures a crowd.
type CrowdConfig struct {
	BaseURL string // http://127.0.0.1:8080
	// Others are addresses of further instances of the shop: the connections for paths, rushes and polls are spread over all.
	Others []string
	ItemID int64
	// Shoppers is how many distinct users rush, 1 to 10 million.
	Shoppers int
	// FirstUser is the id of the first shopper; the others follow it.
	FirstUser int64
	// Connections is how many HTTP connections fire in parallel. 256 keeps two
	// cores busy and is what a reverse proxy would open to the server.
	Connections int
	// Token mints the access token of a user.
	Token func(user int64) (string, error)
}

// shopper is one user's attempt. The place in the crowd determines the user.
type shopper struct {
	path     string        // the credential; empty until fetched
	no       ids.ID        // the path's, or the one that the answer named instead
	sent     time.Duration // the first send of the attempt, since the crowd's base
	answered time.Duration
	answer   string // its code; empty until answered
	trail    *trail // for shoppers in line or with a socket; otherwise nil
}

// NewCrowd creates shoppers.
func NewCrowd(cfg CrowdConfig) *Crowd {
	return &Crowd{
		client: newClient(cfg.BaseURL, cfg.Connections, cfg.Others...), conns: cfg.Connections, item: cfg.ItemID,
		token: func(user int64) (string, error) { return cfg.Token(cfg.FirstUser + user) },
		base:  time.Now(), shoppers: make([]shopper, cfg.Shoppers), door: newDoor(false, false), tally: newTally(),
	}
}

// Repeat returns a crowd of n shoppers who send these shoppers' attempts in turn,
// to the servers at the addresses. They do not fetch paths themselves.
func (c *Crowd) Repeat(n int, baseURL string, others ...string) *Crowd {
	r := NewCrowd(CrowdConfig{BaseURL: baseURL, Others: others, ItemID: c.item, Shoppers: n, Connections: c.conns})
	r.token = func(i int64) (string, error) { return c.token(i % int64(len(c.shoppers))) }
	for i := range r.shoppers {
		s := &c.shoppers[i%len(c.shoppers)]
		r.shoppers[i].path, r.shoppers[i].no = s.path, s.no
	}
	return r
}

// Close closes the sockets and net/http's kept connections.
func (c *Crowd) Close() {
	c.sockets.close()
	c.client.http.CloseIdleConnections()
}

// RushTarget is the target of the i-th shopper's attempt.
func (c *Crowd) RushTarget(i int) string { return rushTarget(c.shoppers[i].path) }

// Fetched is the result of fetching paths.
type Fetched struct {
	Issued    int
	Refused   map[string]int64 // by code
	Took      Latency          // for each path, refused or not
	PerSecond float64          // issued and refused
}

// FetchPaths fetches a rush path for every shopper without one. It stops at the
// end of ctx; shoppers still without a path request one when firing.
func (c *Crowd) FetchPaths(ctx context.Context) Fetched {
	var mu sync.Mutex
	f := Fetched{Refused: map[string]int64{}}
	began, all := time.Now(), histogram()
	c.each(ctx, len(c.shoppers), func(w *hand, i int) {
		if c.shoppers[i].path != "" {
			return
		}
		sent := time.Now()
		code, err := c.fetchPath(ctx, w, i)
		took := time.Since(sent)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			record(all, took)
		}
		switch {
		case err == nil && code == "":
			f.Issued++
			c.done.Add(1)
		case ctx.Err() != nil:
		case err != nil:
			f.Refused[answerNone]++
		default:
			f.Refused[code]++
		}
	})
	f.Took, f.PerSecond = summarize(all), float64(all.TotalCount())/max(time.Since(began).Seconds(), 1e-9)
	return f
}

// oneUnit is what each shopper asks for.
var oneUnit = []byte(`{"quantity":1}`)

// fetchPath fetches one shopper's path; code says why there is none.
func (c *Crowd) fetchPath(ctx context.Context, w *hand, i int) (code string, err error) {
	token, err := c.token(int64(i))
	if err != nil {
		return "", err
	}
	target := itemTarget(c.item, "/rush-path")
	if c.door.worksForPaths() {
		w.resp, err = c.doProved(ctx, humancheck.PurposeRush, target, token, oneUnit)
	} else {
		w.resp, err = w.link.do(post, target, token, oneUnit)
	}
	if err != nil || !w.resp.ok() {
		return string(w.resp.code()), err
	}
	path, okPath := textMember(w.resp.body, `"path"`)
	number, okNo := textMember(w.resp.body, `"order_no"`)
	no, err := ids.Parse(string(number))
	if !okPath || !okNo || err != nil {
		return "", fmt.Errorf("loadgen: unreadable answer to %s: %.80q", target, w.resp.body)
	}
	s := &c.shoppers[i]
	s.path, s.no = w.keep(path), no
	return "", nil
}

// Volley is the result of one firing.
type Volley struct {
	Sent    int
	Elapsed time.Duration // from the first attempt to the last answer
	Answers map[string]int64
	Granted int64 // 202s
	Grant   Latency
	Refusal Latency
}

// PerSecond is attempts answered per second.
func (v *Volley) PerSecond() float64 { return float64(v.Sent) / max(v.Elapsed.Seconds(), 1e-9) }

// Fire sends every attempt once, as fast as the connections allow.
func (c *Crowd) Fire(ctx context.Context) Volley { return c.fire(ctx, firing{}) }

// FireAgain repeats the attempts whose last answer was the code. The same path is the
// same attempt, so no new paths are needed.
func (c *Crowd) FireAgain(ctx context.Context, code string) Volley {
	return c.fire(ctx, firing{which: func(s *shopper) bool { return s.answer == code }})
}

// firing configures a firing; the zero value sends every attempt as fast as possible.
type firing struct {
	which func(*shopper) bool // which shoppers send; nil means all
	// every is when the next one is due, whether or not the earlier ones are answered; 0
	// means as fast as possible. The times count from when an attempt was due, so that a
	// server that falls behind cannot hide it by keeping the connections busy.
	every time.Duration
	after func(w *hand, i int) // runs after each answer; may be nil
}

// fire sends attempts.
func (c *Crowd) fire(ctx context.Context, f firing) Volley {
	began := time.Since(c.base)
	c.heard.Store(int64(began))
	c.each(ctx, len(c.shoppers), func(w *hand, i int) {
		s := &c.shoppers[i]
		due := began + time.Duration(i)*f.every
		if f.which != nil && !f.which(s) {
			return
		}
		if wait := due - time.Since(c.base); wait > 0 && app.Sleep(ctx, wait) != nil {
			return
		}
		c.attempt(ctx, w, i)
		if f.every > 0 {
			s.sent = due
		}
		c.tally.add(s.answer)
		c.done.Add(1)
		if f.after != nil {
			f.after(w, i)
		}
	})
	v := Volley{Elapsed: time.Since(c.base) - began, Answers: map[string]int64{}}
	// Summed up afterwards: the shoppers store their times, so the connections
	// need no distributions of their own.
	grant, refusal := histogram(), histogram()
	for i := range c.shoppers {
		s := &c.shoppers[i]
		if s.sent < began { // not in this volley
			continue
		}
		v.Sent++
		v.Answers[s.answer]++
		if s.answer == answerQueued {
			record(grant, s.answered-s.sent)
		} else if isRefusal(s.answer) {
			record(refusal, s.answered-s.sent)
		}
	}
	v.Granted, v.Grant, v.Refusal = v.Answers[answerQueued], summarize(grant), summarize(refusal)
	return v
}

// attempt sends one shopper's rush. If there is no answer, or an unclear one, or if
// the item is being loaded, or if the shopper is in line, it sends the same path again,
// as a page would: it is the same attempt.
func (c *Crowd) attempt(ctx context.Context, w *hand, i int) {
	s := &c.shoppers[i]
	s.sent = time.Since(c.base)
	if s.path == "" {
		code, err := c.fetchPath(ctx, w, i)
		if err != nil {
			code = answerNone
		}
		if code != "" {
			s.answered, s.answer = time.Since(c.base), c.tally.name([]byte(pathRefused+code))
			return
		}
		s.sent = time.Since(c.base)
	}
	s.answer = answerNone
	for send := 0; send < attemptSends; send++ {
		var err error
		w.resp, err = w.link.do(post, rushTarget(s.path), "", nil)
		s.answered = time.Since(c.base)
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			if c.patient && c.resends(ctx, s) {
				send = -1
			}
			continue // the previous answer stands
		}
		c.heard.Store(int64(s.answered))
		if w.resp.ok() {
			s.answer = answerQueued
			return
		}
		code := w.resp.code()
		if string(code) == answerUnknown {
			s.answer = answerUnknown
			if send < attemptSends-1 {
				c.tally.trouble("an attempt was answered unknown and repeated") // the server counts each answer
			}
			continue
		}
		if string(code) == answerAlreadyBought {
			s.no = numberOr(s.no, w.resp.body)
		}
		s.answer = c.tally.name(code)
		if s.answer != answerFenced && s.answer != answerWaits || !c.patient || w.resp.retryAfter == 0 || s.answered-s.sent >= pathLife {
			return
		}
		c.tally.trouble("an attempt was answered " + s.answer + " and repeated") // as above
		if app.Sleep(ctx, w.resp.retryAfter) != nil {
			return
		}
		send = -1 // nothing was taken
	}
}

// resends pauses a shopper whom nothing answers, and reports whether to send the path
// again, as a page does: until an address has moved to another machine. From a server
// that has answered none of them for longer, shoppers turn away at once.
func (c *Crowd) resends(ctx context.Context, s *shopper) bool {
	silent := s.answered - time.Duration(c.heard.Load())
	return silent < addressMoves && s.answered-s.sent < pathLife && app.Sleep(ctx, resendPause) == nil
}

const (
	addressMoves = 6 * time.Second        // three times what keepalived's example takes
	resendPause  = 250 * time.Millisecond // a page's first one is a little longer
)

// numberOr returns the number that an answer names, no if it names none.
func numberOr(no ids.ID, body []byte) ids.ID {
	text, _ := textMember(body, `"order_no"`)
	if named, err := ids.Parse(string(text)); err == nil {
		return named
	}
	return no
}

// attemptSends is how many times one attempt is sent before its outcome is left
// to polling.
const attemptSends = 3

// hand is the state of one connection's goroutine.
type hand struct {
	link *link
	resp answer
	room strings.Builder
}

// keepChunkBytes is the allocation size for stored paths. Separate allocations
// would take a quarter more memory and give the garbage collector a million
// more objects.
const keepChunkBytes = 64 << 10

// keep returns a permanent copy of b.
func (w *hand) keep(b []byte) string {
	if w.room.Cap()-w.room.Len() < len(b) {
		w.room = strings.Builder{}
		w.room.Grow(max(keepChunkBytes, len(b)))
	}
	from := w.room.Len()
	w.room.Write(b)
	return w.room.String()[from:]
}

// each runs fn for every i below n, on all of the crowd's connections.
func (c *Crowd) each(ctx context.Context, n int, fn func(w *hand, i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(c.conns, n) {
		group.Go(func() {
			w := &hand{link: c.client.newLink(ctx)}
			defer w.link.close()
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return
				}
				fn(w, int(i))
			}
		})
	}
	group.Wait()
}
