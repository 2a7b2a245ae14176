package rush

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/seckill/catalogue"
)

const (
	// holdFor is the longest that an attempt waits in its request for its turn. Pages
	// give up on an answer after ten seconds, proxies after sixty.
	holdFor = 3 * time.Second
	// mostTurns bounds the line whatever the rate; a turn takes Redis some 100 bytes.
	mostTurns = 1_000_000
	// shortStep bounds the calls to Redis for one item to 50 a second.
	shortStep = 20 * time.Millisecond
	// longStep is how soon a new rate counts for attempts that wait.
	longStep = 100 * time.Millisecond
	// idleStep is how often turns are counted while none of them waits here: turns.lua
	// takes a longer silence for an outage.
	idleStep = time.Second
)

// pacer lets the attempts for an item with an admission rate into its lane, evenly and
// in the order of their users' turns. A turn is a number that Redis gives a user once,
// and the turns come at the rate, by Redis's clock: so the rate is that of all instances
// together, and a place in line outlives the request, the path and the instance. It is
// used up by a decision against the attempt; a turn that is missed may be taken for a
// minute more.
//
// An attempt whose turn comes within holdFor waits in its request. Others are told
// their place and the time, and when to come again.
//
// One goroutine serves an item, from its first attempt until the rate is removed or the
// lane ends. The attempts that it has taken are its own, in order.
type pacer struct {
	lane  *lane
	turns turns
	wake  chan struct{} // capacity 1

	ahead  atomic.Int64 // turns still to come, on all instances, when they were last counted
	passed atomic.Int64 // attempts that this instance let into the lane

	mu      sync.Mutex
	arrived []*attempt // up to the lane's capacity
	used    []int64    // users whose turns are used up, as many
	running bool
	ended   bool

	waiting []*attempt // the goroutine's, up to the lane's capacity
}

// enter takes an attempt, and starts the goroutine if needed.
func (p *pacer) enter(a *attempt) (outcome, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended:
		return outDraining, false
	case len(p.arrived) >= p.lane.line.cfg.LaneCapacity:
		return outTooHot, false
	}
	p.arrived = append(p.arrived, a)
	if !p.running {
		p.running = true
		p.lane.line.workers.Go(p.run)
	}
	app.Kick(p.wake)
	return outNone, true
}

// decided notes the outcome of an attempt that had a turn. One that took a unit leaves
// the turn, so that sending it again, to any instance, is answered at once.
func (p *pacer) decided(user int64, o outcome) {
	switch o {
	case outSoldOut, outAllHeld, outNotEnough, outOverLimit:
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running && len(p.used) < p.lane.line.cfg.LaneCapacity {
		p.used = append(p.used, user)
	}
}

func (p *pacer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	app.Kick(p.wake)
}

func (p *pacer) run() {
	for next, goes := p.step(); goes; next, goes = p.step() {
		<-time.After(min(next, shortStep)) // attempts collect meanwhile
		if next > shortStep {
			select {
			case <-p.wake:
			case <-time.After(next - shortStep):
			}
		}
	}
}

// step takes what has arrived and lets the attempts whose turns have come into the lane.
// It returns when the next step is due, or false when none is.
func (p *pacer) step() (next time.Duration, goes bool) {
	l := p.lane
	item, ok := l.line.catalogue.Item(l.item)
	arrived, used := p.take()
	switch {
	case !ok || !item.OnSale:
		return 0, p.refuse(arrived, outEnded)
	case l.hasEnded():
		return 0, p.refuse(arrived, outDraining)
	case item.Admission == nil:
		return p.open(arrived)
	}
	p.waiting, arrived = p.sift(p.waiting), p.sift(arrived)
	if len(p.waiting)+len(arrived)+len(used) == 0 && p.ahead.Load() == 0 {
		return idleStep, true
	}
	// While the item is paused no turn comes: those that came could not be used, and
	// their shoppers would all come at once when it is resumed.
	rate, early := *item.Admission, outWaitTurn
	if item.Paused {
		rate, early = 0, outPaused
	}
	places := p.places(item)
	most := places
	if rate > 0 {
		places = min(places, turnsIn(item.ClosesAt.Sub(l.line.clock.Now()), rate))
		most = min(places, turnsIn(PathLifetime, rate))
	}
	issued, reached, err := p.turns.count(context.Background(), rate, most, used, arrived)
	if err != nil {
		p.warn("counting turns failed", err)
		answerAll(arrived, verdict{outcome: outUnavailable})
		answerAll(p.waiting, verdict{outcome: outUnavailable})
		p.waiting = nil
		return shortStep, true
	}
	p.ahead.Store(max(0, issued-reached))
	for _, a := range arrived {
		if a.turn == 0 {
			a.answer(verdict{outcome: outTooHot})
			continue
		}
		p.waiting = append(p.waiting, a)
	}
	slices.SortStableFunc(p.waiting, func(a, b *attempt) int { return cmp.Compare(a.turn, b.turn) })
	p.pass(func(a *attempt) bool { return a.turn <= reached })
	held := 0
	p.waiting = slices.DeleteFunc(p.waiting, func(a *attempt) bool {
		v, ahead := verdict{}, a.turn-reached
		wait := turnIn(ahead, rate)
		switch {
		case a.turn > issued: // Redis has lost the line
			v.outcome = outUnavailable
		case ahead > places:
			v.outcome = outTooHot
		case ahead > 0 && (wait == 0 || wait > holdFor || held >= l.line.cfg.LaneCapacity):
			v = verdict{outcome: early, position: ahead, wait: wait}
		default:
			held++
			return false
		}
		a.answer(v)
		return true
	})
	return p.due(reached, rate), true
}

// take takes a batch of what has arrived.
func (p *pacer) take() (arrived []*attempt, used []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	arrived, p.arrived = cut(p.arrived)
	used, p.used = cut(p.used)
	return arrived, used
}

func cut[T any](all []T) (batch, rest []T) {
	n := min(len(all), inventory.MaxBatch)
	return slices.Clone(all[:n]), slices.Delete(all, 0, n)
}

// refuse answers everyone, because the item or the lane has ended. It reports whether
// more have arrived.
func (p *pacer) refuse(arrived []*attempt, as outcome) (goes bool) {
	answerAll(p.waiting, verdict{outcome: as})
	answerAll(arrived, verdict{outcome: as})
	p.waiting = nil
	p.ahead.Store(0)
	return p.goesOn()
}

// goesOn ends the goroutine unless something has arrived.
func (p *pacer) goesOn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = len(p.arrived) > 0
	return p.running
}

// open lets everyone in, because the item has no rate any more.
func (p *pacer) open(arrived []*attempt) (next time.Duration, goes bool) {
	p.waiting = append(p.waiting, arrived...)
	p.pass(func(*attempt) bool { return true })
	if len(p.waiting) > 0 {
		return shortStep, true
	}
	p.ahead.Store(0)
	if err := p.turns.forget(context.Background()); err != nil {
		p.warn("forgetting turns failed, retrying", err)
		return idleStep, true
	}
	return 0, p.goesOn()
}

// sift answers the users refused by the flag, and returns the others.
func (p *pacer) sift(all []*attempt) []*attempt {
	return slices.DeleteFunc(all, func(a *attempt) bool {
		o, refused := p.lane.flag.refuses(a.user, a.no)
		if refused {
			a.answer(verdict{outcome: o})
		}
		return refused
	})
}

// pass lets the first attempts in line into the lane, those whose turns have come, as far
// as its queue has room.
func (p *pacer) pass(come func(*attempt) bool) {
	n := 0
	for _, a := range p.waiting {
		if !come(a) {
			break
		}
		o, in := p.lane.push(a)
		if o == outTooHot {
			break
		}
		if n++; in {
			p.passed.Add(1)
		} else {
			a.answer(verdict{outcome: o})
		}
	}
	p.waiting = slices.Delete(p.waiting, 0, n)
}

// places is how many turns may be ahead of one that is not hopeless: as many as may be
// in line for all the item's shards, as in lane.enter.
func (p *pacer) places(item *catalogue.Item) (places int64) {
	if item.Unlimited {
		return mostTurns
	}
	all, shards := *p.lane.shards.lanes.Load(), int64(p.lane.shards.known.Load().count)
	for shard := range shards {
		own := int64(-1) // nothing was decided yet, or units came back
		if shard < int64(len(all)) {
			own = all[shard].places.Load()
		}
		if own < 0 {
			own = max(int64(item.Total)*placesPerUnit/shards, int64(p.lane.line.cfg.MinPlaces))
		}
		places += own
	}
	return min(places, mostTurns)
}

// turnsIn is how many turns come within so long.
func turnsIn(d time.Duration, rate int32) int64 { return int64(d.Seconds() * float64(rate)) }

// turnIn is the time until the last of so many turns comes; 0 if none comes.
func turnIn(ahead int64, rate int32) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(ahead) * time.Second / time.Duration(rate)
}

// due is when to look again.
func (p *pacer) due(reached int64, rate int32) time.Duration {
	p.mu.Lock()
	more := len(p.arrived) > 0
	p.mu.Unlock()
	switch {
	case more:
		return 0
	case len(p.waiting) == 0:
		return idleStep
	}
	return min(max(turnIn(p.waiting[0].turn-reached, rate), shortStep), longStep)
}

func (p *pacer) warn(what string, err error) {
	p.lane.quiet.Do(func() {
		//nolint:sloglint // every caller passes a literal
		p.lane.line.log.Error(what, "item_id", p.lane.item, "error", err)
	})
}
