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
)

// door is what an item requires of shoppers before it issues rush paths. A
// crowd passes it as pages do: it reserves if the session requires that, and
// does the work that the human check demands.
type door struct {
	work    bool // a proof of work is required
	reserve bool // a reservation is required; the work is then done for it

	// solvers has a slot for each core: more concurrent proofs would finish no
	// sooner, and running ones must finish before their challenges expire.
	solvers chan struct{}

	mu         sync.Mutex
	worked     *hdrhistogram.Histogram // the duration of each proof
	difficulty int
	reserved   int64
	refused    map[string]int64 // of the reservations
	took       time.Duration    // for everything done ahead of the rush
}

func newDoor(work, reserve bool) *door {
	return &door{
		work: work, reserve: reserve, solvers: make(chan struct{}, runtime.GOMAXPROCS(0)),
		worked: histogram(), refused: map[string]int64{},
	}
}

// worksForPaths reports whether each path costs a proof of work. With a
// reservation the work was done for that.
func (d *door) worksForPaths() bool { return d.work && !d.reserve }

// DoorReport says how a crowd got through the door. Reservations and proofs of
// work happen before the rush and are not part of its figures.
type DoorReport struct {
	Seconds    float64          `json:"seconds"` // reservations, work and paths, as far as done in advance
	Reserved   int64            `json:"reserved"`
	Refused    map[string]int64 `json:"reservations_refused,omitempty"`
	Proofs     Latency          `json:"proofs_of_work_ms"` // how many, and how long each took on a core of this machine
	Difficulty int              `json:"difficulty,omitempty"`
}

// report returns nil if the item required nothing.
func (d *door) report() *DoorReport {
	if !d.work && !d.reserve {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return &DoorReport{d.took.Seconds(), d.reserved, d.refused, summarize(d.worked), d.difficulty}
}

// Reserve makes every shopper reserve their item.
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
	target := itemTarget(c.item, "/reservation")
	var a answer
	if c.door.work {
		a, err = c.doProved(ctx, humancheck.PurposeReservation, target, token, nil)
	} else {
		a, err = w.link.do(post, target, token, nil)
	}
	return string(a.code()), err
}

// doProved sends a request together with a proof of work, for which it needs a
// challenge. It fetches that when a core is free, so that the challenge does not
// expire while waiting.
func (c *Crowd) doProved(ctx context.Context, purpose, target, token string, body []byte) (answer, error) {
	select {
	case c.door.solvers <- struct{}{}:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	a, header, err := c.prove(ctx, purpose, token)
	<-c.door.solvers
	if err != nil || !a.ok() {
		return a, err
	}
	var document any
	if body != nil {
		document = json.RawMessage(body)
	}
	return c.client.do(ctx, post, target, token, header, document)
}

// prove gets a challenge and solves it. A challenge that no program solves is a
// refusal.
func (c *Crowd) prove(ctx context.Context, purpose, token string) (a answer, header string, err error) {
	a, err = c.client.do(ctx, get, itemTarget(c.item, "/challenge?purpose="+purpose), token, "", nil)
	if err != nil || !a.ok() {
		return a, "", err
	}
	var asked humancheck.Challenge
	if err := json.Unmarshal(a.body, &asked); err != nil {
		return a, "", fmt.Errorf("loadgen: the challenge of item %d is unreadable: %w", c.item, err)
	}
	if asked.Kind != humancheck.Pow {
		return answer{status: http.StatusForbidden, body: fmt.Appendf(nil, `{"code":"human-check-%s"}`, asked.Kind)}, "", nil
	}
	began := time.Now()
	header, err = humancheck.Solve(ctx, asked.Challenge, asked.Difficulty)
	if err != nil {
		return a, "", err
	}
	c.door.mu.Lock()
	defer c.door.mu.Unlock()
	record(c.door.worked, time.Since(began))
	c.door.difficulty = asked.Difficulty
	return a, header, nil
}

// itemTarget returns a target below an item's.
func itemTarget(item int64, below string) string {
	return "/api/v1/items/" + strconv.FormatInt(item, 10) + below
}
