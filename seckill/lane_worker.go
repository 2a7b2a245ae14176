package seckill

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"stampede/inventory"
	"stampede/platform/ids"
	"stampede/seckill/seckillevent"
)

// laneWorker turns what waits in a lane into batches. Its slices are reused
// from batch to batch; nothing in them outlives one.
type laneWorker struct {
	lane     *lane
	waiting  []*attempt // as taken from the queue
	asked    []*attempt // those of them that Redis was asked about
	attempts []inventory.Attempt
	decision inventory.Decision

	granted []*attempt
	grants  []grant
	repeats []repeat // who is told of holds whose message this instance cannot vouch for
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

// run works until the lane has ended and everybody in it has an answer.
func (w *laneWorker) run() {
	for w.turn() {
	}
}

// turn takes a batch through the lane; false when the lane has ended. One worker
// at a time gathers and asks: two at once would each take half of what waits.
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

// take gathers a batch: the attempt that ended the wait, then what is there.
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

// work answers everybody in the batch.
//
//nolint:contextcheck // a batch belongs to nobody in it
func (w *laneWorker) work() {
	// Clients do not take part in the batch's context: one that leaves must not
	// end the decision about the others.
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
	// What Redis grants must be written down. While that is not possible, nothing
	// is granted.
	if err := l.line.bus.Healthy(ctx); err != nil {
		w.complain("grants are refused because their stream is unhealthy", err)
		answerAll(w.asked, verdict{outcome: outUnavailable})
		return
	}
	if err := w.reserve(ctx, item); err != nil {
		// Redis may have decided all the same. The holds it may have made are the
		// sweeper's; giving them back here could give back what a repeat took.
		w.complain("decision failed", err)
		answerAll(w.asked, verdict{outcome: outUnknown})
		return
	}
	w.settle(ctx, item, decided)
}

// sift answers those who need no decision: who has left, and whom the flag
// refuses because the item sold out while they waited.
func (w *laneWorker) sift() {
	w.asked, w.attempts = w.asked[:0], w.attempts[:0]
	for _, a := range w.waiting {
		if a.ctx.Err() != nil {
			a.answer(verdict{outcome: outLeft})
			continue
		}
		if o, refused := w.lane.flag.refuses(a.user); refused {
			a.answer(verdict{outcome: o})
			continue
		}
		w.asked = append(w.asked, a)
		w.attempts = append(w.attempts, inventory.Attempt{User: a.user, No: a.no, Quantity: a.quantity})
	}
}

// reserve asks Redis, twice when the item was loaded since the last decision.
func (w *laneWorker) reserve(ctx context.Context, item *Item) (err error) {
	l := w.lane
	ctx, cancel := context.WithTimeout(ctx, l.line.cfg.ReserveTimeout)
	defer cancel()
	l.line.metrics.batch.Observe(float64(len(w.attempts)))

	d, epoch := &w.decision, l.epoch.Load()
	ctx, span := l.line.trace.Child(ctx, spanReserve)
	defer func() { span.End(err) }()
	if err := l.line.stock.Reserve(ctx, item.Stock(), epoch, w.attempts, d); err != nil {
		return err
	}
	if d.Gate == inventory.Fenced && d.Epoch != 0 && d.Epoch != epoch {
		if err := l.line.stock.Reserve(ctx, item.Stock(), d.Epoch, w.attempts, d); err != nil {
			return err
		}
	}
	if d.Gate != inventory.Fenced {
		l.epoch.Store(d.Epoch)
		l.learn(d, item.Unlimited, time.Now())
		if d.Gate == inventory.Open && len(d.Results) != len(w.attempts) {
			return errors.New("seckill: Redis answered another number of attempts than it was asked")
		}
	}
	return nil
}

// settle answers by the decision, publishes the grants and raises the flag. It
// calls decided when the next batch may be gathered: before it publishes, and
// where the item has sold out once the flag is up, so that those who wait need
// not be asked about.
func (w *laneWorker) settle(ctx context.Context, item *Item, decided func()) {
	l, d := w.lane, &w.decision
	switch d.Gate {
	case inventory.Open:
	case inventory.Fenced:
		answerAll(w.asked, verdict{outcome: outFenced})
		l.line.catalogue.Heal(l.item)
		return
	case inventory.NotStarted:
		answerAll(w.asked, verdict{outcome: outNotStarted, wait: d.OpensIn})
		return
	case inventory.Ended:
		answerAll(w.asked, verdict{outcome: outEnded})
		return
	case inventory.Paused:
		answerAll(w.asked, verdict{outcome: outPaused})
		return
	default:
		answerAll(w.asked, verdict{outcome: outUnknown})
		return
	}

	w.granted, w.grants, w.repeats = w.granted[:0], w.grants[:0], w.repeats[:0]
	w.batch.Grants = w.batch.Grants[:0]
	nothingLeft := outNone
	for i, a := range w.asked {
		r := &d.Results[i]
		switch r.Verdict {
		case inventory.Granted:
			w.granted = append(w.granted, a)
			w.grants = append(w.grants, grant{a.user, r.Seq})
			w.batch.Grants = append(w.batch.Grants, seckillevent.Grant{No: a.no, User: a.user, Quantity: a.quantity, PayWithin: a.within, Seq: r.Seq})
		case inventory.Repeated:
			if w.unsure(a.no, r.Seq) {
				w.repeats = append(w.repeats, repeat{i, a, seckillevent.Grant{No: a.no, User: a.user, Quantity: a.quantity, PayWithin: a.within, Seq: r.Seq}})
			}
		case inventory.AlreadyBought:
			if w.unsure(r.Other, r.Seq) {
				// What the other number's path said of the window is not known here; it is
				// the same shopper's, and the message that comes first decides.
				w.repeats = append(w.repeats, repeat{i, a, seckillevent.Grant{No: r.Other, User: a.user, Quantity: r.Quantity, PayWithin: a.within, Seq: r.Seq}})
			}
		case inventory.SoldOut:
			nothingLeft = outSoldOut
		case inventory.AllHeld:
			nothingLeft = outAllHeld
		default:
		}
	}
	if len(w.granted) > 0 && !item.Unlimited {
		l.flag.remember(d.Epoch, d.Total, w.grants)
	}
	next := 0
	for i, a := range w.asked {
		switch {
		case d.Results[i].Verdict == inventory.Granted:
		case next < len(w.repeats) && w.repeats[next].index == i:
			next++ // answered once published
		default:
			a.answer(w.refusal(&d.Results[i]))
		}
	}
	if len(w.granted)+len(w.repeats) > 0 {
		decided()
		w.publish(ctx, item)
	}
	if nothingLeft != outNone {
		w.raise(ctx, item, nothingLeft)
	}
}

// repeat is an attempt whose answer names a number that holds units already: its
// own, or another one of the same user.
type repeat struct {
	index   int // in asked
	attempt *attempt
	grant   seckillevent.Grant // what the named number holds
}

// unsure reports whether a number with the grant seq, 0 if its order exists, may
// be named in an answer only after its message was published (once more): it is
// in this very batch, another worker or instance is publishing it, or the answer
// of the first decision was lost. To name it, as queued or as already bought, is
// a promise that only Redis would know of; the writer takes a number once.
func (w *laneWorker) unsure(no ids.ID, seq int64) bool {
	if seq == 0 {
		return false
	}
	told, known := w.lane.line.numbers.get(no)
	return !known || !told.stored
}

// addRepeats puts the repeated grants into the message, each number once.
func (w *laneWorker) addRepeats() {
	for _, r := range w.repeats {
		if !slices.ContainsFunc(w.batch.Grants, func(g seckillevent.Grant) bool { return g.No == r.grant.No }) {
			w.batch.Grants = append(w.batch.Grants, r.grant)
		}
	}
}

// refusal is the answer to an attempt that was not granted now.
func (w *laneWorker) refusal(r *inventory.Result) verdict {
	switch r.Verdict {
	case inventory.Repeated:
		// Without a sequence number the order row exists already.
		return verdict{outcome: outRepeated, settled: r.Seq == 0, position: w.position(r.Seq)}
	case inventory.Finished:
		return verdict{outcome: outRepeated, settled: true, finished: true}
	case inventory.AlreadyBought:
		return verdict{outcome: outAlreadyBought, other: r.Other}
	case inventory.NotEnough:
		return verdict{outcome: outNotEnough}
	case inventory.SoldOut:
		return verdict{outcome: outSoldOut}
	case inventory.AllHeld:
		return verdict{outcome: outAllHeld}
	case inventory.OverLimit:
		return verdict{outcome: outOverLimit}
	default:
		return verdict{outcome: outUnknown}
	}
}

// position is how many grants of this epoch are still to be written before seq.
func (w *laneWorker) position(seq int64) int64 { return max(0, seq-w.decision.Persisted) }

// raise puts the sold-out flag up. Its reading of the holders runs here, with
// the batch answered, so that it delays at most this one of the two workers.
func (w *laneWorker) raise(ctx context.Context, item *Item, as outcome) {
	l := w.lane
	ctx, cancel := context.WithTimeout(ctx, l.line.cfg.ReserveTimeout)
	defer cancel()
	err := l.flag.raise(ctx, &w.decision, as, func(ctx context.Context, epoch int64, limit int) ([]int64, error) {
		return l.line.stock.Users(ctx, item.Stock(), epoch, limit)
	}, time.Now())
	if err != nil {
		w.complain("holders could not be read for the sold-out flag", err)
	}
}

func (w *laneWorker) complain(what string, err error) {
	if w.lane.quiet.ok(time.Now()) {
		//nolint:sloglint // every caller passes a literal
		w.lane.line.log.Error(what, "item_id", w.lane.item, "attempts", len(w.asked), "error", err)
	}
}

func answerAll(as []*attempt, v verdict) {
	for _, a := range as {
		a.answer(v)
	}
}
