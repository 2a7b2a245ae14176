package rush

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/time/rate"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/base/tracing"
	"stampede/seckill/seckillevent"
)

// attempt is one request that waits in a lane. The handler that created it owns
// it: it puts it into the lane and reads the verdict only after done, and the
// lane answers every attempt it took exactly once. So attempts can be pooled
// although two goroutines use them.
type attempt struct {
	left     func() bool  // whether the client has left
	span     tracing.Span // zero unless this attempt is traced
	user     int64
	quantity int32
	within   int32 // the payment window in seconds; 0 for the item's
	// admission is the item's rate, see catalogue.Item.
	admission *int32
	no        ids.ID
	turn      int64 // in the line of an item with a rate; 0 for none, see pacer
	verdict   verdict
	done      chan struct{} // capacity 1, so that the lane never waits for a handler
}

// verdict is the lane's answer to an attempt.
type verdict struct {
	outcome  outcome
	position int64         // outQueued, outRepeated; in the line before the lane: outWaitTurn
	settled  bool          // outRepeated: the number is no longer in line; query the order
	finished bool          // outRepeated: the number was granted and its units were released again
	other    ids.ID        // outAlreadyBought
	status   string        // outRepeated: the order's status, if it is already known
	wait     time.Duration // Retry-After where it differs from the refusal's own; outWaitTurn: until the turn, 0 if that is unknown
}

var attempts = sync.Pool{New: func() any { return &attempt{done: make(chan struct{}, 1)} }}

// grant is the attempt's grant with its place in the epoch.
func (a *attempt) grant(seq int64) seckillevent.Grant {
	return seckillevent.Grant{No: a.no, User: a.user, Quantity: a.quantity, PayWithin: a.within, Seq: seq}
}

func (a *attempt) answer(v verdict) {
	a.verdict = v
	a.done <- struct{}{}
}

// lane is the line in front of an item on this instance, or of one of its stock
// shards, see shards. Two workers turn the waiting attempts into batches; there is
// no timer: a batch is what has collected while the previous batches were in
// progress.
//
//   - Handlers send to queue under mu's read lock; end closes it under the write
//     lock, so nothing is sent to a closed channel and nothing is left in it.
//   - A full queue refuses. Sending never blocks.
//   - The atomics are hints from the last decision, for refusing early. An
//     attempt admitted because of a stale hint is decided by Redis.
type lane struct {
	item   int64
	shard  int16
	shards *shards // of the item
	line   *lanes
	flag   *soldOut // of the item

	// deciding is held by the worker that collects a batch and calls Redis.
	deciding sync.Mutex
	// asks is full from before the lane of an item with several shards asks Redis until the
	// answers are remembered, see shards.still.
	asks chan struct{}

	mu    sync.RWMutex
	queue chan *attempt
	ended bool

	epoch    atomic.Int64   // the Load that the last decision was made under
	places   atomic.Int64   // how many may wait; below 0 for no bound but the queue's
	hotUntil atomic.Int64   // Unix nanoseconds; the writer lags until then
	pace     pacer          // before the queue, of an item with a rate
	quiet    rate.Sometimes // rate limit, so that a fault in every batch does not fill the log
}

// workersPerLane is two: one batch is decided while the previous one is being
// published. More would make batches smaller without making them faster.
const workersPerLane = 2

// newLane returns the lane of an item's first shard, with which the others begin.
func newLane(item int64, line *lanes) *lane {
	all := new(shards)
	all.known.Store(&layout{count: 1})
	l := newLaneOf(item, 0, line, newSoldOut(line.cfg), all)
	all.lanes.Store(&[]*lane{l})
	return l
}

func newLaneOf(item int64, shard int16, line *lanes, flag *soldOut, all *shards) *lane {
	l := &lane{
		item: item, shard: shard, shards: all, line: line, flag: flag,
		queue: make(chan *attempt, line.cfg.LaneCapacity), asks: make(chan struct{}, 1), quiet: rate.Sometimes{Interval: time.Second},
	}
	l.places.Store(-1)
	l.pace = pacer{lane: l, turns: newTurns(item, line.redis), wake: make(chan struct{}, 1)}
	return l
}

// begin starts the workers, which exit when the lane has ended and all its attempts are
// answered.
func (l *lane) begin() {
	for range workersPerLane {
		l.line.workers.Go(func() {
			for w := newLaneWorker(l); w.turn(); {
			}
		})
	}
}

// enter puts an attempt in line, or returns the reason for refusing it. A user
// who may already hold a unit, and a number that may have held one, is refused
// only by a full queue: a holder who is asked to come back later could lose the
// answer.
func (l *lane) enter(a *attempt, now time.Time) (outcome, bool) {
	waiting := len(l.queue)
	if !l.flag.mayHold(a.user, a.no) {
		if places := l.places.Load(); places >= 0 && int64(waiting) >= places {
			return outTooHot, false
		}
		if left := l.hotUntil.Load() - now.UnixNano(); left > 0 && left <= int64(l.line.cfg.HotFor) { // more: the clock was set back
			return outTooHot, false
		}
		if a.admission != nil {
			return l.pace.enter(a)
		}
	}
	return l.push(a)
}

// push puts an attempt in line that may wait.
func (l *lane) push(a *attempt) (outcome, bool) {
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

// end stops admitting attempts of the item. The workers answer the waiting ones and exit.
func (l *lane) end() { l.shards.end() }

// close ends this lane alone.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.queue)
		l.pace.end()
	}
}

func (l *lane) hasEnded() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.ended
}

// learn takes the hints for refusing early from a decision.
func (l *lane) learn(d *inventory.Decision, unlimited bool, now time.Time) {
	l.flag.seeShard(l.shard, d.Epoch, d.Rel)
	if unlimited {
		l.places.Store(-1)
	} else {
		l.places.Store(max(d.Remaining*placesPerUnit, int64(l.line.cfg.MinPlaces)))
	}
	if (d.Seq-d.Persisted)*int64(max(1, d.Shards)) > l.line.cfg.MaxWriterLag {
		l.hotUntil.Store(now.Add(l.line.cfg.HotFor).UnixNano())
	}
}

// returned records that units came back: the flag ends, and with it the bound
// on places, because the number of units is not known here.
func (l *lane) returned(epoch, rel int64) {
	l.flag.seeShard(l.shard, epoch, rel)
	for _, each := range *l.shards.lanes.Load() { // one of them may borrow the units
		each.places.Store(-1)
	}
}

// Span names of a traced rush. The spans of a batch's message and everything
// after it are children of the batch's span.
const (
	spanRush    = "rush"
	spanBatch   = "lane batch"
	spanReserve = "reserve"
)

// follow starts a trace of one in so many attempts, as it enters its lane:
// attempts refused at the door are never traced.
func (r *Service) follow(t *token) tracing.Span {
	// The trace outlives the request: the writer and the push continue it.
	_, span := r.deps.Trace.Root(context.Background(), spanRush)
	if span.On() {
		span.Set(attribute.String("order_no", t.no.String()), attribute.Int64("item_id", t.item))
	}
	return span
}

// endAttempt ends an attempt's span with its answer. The span of an attempt
// that the full lane refused is not ended, so it is not sent.
func endAttempt(a *attempt, v verdict) {
	if a.span.On() {
		a.span.Set(attribute.String("code", v.outcome.String()))
		a.span.End(nil)
	}
}

// follow starts the batch's span, below the first traced attempt; the others
// are linked to it.
func (w *laneWorker) follow(ctx context.Context) (context.Context, tracing.Span) {
	t := w.lane.line.trace
	var batch tracing.Span
	for _, a := range w.waiting {
		switch {
		case !a.span.On():
		case !batch.On():
			ctx, batch = t.Child(a.span.Into(ctx), spanBatch)
			batch.Set(attribute.Int64("item_id", w.lane.item), attribute.Int("attempts", len(w.waiting)))
		default:
			a.span.Link(batch)
		}
	}
	return ctx, batch
}
