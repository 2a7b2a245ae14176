package rush

import (
	"context"

	"stampede/platform/base/failpoint"
	"stampede/seckill/catalogue"
	"stampede/seckill/queue"
)

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
	queue.Describe(b, item, w.decision.Epoch)
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
