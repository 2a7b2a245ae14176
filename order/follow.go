package order

import (
	"context"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
)

// Queue knows the numbers that were granted and are not orders yet: rush.Places, or
// inventory where there is no catalogue.
type Queue interface {
	// Queued reports whether the user's number waits for the order writer, and its place
	// in line: 1 is the next to be written. It must return an error, not false, while it
	// cannot know (Redis down, item fenced): on false the shopper reads "not in line". A
	// number whose order is written is not queued; it may be reported as queued at
	// position 0.
	Queued(ctx context.Context, user int64, no ids.ID) (position, itemID int64, ok bool, err error)
}

// Errors that a shopper reads about a number without an order.
var (
	ErrNotEntered = fault.New(fault.NotFound, "not-entered", fault.T("This number is not in line", "该号码未进入排队"),
		fault.T("This number holds nothing. If its rush was refused, that is final; if it got no answer, or one that "+
			"says so, the same path may be sent again.",
			"该号码没有占用商品。如抢购已被拒绝，结果即为最终；如没有得到答复，或答复允许重试，可用原链接重试。"),
		fault.T("Send the same rush path again if it had no final answer.", "若抢购未得到明确结果，请用原链接重试。"))
	errUnknown = bus.ErrUnknown.Saying(
		fault.T("Whether this number is in line cannot be told right now. Ask again in a moment.", "暂时无法确认该号码是否在排队，请稍后再查。")).After(time.Second)
)

// follow answers a poll.
func (ls *lookups) follow(ctx context.Context, in *orderInput) (*httpx.Output[orderevent.OrderView], error) {
	no, err := Number(in.No, ErrNotFound)
	if err != nil {
		return nil, err
	}
	return httpx.Answered(ls.find(ctx, no, auth.From(ctx).UserID))
}

// Missing returns the reason why Payable found no order of this user by this
// number: what a poll would say, as an error. A number that is queued, or was
// until a moment ago, is ErrQueued.
func (ls *lookups) Missing(ctx context.Context, no ids.ID, user int64) error {
	if _, err := ls.find(ctx, no, user); err != nil {
		return err
	}
	return ErrQueued
}

// queueRead bounds the wait for the queue, which reads Redis, as cacheRead does
// for the cache.
const queueRead = cacheRead

// find returns the state of a user's number: an order or queued. It fails with
// ErrNotFound, ErrNotEntered, or errUnknown if the state cannot be determined.
//
// The order of the reads matters: the cache has written orders, the queue has
// granted numbers, and only a number that neither has costs a read of Postgres.
// That read comes last, so that it finds a number which left the queue in
// between; its answer never comes from memory, because "not in line" invites
// the shopper to rush again.
//
// While Redis does not answer, the queue would not either, so Postgres comes
// first: a shopper who has an order waits for Redis once and not at every step.
func (ls *lookups) find(ctx context.Context, no ids.ID, user int64) (orderevent.OrderView, error) {
	if no.Bucket() != ids.Bucket(user) {
		return orderevent.OrderView{}, ErrNotFound // another user's number, answered without any read
	}
	o, found, cacheErr := ls.cache.get(ctx, no)
	if cacheErr != nil {
		ls.deps.Log.DebugContext(ctx, "order cache not readable, reading Postgres", "error", cacheErr)
		var err error
		if o, found, err = ls.written(ctx, no); err != nil {
			return orderevent.OrderView{}, errUnknown.Because(err)
		}
	}
	var queued bool
	if !found {
		position, inLine, queueErr := ls.inLine(ctx, no, user)
		if queueErr == nil && inLine && position > 0 {
			return orderevent.QueuedView(no, position), nil
		}
		// At position 0 the number is being written or already was, and the cache may
		// have dropped it since; Postgres knows which.
		if cacheErr == nil || queueErr == nil {
			var err error
			if o, found, err = ls.written(ctx, no); err != nil {
				return orderevent.OrderView{}, errUnknown.Because(err)
			}
		}
		if !found && queueErr != nil {
			return orderevent.OrderView{}, errUnknown.Because(queueErr)
		}
		queued = inLine
	}
	switch {
	case found && o.UserID != user:
		return orderevent.OrderView{}, ErrNotFound
	case found:
		return orderevent.View(o), nil
	case queued:
		return orderevent.QueuedView(no, 0), nil
	default:
		return orderevent.OrderView{}, ErrNotEntered
	}
}

// written looks for an order in Postgres, or in what this process just read there.
func (ls *lookups) written(ctx context.Context, no ids.ID) (orderevent.Order, bool, error) {
	if o, known, _ := ls.recall(no); known {
		return o, true, nil
	}
	return ls.load(ctx, no)
}

// inLine queries the queue for a number.
func (ls *lookups) inLine(ctx context.Context, no ids.ID, user int64) (position int64, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, queueRead)
	defer cancel()
	position, _, ok, err = ls.deps.Queue.Queued(ctx, user, no)
	return position, ok, err
}
