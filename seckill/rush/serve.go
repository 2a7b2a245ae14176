package rush

import (
	"context"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/base/tracing"
	"stampede/platform/edge/httpx"
	"stampede/seckill/catalogue"
)

// rushPrefix is the part of the URL before the path.
const rushPrefix = "/api/v1/rush/"

// maxBodyBytes tolerates the empty object that some clients send with every
// POST. The body is never read.
const maxBodyBytes = 1024

// Answer answers POST /api/v1/rush/{path}. The path is the credential: there is no
// token, no middleware and no parsing except its own. The checks are ordered by cost,
// because most requests of a sale end at the flag; until they enter a lane they
// allocate nothing.
func (r *Service) Answer(ctx context.Context, req *httpx.DirectRequest, into *httpx.DirectAnswer) {
	lang := language(req.AcceptLanguage)
	if req.BodyBytes > maxBodyBytes {
		r.metrics.count(0, 0, false, outTooLarge)
		refuse(into, lang, outTooLarge, 0)
		return
	}
	var t token
	if r.keys.verify(req.Last, &t) != nil {
		r.metrics.count(0, 0, false, outBadPath)
		refuse(into, lang, outBadPath, 0)
		return
	}
	now := r.clock.Now()
	item, known := r.catalogue.Item(t.item)
	v := r.door(&t, item, now)
	if v.outcome == outNone {
		v = r.inLine(req, &t, item)
	}
	v = r.again(ctx, &t, item, v)
	r.metrics.count(t.item, t.user, known, v.outcome)
	r.write(ctx, into, lang, t.no, v)
}

// door returns the reason to refuse an attempt from memory, or outNone. Times
// are compared with a tolerance: close cases are left to Redis and its single
// clock.
func (r *Service) door(t *token, item *catalogue.Item, now time.Time) verdict {
	ms, tolerance := now.UnixMilli(), clockTolerance
	switch {
	case ms > t.until+tolerance.Milliseconds():
		return verdict{outcome: outPathExpired}
	case ms < t.from-tolerance.Milliseconds():
		return verdict{outcome: outNotStarted, wait: time.Duration(t.from-ms) * time.Millisecond}
	case item == nil || !item.OnSale:
		return verdict{outcome: outEnded}
	case ms < t.from && t.from > item.OpensAt.UnixMilli():
		// A path that is usable later than the opening is enforced to the
		// millisecond here: Redis only knows the opening.
		return verdict{outcome: outNotStarted, wait: time.Duration(t.from-ms) * time.Millisecond}
	}
	if l := r.lanes.all.find(t.item); l != nil {
		if o, refused := l.flag.refuses(t.user, t.no); refused {
			return verdict{outcome: o}
		}
	}
	switch {
	case now.Before(item.OpensAt.Add(-tolerance)):
		return verdict{outcome: outNotStarted, wait: item.OpensAt.Sub(now)}
	case now.After(item.ClosesAt.Add(tolerance)):
		return verdict{outcome: outEnded}
	}
	if wait, ok := r.repeats.Allow(t.user, ms); !ok {
		return verdict{outcome: outRateLimited, wait: wait}
	}
	if r.deps.Paused != nil && !item.Unlimited {
		if wait := r.deps.Paused(t.user, item.ActivityID, now); wait > 0 {
			return verdict{outcome: outCoolingDown, wait: wait}
		}
	}
	return verdict{}
}

// inLine takes an attempt through its lane. It needs no timeout: the lane
// answers every attempt it took, within the deadlines of Redis and of the bus.
func (r *Service) inLine(req *httpx.DirectRequest, t *token, item *catalogue.Item) verdict {
	l := r.lanes.open(t.item)
	if l == nil {
		return verdict{outcome: outDraining}
	}
	l = l.laneOf(t.user)
	a := attempts.Get().(*attempt) //nolint:errcheck // the pool holds nothing else
	a.left, a.user, a.no, a.quantity, a.within, a.admission, a.turn = req.Left, t.user, t.no, t.quantity, t.payWithin, item.Admission, 0
	if r.deps.Trace.On() {
		a.span = r.follow(t)
	}
	v := verdict{}
	entered := time.Now()
	if o, in := l.enter(a, entered); in {
		<-a.done
		v = a.verdict
		if a.turn > 0 {
			l.pace.decided(t.user, v.outcome)
		}
		r.metrics.countWait(t.item, t.user, time.Since(entered))
		endAttempt(a, v)
	} else {
		v.outcome = o
	}
	a.left, a.span = nil, tracing.Span{}
	attempts.Put(a)
	return v
}

func (r *Service) write(ctx context.Context, into *httpx.DirectAnswer, lang httpx.Language, no ids.ID, v verdict) {
	switch v.outcome {
	case outQueued:
		before202.Pass()
		writeTicket(into, no, orderevent.StatusQueued, v.position)
	case outRepeated:
		r.writeRepeated(ctx, into, lang, no, v)
	case outAlreadyBought:
		writeAlreadyBought(into, lang, v.other)
	case outWaitTurn:
		writeTurn(into, lang, v.position, v.wait)
	case outLeft:
		// Normally the client is gone and does not read this. If the server's side
		// ended the request, nothing has been granted.
		refuse(into, lang, outDraining, 0)
	default:
		refuse(into, lang, v.outcome, v.wait)
	}
}

// writeRepeated answers a number that was granted before: with its place while
// it waits, otherwise with its order's status.
func (r *Service) writeRepeated(ctx context.Context, into *httpx.DirectAnswer, lang httpx.Language, no ids.ID, v verdict) {
	switch {
	case !v.settled:
		writeTicket(into, no, orderevent.StatusQueued, v.position)
		return
	case v.status != "":
		writeTicket(into, no, v.status, 0)
		return
	}
	order, ok, err := r.deps.Orders.Get(ctx, no)
	switch {
	case err == nil && ok:
		writeTicket(into, no, order.Status, 0)
	case v.finished:
		// The number lost its units again, so "queued" would be wrong; the order
		// has the reason.
		refuse(into, lang, outUnknown, 0)
	default:
		writeTicket(into, no, orderevent.StatusQueued, 0)
	}
}

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
