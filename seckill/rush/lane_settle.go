package rush

import (
	"context"
	"slices"
	"time"

	"stampede/inventory"
	"stampede/platform/base/failpoint"
	"stampede/platform/base/ids"
	"stampede/seckill/catalogue"
	"stampede/seckill/queue"
	"stampede/seckill/seckillevent"
)

// settle answers by the decision, raises the flag and publishes the grants. It
// calls decided, after which the next batch may be collected, before it
// publishes. If the item has sold out the flag is up by then, so that the waiting
// attempts need no call to Redis.
func (w *laneWorker) settle(ctx context.Context, item *catalogue.Item, decided func()) {
	l, d := w.lane, &w.decision
	if d.Gate != inventory.Open {
		v := verdict{outcome: gateOutcomes[d.Gate]}
		if d.Gate == inventory.NotStarted {
			v.wait = d.OpensIn
		}
		answerAll(w.asked, v)
		if d.Gate == inventory.Fenced {
			l.line.catalogue.Heal(l.item)
		}
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
			w.grants = append(w.grants, grant{a.user, r.Seq, l.shard})
			w.batch.Grants = append(w.batch.Grants, a.grant(r.Seq))
		case inventory.Repeated:
			if w.unsure(a.no, r.Seq) {
				w.repeats = append(w.repeats, repeat{i, a, a.grant(r.Seq)})
			}
		case inventory.AlreadyBought:
			if w.unsure(r.Other, r.Seq) {
				other := seckillevent.Grant{No: r.Other, User: a.user, Quantity: r.Quantity, PayWithin: r.PayWithin, Seq: r.Seq}
				w.repeats = append(w.repeats, repeat{i, a, other})
			}
		case inventory.SoldOut, inventory.AllHeld:
			nothingLeft = verdictOutcomes[r.Verdict]
		default:
		}
	}
	l.line.decided(item, d, len(w.granted) > 0)
	if len(w.granted) > 0 && !item.Unlimited {
		l.flag.remember(d.Epoch, d.Total*int64(d.Shards), w.grants)
	}
	w.remembered()
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
	publishes := len(w.granted)+len(w.repeats) > 0
	if nothingLeft != outNone && !w.raise(nothingLeft) && !publishes {
		// No attempt of this batch is waiting any more, so there is time for
		// reading. A batch that has grants to publish leaves it to the next one.
		w.cover(ctx, item)
		w.raise(nothingLeft)
	}
	if publishes {
		decided()
		w.publish(ctx, item)
	}
}

// raise raises the flag, unless another lane of the item is held up. It reports false if
// the filter has to be completed first.
func (w *laneWorker) raise(as outcome) bool {
	release, ok := w.lane.shards.still()
	if !ok {
		return true
	}
	defer release()
	return w.lane.flag.raise(&w.decision, as)
}

// repeat is an attempt whose answer names a number that already holds units: its
// own, or another number of the same user.
type repeat struct {
	index   int // in asked
	attempt *attempt
	grant   seckillevent.Grant // the grant of the named number
}

// unsure reports whether a number with the grant seq, 0 if its order exists, may
// appear in an answer only after its message was published (once more): it is in
// this same batch, another worker or instance is publishing it, or the answer of
// the first decision was lost. Naming it, as queued or as already bought, would
// be a promise that only Redis knows of; the writer accepts a number once.
func (w *laneWorker) unsure(no ids.ID, seq int64) bool {
	if seq == 0 {
		return false
	}
	told, known := w.lane.line.numbers.get(no)
	return !known || !told.stored
}

// addRepeats adds the repeated grants to the message, each number once.
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
	default:
		return verdict{outcome: verdictOutcomes[r.Verdict]}
	}
}

// The answers to the attempts of a closed gate, and to those that need no more than their
// verdict. Inventory passes on no gate and no verdict that it does not know.
var (
	gateOutcomes = [...]outcome{
		inventory.Fenced: outFenced, inventory.NotStarted: outNotStarted, inventory.Ended: outEnded, inventory.Paused: outPaused,
	}
	verdictOutcomes = [...]outcome{
		inventory.NotEnough: outNotEnough, inventory.SoldOut: outSoldOut, inventory.AllHeld: outAllHeld, inventory.OverLimit: outOverLimit,
		inventory.Elsewhere: outTooHot,
	}
)

// position is how many grants of this epoch are still to be written before seq, in
// all the item's shards as in this one.
func (w *laneWorker) position(seq int64) int64 {
	return max(0, seq-w.decision.Persisted) * int64(max(1, w.decision.Shards))
}

// cover reads the item's holders and ended numbers for the flag's filter. Attempts in the lane
// wait for it as well; otherwise each of them would cost a useless call to
// Redis.
func (w *laneWorker) cover(ctx context.Context, item *catalogue.Item) {
	l := w.lane
	ctx, cancel := context.WithTimeout(ctx, reserveTimeout)
	defer cancel()
	err := l.flag.cover(ctx, &w.decision, func(ctx context.Context, epoch int64, limit int) ([]int64, error) {
		var known []int64
		for shard := range max(1, w.decision.Shards) {
			ended, err := l.line.stock.Ended(ctx, item.Stock().Counter(shard), epoch, limit-len(known))
			for _, no := range ended {
				known = append(known, numberKey(no))
			}
			if err != nil || len(known) == limit {
				return known, err
			}
			holders, err := l.line.stock.Users(ctx, item.Stock().Counter(shard), epoch, limit-len(known))
			if known = append(known, holders...); err != nil || len(known) == limit {
				return known, err
			}
		}
		return known, nil
	}, time.Now())
	if err != nil {
		w.warn("reading holders for the sold-out flag failed", err)
	}
}

// Fail points around a batch and its answers, at which a test ends the process.
var (
	afterLua = failpoint.NewErr("after-lua",
		"Redis has granted a batch; its message is not published yet.")
	afterPublish = failpoint.NewErr("after-publish",
		"A batch's message is stored; none of its shoppers has an answer yet.")
	before202 = failpoint.New("before-202",
		"A shopper is in line and about to be answered 202.")
)

// publish stores the batch's grants in the stream and answers the shoppers who
// got them. A 202 promises that the message is on disk; without that certainty
// the answer is unknown, and the units stay with their number: the sweeper will
// find the order, or publish again.
func (w *laneWorker) publish(ctx context.Context, item *catalogue.Item) {
	ls := w.lane.line
	b := &w.batch
	w.addRepeats()
	queue.Describe(b, item, w.lane.shard, w.decision.Epoch)
	w.message = b.Encode(w.message[:0])

	// The bus repeats the same message until then; a Load waits no longer
	// either.
	ctx, cancel := context.WithDeadline(ctx, w.publishBy)
	defer cancel()
	err := afterLua.Err()
	if err == nil {
		err = ls.grants.Publish(ctx, b, w.message)
	}
	if err == nil {
		err = afterPublish.Err()
	}
	ls.metrics.countPublished(item.ID, len(w.granted), len(w.repeats), err)

	for i, a := range w.granted {
		position := w.position(w.grants[i].seq)
		// Remembered even if the outcome is unknown: that is when the shopper
		// queries it.
		ls.numbers.put(a.no, told{item: item.ID, position: position, stored: err == nil})
		if err != nil {
			a.answer(verdict{outcome: outUnknown})
			continue
		}
		a.answer(verdict{outcome: outQueued, position: position})
	}
	for _, r := range w.repeats {
		position := w.position(r.grant.Seq)
		ls.numbers.put(r.grant.No, told{item: item.ID, position: position, stored: err == nil})
		switch {
		case err != nil:
			r.attempt.answer(verdict{outcome: outUnknown})
		case r.grant.No != r.attempt.no:
			r.attempt.answer(verdict{outcome: outAlreadyBought, other: r.grant.No})
		default:
			r.attempt.answer(verdict{outcome: outRepeated, position: position})
		}
	}
	if err != nil {
		w.warn("publication of grants uncertain, sweeper will settle them", err)
	}
}
