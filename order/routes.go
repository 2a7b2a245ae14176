package order

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/auth"
	"stampede/platform/fault"
	"stampede/platform/httpx"
	"stampede/platform/ids"
)

// Queue knows the numbers that were granted and are not orders yet; seckill
// implements it and main wires it, because order may not import seckill.
type Queue interface {
	// Queued reports whether the user's number waits for the order writer, and
	// how many grants stand before it. It must answer with an error, not with
	// false, while it cannot know (Redis away, item fenced): false is told to the
	// shopper as "not in line". A number whose order is written is not queued; it
	// may be told as queued at position 0.
	Queued(ctx context.Context, user int64, no ids.ID) (position, itemID int64, ok bool, err error)
}

// What a shopper reads of a number without an order.
var (
	errNotEntered = fault.New(fault.NotFound, "not-entered", "This number is not in line. Its rush path may be sent, also once more.")
	errUnknown    = fault.New(fault.Unavailable, "unknown", "Whether this number is in line cannot be told right now. Ask again in a moment.").After(time.Second)
)

// Routes registers the module's routes. queue is seckill and payments is
// payment; both are built on this Service and so cannot be among its Deps.
func (s *Service) Routes(rt *httpx.Router, queue Queue, payments PaymentLister) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/orders/{no}", ID: "get-order", Tag: "shopper", Role: auth.Shopper,
		Summary: "Follow a number: queued, then an order",
		Description: "Answers for every number that was rushed, from the rush on. While `queued`, ask again after `poll_after_ms`. " +
			"`refused` and `closed` are final for the number and carry a `reason`. `not-entered` means that the number was never " +
			"granted anything: its path may be sent again.",
		Problems: map[int]string{http.StatusNotFound: "not-entered, not-found", http.StatusServiceUnavailable: "unknown"},
	}, s.follow(queue))
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/orders", ID: "list-orders", Tag: "shopper", Role: auth.Shopper,
		Summary:  "Your orders, newest first",
		Problems: map[int]string{http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "unavailable"},
	}, s.listOwn)
	s.adminRoutes(rt, payments)
}

// noStore keeps proxies from telling yesterday's status: an order is one
// person's and changes.
const noStore = "private, no-store"

type orderInput struct {
	No string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
}

// number parses the path's number; whatever is none names nothing.
func (in *orderInput) number() (ids.ID, error) {
	no, err := ids.Parse(in.No)
	if err != nil {
		return ids.ID{}, ErrNotFound.Because(err)
	}
	return no, nil
}

type orderOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         orderevent.Document
}

// follow answers a poll. The order of asking matters: the cache knows written
// orders, the queue knows granted numbers, and only what neither knows costs a
// look at Postgres. That look comes last, so that a number which left the queue
// in between is found there; it is never answered from memory, because "not in
// line" invites the shopper to rush again.
func (s *Service) follow(queue Queue) func(context.Context, *orderInput) (*orderOutput, error) {
	return func(ctx context.Context, in *orderInput) (*orderOutput, error) {
		no, err := in.number()
		if err != nil {
			return nil, err
		}
		user := auth.From(ctx).UserID
		if no.Bucket() != ids.Bucket(user) {
			return nil, ErrNotFound // somebody else's number, told without any lookup
		}
		o, found, err := s.cache.get(ctx, no)
		if err != nil {
			s.deps.Log.DebugContext(ctx, "order cache not readable, asking Postgres", "error", err)
		}
		var queued bool
		var queueErr error
		if !found {
			var position int64
			position, _, queued, queueErr = queue.Queued(ctx, user, no)
			if queueErr == nil && queued && position > 0 {
				return &orderOutput{CacheControl: noStore, Body: orderevent.QueuedView(no, position)}, nil
			}
			// With nobody before it the number is being written or has been, and the
			// cache may have dropped it since; Postgres knows which.
			if o, found, _ = s.recall(no); !found {
				if o, found, err = s.loader.load(ctx, no); err != nil {
					return nil, errUnknown.Because(err)
				}
			}
		}
		switch {
		case found && o.UserID != user:
			return nil, ErrNotFound
		case found:
			return &orderOutput{CacheControl: noStore, Body: orderevent.View(o)}, nil
		case queued && queueErr == nil:
			return &orderOutput{CacheControl: noStore, Body: orderevent.QueuedView(no, 0)}, nil
		case queueErr != nil:
			return nil, errUnknown.Because(queueErr)
		default:
			return nil, errNotEntered
		}
	}
}

// Page sizes of the lists: a screenful by default, little enough at most that
// a page stays a few dozen KiB.
const (
	defaultPage = 20
	maxPage     = 100
)

// last sorts after every number.
var last = ids.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// window is where a page begins, below the last number of the page before, and
// how long it is. Numbers rise with time, so the newest come first and a page is
// stable.
func window(in httpx.PageInput) (before ids.ID, limit int, err error) {
	limit = min(max(in.Limit, 1), maxPage)
	if in.Limit == 0 {
		limit = defaultPage
	}
	if in.Cursor == "" {
		return last, limit, nil
	}
	if before, err = ids.Parse(in.Cursor); err != nil {
		return last, 0, httpx.ErrCursor.Because(err)
	}
	return before, limit, nil
}

// cut turns limit+1 rows into a page of limit and the cursor of the next; the
// cursor is empty on the last page.
func cut(rows []orderdb.OrdersOrder, limit int) (page []orderdb.OrdersOrder, next string) {
	if len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], rows[limit-1].OrderNo.String()
}

type listOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Data       []orderevent.Document `json:"data" nullable:"false"`
		NextCursor string                `json:"next_cursor" doc:"Ask for the next page with ?cursor=…; empty on the last page"`
	}
}

func (s *Service) listOwn(ctx context.Context, in *httpx.PageInput) (*listOutput, error) {
	before, limit, err := window(*in)
	if err != nil {
		return nil, err
	}
	done, err := s.enterReading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	user := auth.From(ctx).UserID
	rows, err := orderdb.New(s.deps.DB).OrdersOfUser(ctx, orderdb.OrdersOfUserParams{
		Bucket: ids.Bucket(user), UserID: user, Before: before, Most: int32(limit) + 1,
	})
	if err != nil {
		return nil, errReading(err)
	}
	out := &listOutput{CacheControl: noStore}
	rows, out.Body.NextCursor = cut(rows, limit)
	out.Body.Data = make([]orderevent.Document, 0, len(rows))
	for _, r := range rows {
		out.Body.Data = append(out.Body.Data, orderevent.View(fromRow(r)))
	}
	return out, nil
}

// newReading makes the places for list queries: a third of the module's
// connections, so that no crowd of readers keeps the writer, the sweeper or the
// loader from theirs.
func newReading(maxConns int32) chan struct{} { return make(chan struct{}, max(1, maxConns/3)) }

// enterReading waits for a place among the list queries, briefly.
func (s *Service) enterReading(ctx context.Context) (done func(), err error) {
	// A list that has waited this long is one too many; its reader comes again.
	const patience = time.Second
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s.reading <- struct{}{}:
		return func() { <-s.reading }, nil
	case <-timer.C:
		return nil, errBusy
	case <-ctx.Done():
		return nil, errBusy.Because(ctx.Err())
	}
}

var errBusy = fault.New(fault.Unavailable, "unavailable", "Too many lists are being read right now. Try again in a moment.").After(time.Second)

// errReading hides a failed query from the reader, who can only try again.
func errReading(err error) error {
	return fault.New(fault.Unavailable, "unavailable", "Orders cannot be read right now. Try again in a moment.").After(time.Second).Because(err)
}

// decimal writes an id as documents carry it.
func decimal(id int64) string { return strconv.FormatInt(id, 10) }
