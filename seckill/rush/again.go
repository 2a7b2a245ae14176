package rush

import (
	"context"

	"stampede/seckill/catalogue"
)

// strangerRate bounds the lookups a second for refused attempts whose number
// this instance does not know as granted: after a restart, or when another
// instance granted it. A lookup is a read or two in Redis and, for a number
// without an order, one by key in Postgres; so many take a twentieth of what the
// smallest machine can do, however large the crowd before a paused sale is.
// Attempts beyond the bound get the ordinary refusal, which says where to query
// the order.
const strangerRate = 500

// again checks whether an attempt about to be refused because of its item, or of
// its user's pause, was granted before: then it is a repetition and gets the first
// answer again, whatever the state of the sale, and the refusal would be wrong. It
// returns the verdict to answer with.
func (r *Service) again(ctx context.Context, t *token, item *catalogue.Item, refused verdict) verdict {
	switch refused.outcome {
	case outEnded, outPaused, outFenced, outUnavailable, outCoolingDown:
	default:
		return refused // decided on the attempt itself, or before anything could be granted
	}
	told, known := r.places.numbers.get(t.no)
	if !known {
		told.position = noPosition
	}
	if !told.stored && !r.mayHold(t) && !r.strangers.Allow() {
		return refused
	}
	ctx, cancel := context.WithTimeout(ctx, reserveTimeout)
	defer cancel()
	if order, ok, err := r.deps.Orders.Get(ctx, t.no); err == nil && ok {
		return verdict{outcome: outRepeated, settled: true, status: order.Status}
	}
	if item != nil {
		if position, _, ok, err := r.places.queuedFor(ctx, item, t.user, t.no, told); err == nil && ok {
			return verdict{outcome: outRepeated, position: position}
		}
	}
	if told.stored {
		// Redis and Postgres cannot tell now; the message that is stored can.
		return verdict{outcome: outRepeated, position: told.position}
	}
	return refused
}

// mayHold reports whether the item's filter contains the attempt's user or number.
func (r *Service) mayHold(t *token) bool {
	l := r.lanes.all.find(t.item)
	return l != nil && l.flag.mayHold(t.user, t.no)
}
