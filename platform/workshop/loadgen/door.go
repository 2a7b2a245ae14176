package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/platform/identity/humancheck"
	"stampede/platform/workshop/loadgen/wire"
)

// door is what an item asks of shoppers before it gives out rush paths. A crowd
// goes through it as pages do: it reserves where the session wants that, and does
// the work that the human check asks for.
type door struct {
	work    bool // a proof of work is asked for
	reserve bool // a reservation is asked for; the work is done for it then

	// solvers has a place for each core: more proofs at once would be done no
	// sooner, and those under way must not wait until their challenges expire.
	solvers chan struct{}

	mu         sync.Mutex
	worked     *hdrhistogram.Histogram // the time that each proof took
	difficulty int
	reserved   int64
	refused    map[string]int64 // of the reservations
	took       time.Duration    // for all that was done ahead of the rush
}

func newDoor(work, reserve bool) *door {
	return &door{
		work: work, reserve: reserve, solvers: make(chan struct{}, runtime.GOMAXPROCS(0)),
		worked: histogram(), refused: map[string]int64{},
	}
}

// worksForPaths reports whether each path costs a proof of work. Where there is a
// reservation it was done for that.
func (d *door) worksForPaths() bool { return d.work && !d.reserve }

// DoorReport is how a crowd got through the door. Reservations and proofs of work
// take their time before the rush and are in none of its figures.
type DoorReport struct {
	Seconds    float64          `json:"seconds"` // reservations, work and paths, as far as they were got ahead
	Reserved   int64            `json:"reserved"`
	Refused    map[string]int64 `json:"reservations_refused,omitempty"`
	Proofs     Latency          `json:"proofs_of_work_ms"` // how many, and how long each took on a core of this machine
	Difficulty int              `json:"difficulty,omitempty"`
}

// report is nil where nothing was asked for.
func (d *door) report() *DoorReport {
	if !d.work && !d.reserve {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return &DoorReport{d.took.Seconds(), d.reserved, d.refused, summarize(d.worked), d.difficulty}
}

// Reserve has every shopper reserve their item.
func (c *Crowd) Reserve(ctx context.Context) {
	c.each(ctx, len(c.shoppers), func(w *hand, i int) {
		code, err := c.reserveFor(ctx, w, i)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			code = answerNone
		}
		c.done.Add(1)
		c.door.mu.Lock()
		defer c.door.mu.Unlock()
		if code == "" {
			c.door.reserved++
		} else {
			c.door.refused[code]++
		}
	})
}

// reserveFor reserves for one shopper; code says why there is no reservation.
func (c *Crowd) reserveFor(ctx context.Context, w *hand, i int) (code string, err error) {
	token, err := c.token(int64(i))
	if err != nil {
		return "", err
	}
	target := itemTarget(c.item(i), "/reservation")
	if c.door.work {
		return c.doProved(ctx, humancheck.PurposeReservation, c.item(i), target, token, nil, &w.resp)
	}
	return refusedWith(&w.resp, w.link.do(post, target, token, nil, &w.resp))
}

// doProved sends a request together with a proof of work; code says why it was
// refused.
func (c *Crowd) doProved(ctx context.Context, purpose string, item int64, target, token string, body []byte, into *wire.Response) (code string, err error) {
	proof, code, err := c.prove(ctx, purpose, item, token)
	if code != "" || err != nil {
		return code, err
	}
	var document any
	if body != nil {
		document = json.RawMessage(body)
	}
	a, err := c.client.send(ctx, post, target, token, proof, document)
	*into = wire.Response{Status: a.status, Body: a.body}
	return refusedWith(into, err)
}

// prove gets a challenge and solves it. The challenge is fetched when a core is
// free for it, so that its lifetime does not pass in waiting.
func (c *Crowd) prove(ctx context.Context, purpose string, item int64, token string) (header, code string, err error) {
	select {
	case c.door.solvers <- struct{}{}:
		defer func() { <-c.door.solvers }()
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
	a, err := c.client.do(ctx, get, itemTarget(item, "/challenge?purpose="+purpose), token, nil)
	if err != nil || !a.ok() {
		return "", a.code, err
	}
	var asked humancheck.Challenge
	if err := json.Unmarshal(a.body, &asked); err != nil {
		return "", "", fmt.Errorf("loadgen: the challenge of item %d is unreadable: %w", item, err)
	}
	if asked.Kind != humancheck.Pow {
		return "", "human-check-" + string(asked.Kind), nil
	}
	began := time.Now()
	header, err = humancheck.Solve(ctx, asked.Challenge, asked.Difficulty)
	if err != nil {
		return "", "", err
	}
	c.door.mu.Lock()
	defer c.door.mu.Unlock()
	record(c.door.worked, time.Since(began))
	c.door.difficulty = asked.Difficulty
	return header, "", nil
}

// refusedWith is the code of an answer that said no; empty for a yes.
func refusedWith(resp *wire.Response, err error) (string, error) {
	if err != nil || resp.Status < http.StatusBadRequest {
		return "", err
	}
	return string(codeOfAnswer(resp)), nil
}

// itemTarget is an address below an item's.
func itemTarget(item int64, below string) string {
	return "/api/v1/items/" + strconv.FormatInt(item, 10) + below
}
