package rush

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/base/tracing"
)

// attempt is one request that waits in a lane. The handler that made it owns
// it: it puts it into the lane and reads the verdict only after done, and the
// lane answers every attempt it took exactly once. So attempts can be pooled
// although two goroutines use them.
type attempt struct {
	ctx      context.Context // the client's; its end means that nobody waits any more
	span     tracing.Span    // zero unless this attempt is one of those that are followed
	user     int64
	quantity int32
	within   int32 // the payment window in seconds; 0 for the item's
	no       ids.ID
	verdict  verdict
	done     chan struct{} // one place, so that the lane never waits for a handler
}

// verdict is what the lane says about an attempt.
type verdict struct {
	outcome  outcome
	position int64         // outQueued, outRepeated
	settled  bool          // outRepeated: ask for the order, the number is not in line any more
	finished bool          // outRepeated: the number has had its grant and has lost it again
	other    ids.ID        // outAlreadyBought
	status   string        // outRepeated: what became of the number, if that is known already
	wait     time.Duration // Retry-After where it differs from the refusal's own
}

var attempts = sync.Pool{New: func() any { return &attempt{done: make(chan struct{}, 1)} }}

func (a *attempt) answer(v verdict) {
	a.verdict = v
	a.done <- struct{}{}
}

// lane is the line in front of one item on this instance. Two workers turn what
// waits into batches; there is no timer: a batch is what gathered while the
// batches before it were under way.
//
//   - Handlers send to queue under mu's read lock; end closes it under the write
//     lock, so nothing is sent to a closed channel and nothing is left in it.
//   - A full queue refuses. Nobody blocks on sending.
//   - The atomics are hints from the last decision, for refusing early. Whoever
//     is let in by a stale hint is judged by Redis.
type lane struct {
	item int64
	line *lanes
	flag *soldOut

	// deciding is held by the worker that gathers a batch and asks Redis.
	deciding sync.Mutex

	mu    sync.RWMutex
	queue chan *attempt
	ended bool

	epoch    atomic.Int64 // the Load that the last decision was made under
	places   atomic.Int64 // how many may wait; below 0 for no bound but the queue's
	hotUntil atomic.Int64 // Unix nanoseconds; the writer lags until then
	limiter  atomic.Pointer[rate.Limiter]
	quiet    rate.Sometimes // so that a fault that meets every batch does not fill the log
}

// workersPerLane is two: one batch is decided while the one before it is being
// published. More would make batches smaller without making them quicker.
const workersPerLane = 2

func newLane(item int64, line *lanes) *lane {
	l := &lane{
		item: item, line: line, flag: newSoldOut(item, line.cfg, line.flags),
		queue: make(chan *attempt, line.cfg.LaneCapacity), quiet: rate.Sometimes{Interval: time.Second},
	}
	l.places.Store(-1)
	return l
}

// begin starts the workers, which go when the lane has ended.
func (l *lane) begin() {
	for range workersPerLane {
		l.line.workers.Go(func() { newLaneWorker(l).run() })
	}
}

// enter puts an attempt in line, or says why not. Somebody who may hold a unit
// already is refused for nothing but a full queue: telling a holder to come back
// later would be one more way of losing an answer.
func (l *lane) enter(a *attempt, now time.Time) (outcome, bool) {
	waiting := len(l.queue)
	if !l.flag.mayHold(a.user) {
		if places := l.places.Load(); places >= 0 && int64(waiting) >= places {
			return outTooHot, false
		}
		if left := l.hotUntil.Load() - now.UnixNano(); left > 0 && left <= int64(l.line.cfg.HotFor) { // more: the clock was set back
			return outTooHot, false
		}
		if lim := l.limiter.Load(); lim != nil && !lim.AllowN(now, 1) {
			return outAdmissionRate, false
		}
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.ended {
		return outDraining, false
	}
	select {
	case l.queue <- a:
		return outNone, true
	default:
		return outTooHot, false
	}
}

// end lets nobody in any more. The workers answer who waits and go.
func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.queue)
	}
}

func (l *lane) hasEnded() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.ended
}

// learn takes the hints for refusing early from a decision.
func (l *lane) learn(d *inventory.Decision, unlimited bool, now time.Time) {
	l.flag.see(d.Epoch, d.Rel)
	switch {
	case unlimited:
		l.places.Store(-1)
	default:
		l.places.Store(max(d.Remaining*placesPerUnit, int64(l.line.cfg.MinPlaces)))
	}
	if d.Seq-d.Persisted > l.line.cfg.MaxWriterLag {
		l.hotUntil.Store(now.Add(l.line.cfg.HotFor).UnixNano())
	}
}

// returned notes that units came back: the flag ends, and the bound on places
// with it, because how many there are is not known here.
func (l *lane) returned(epoch, rel int64) {
	l.flag.see(epoch, rel)
	l.places.Store(-1)
}

// admit sets how many attempts a second may enter here; 0 lifts the bound. The
// burst is a tenth of a second's worth, so that the rate shows within that time.
func (l *lane) admit(perSecond int) {
	if perSecond <= 0 {
		l.limiter.Store(nil)
		return
	}
	burst := max(1, perSecond/10)
	if lim := l.limiter.Load(); lim != nil {
		lim.SetLimit(rate.Limit(perSecond))
		lim.SetBurst(burst)
		return
	}
	l.limiter.Store(rate.NewLimiter(rate.Limit(perSecond), burst))
}
