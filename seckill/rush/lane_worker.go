package rush

import (
	"context"
	"sync"
	"time"

	"stampede/inventory"
	"stampede/platform/store/redisx"
	"stampede/seckill/catalogue"
	"stampede/seckill/seckillevent"
)

// laneWorker turns a lane's waiting attempts into batches. Its slices are
// reused from batch to batch; nothing in them outlives a batch.
type laneWorker struct {
	lane     *lane
	waiting  []*attempt // as taken from the queue
	asked    []*attempt // those of them sent to Redis
	attempts []inventory.Attempt
	decision inventory.Decision
	// publishBy is the deadline by which this batch's grants are published, or
	// never.
	publishBy time.Time
	// remembered is called when the users of the batch who were granted units are in
	// the flag's filter.
	remembered func()

	granted []*attempt
	grants  []grant
	repeats []repeat // attempts answered with a hold whose message this instance cannot confirm
	batch   seckillevent.Batch
	message []byte
}

func newLaneWorker(l *lane) *laneWorker {
	return &laneWorker{
		lane:     l,
		waiting:  make([]*attempt, 0, inventory.MaxBatch),
		asked:    make([]*attempt, 0, inventory.MaxBatch),
		attempts: make([]inventory.Attempt, 0, inventory.MaxBatch),
	}
}

// turn runs a batch through the lane; false if the lane has ended. One worker at
// a time collects and decides: two at once would each take half of the waiting
// attempts.
func (w *laneWorker) turn() bool {
	w.lane.deciding.Lock()
	a, ok := <-w.lane.queue
	if !ok {
		w.lane.deciding.Unlock()
		return false
	}
	w.take(a)
	w.work()
	return true
}

// take collects a batch: the attempt that ended the wait, then all that are
// waiting.
func (w *laneWorker) take(first *attempt) {
	w.waiting = append(w.waiting[:0], first)
	for len(w.waiting) < cap(w.waiting) {
		select {
		case a, ok := <-w.lane.queue:
			if !ok {
				return
			}
			w.waiting = append(w.waiting, a)
		default:
			return
		}
	}
}

// work answers every attempt in the batch.
//
//nolint:contextcheck // a batch belongs to no single client
func (w *laneWorker) work() {
	// The batch's context is independent of its clients': a client that leaves
	// must not cancel the decision about the others.
	ctx := context.Background()
	l := w.lane
	decided := sync.OnceFunc(l.deciding.Unlock)
	defer decided()
	if l.line.trace.On() {
		followed, span := w.follow(ctx)
		ctx = followed
		defer func() { span.End(nil) }()
	}
	item, ok := l.line.catalogue.Item(l.item)
	if !ok || !item.OnSale {
		answerAll(w.waiting, verdict{outcome: outEnded})
		return
	}
	if l.hasEnded() {
		answerAll(w.waiting, verdict{outcome: outDraining})
		return
	}
	if w.sift(); len(w.asked) == 0 {
		return
	}
	// Grants must be stored in the stream. While that is not possible, nothing is
	// granted.
	if err := l.line.grants.Healthy(ctx); err != nil {
		w.warn("refusing attempts: grant stream unhealthy", err)
		answerAll(w.asked, verdict{outcome: outUnavailable})
		return
	}
	w.remembered = func() {}
	if l.shards.known.Load().count > 1 {
		l.asks <- struct{}{}
		w.remembered = sync.OnceFunc(func() { <-l.asks })
	}
	defer w.remembered()
	switch err := w.reserve(ctx, item); {
	case err == nil:
		w.borrow(ctx, item)
		w.settle(ctx, item, decided)
	case redisx.Refused(err):
		w.warn("refusing attempts: redis decides nothing", err)
		answerAll(w.asked, verdict{outcome: outUnavailable})
	default:
		// Redis may have decided all the same. The sweeper settles the holds it
		// may have made; releasing them here could release units that a
		// repetition took.
		w.warn("reservation in redis failed", err)
		w.suspect(item)
		answerAll(w.asked, verdict{outcome: outUnknown})
	}
}

// sift answers attempts that need no decision: clients that have left, and
// users refused by the flag because the item sold out while they waited.
func (w *laneWorker) sift() {
	w.asked, w.attempts = w.asked[:0], w.attempts[:0]
	for _, a := range w.waiting {
		if a.left() {
			a.answer(verdict{outcome: outLeft})
			continue
		}
		if w.lane.shards.shardOf(a.user) != w.lane.shard {
			w.lane.move(a)
			continue
		}
		if o, refused := w.lane.flag.refuses(a.user, a.no); refused {
			a.answer(verdict{outcome: o})
			continue
		}
		w.asked = append(w.asked, a)
		w.attempts = append(w.attempts, inventory.Attempt{User: a.user, No: a.no, Quantity: a.quantity, PayWithin: a.within})
	}
}

// reserve calls Redis, twice if the item was loaded since the last decision.
func (w *laneWorker) reserve(ctx context.Context, item *catalogue.Item) (err error) {
	l := w.lane
	ctx, cancel := context.WithTimeout(ctx, reserveTimeout)
	defer cancel()
	l.line.metrics.batch.Observe(float64(len(w.attempts)))
	// Counted from before the call: a Load waits as long, starting with its
	// fence, and every grant of this batch came before the fence.
	w.publishBy = time.Now().Add(l.line.cfg.PublishDeadline)

	d, epoch := &w.decision, l.epoch.Load()
	ctx, span := l.line.trace.Child(ctx, spanReserve)
	defer func() { span.End(err) }()
	stock := item.Stock().Counter(l.shard)
	if err := l.line.stock.Reserve(ctx, stock, epoch, w.attempts, d); err != nil {
		return err
	}
	if d.Gate == inventory.Fenced && d.Epoch != 0 && d.Epoch != epoch {
		// This lane or another one has learned since the batch was collected how many shards there are.
		l.shards.see(d.Epoch, d.Shards)
		w.waiting = append(w.waiting[:0], w.asked...)
		if w.sift(); len(w.asked) == 0 {
			*d = inventory.Decision{Results: d.Results[:0]} // all of them wait in other lanes now
			return nil
		}
		if err := l.line.stock.Reserve(ctx, stock, d.Epoch, w.attempts, d); err != nil {
			return err
		}
	}
	if d.Gate != inventory.Fenced {
		l.epoch.Store(d.Epoch)
		l.learn(d, item.Unlimited, time.Now())
	}
	return nil
}

// suspect puts the batch's users into the filter although no answer came: Redis
// may still grant them a unit, and a possible holder must not be refused.
func (w *laneWorker) suspect(item *catalogue.Item) {
	if item.Unlimited {
		return // has no flag
	}
	w.grants = w.grants[:0]
	for _, a := range w.asked {
		w.grants = append(w.grants, grant{user: a.user})
	}
	w.lane.flag.remember(0, int64(item.Total), w.grants)
}

func (w *laneWorker) warn(what string, err error) {
	w.lane.quiet.Do(func() {
		//nolint:sloglint // every caller passes a literal
		w.lane.line.log.Error(what, "item_id", w.lane.item, "attempts", len(w.asked), "error", err)
	})
}

func answerAll(as []*attempt, v verdict) {
	for _, a := range as {
		a.answer(v)
	}
}
