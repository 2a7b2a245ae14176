package order

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
)

// Routes registers the module's routes.
func (s *Service) Routes(rt *httpx.Router) {
	rt.API.Member("order_status", huma.Schema{Type: huma.TypeString, Description: "What the order is now, of order-not-payable and order-not-cancelable", Examples: []any{"closed"}})
	rt.API.Member("reason", huma.Schema{Type: huma.TypeString, Description: "why the order was refused or closed, of order-not-payable and order-not-cancelable"})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/orders/{no}", ID: "get-order", Tag: "shopper", Role: auth.Shopper, Class: httpx.Critical,
		Summary: "Follow a number: queued, then an order",
		Description: "Answers for every number that was rushed, from the rush on. While `queued`, ask again after `poll_after_ms`. " +
			"`refused` and `closed` are final for the number and carry a `reason`. `not-entered` means that the number was never " +
			"granted anything, or was refused without having held anything.",
		Refuses: []*fault.Error{ErrNotEntered, bus.ErrUnknown},
	}, s.follow)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/orders", ID: "list-orders", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Class: httpx.Critical,
		Summary: "Your orders, newest first",
	}, s.listOwn)
	s.stores.Routes(rt)
	s.coupons.Routes(rt)
}

type orderInput struct {
	No string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
}

// Number parses a number in a request; text that is not a number matches no order, which
// is none.
func Number(text string, none *fault.Error) (ids.ID, error) {
	no, err := ids.Parse(text)
	if err != nil {
		return ids.ID{}, none.Because(err)
	}
	return no, nil
}

// placeOfRow is the cursor of the page after a row.
func placeOfRow(r orderdb.OrdersOrder) string { return r.OrderNo.String() }

func (s *Service) listOwn(ctx context.Context, in *httpx.ChangesInput) (*httpx.PageOutput[orderevent.OrderView], error) {
	ctx, done, err := s.EnterReading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	user := auth.From(ctx).UserID
	return httpx.PageOfChanges(*in, func(p httpx.PageInput) ([]orderdb.OrdersOrder, error) {
		before, err := p.BeforeNumber()
		if err != nil {
			return nil, err
		}
		rows, err := orderdb.New(s.deps.DB).OrdersOfUser(ctx, orderdb.OrdersOfUserParams{
			Bucket: ids.Bucket(user), UserID: user, Before: before, Most: int32(p.Ask()), //nolint:gosec // a page is small
		})
		if err != nil {
			return nil, ErrReading.Because(err)
		}
		return rows, nil
	}, func(r orderdb.OrdersOrder) time.Time { return r.UpdatedAt },
		func(r orderdb.OrdersOrder) orderevent.OrderView { return orderevent.View(r.Order()) }, placeOfRow)
}

// changedPage is how many orders ChangedOwn reads at a time: the list's largest page.
const changedPage = 100

// ChangedOwn returns the orders of the user in ctx that changed since then, the newest
// first.
func (s *Service) ChangedOwn(ctx context.Context, since time.Time) (changed []orderevent.OrderView, err error) {
	in := httpx.ChangesInput{PageInput: httpx.PageInput{Limit: changedPage}, UpdatedFrom: since}
	for {
		page, err := s.listOwn(ctx, &in)
		if err != nil {
			return nil, err
		}
		changed = append(changed, page.Body.Data...)
		if in.Cursor = page.Body.NextCursor; in.Cursor == "" {
			return changed, nil
		}
	}
}

// newReading makes the slots for list queries: a third of the module's
// connections, so that no crowd of readers can take the connections of the
// writer, the sweeper or the readers of single orders.
func newReading(maxConns int32) chan struct{} { return make(chan struct{}, max(1, maxConns/3)) }

// EnterReading waits briefly for a slot for a list query and returns the
// context to read in: a reader has given up on a list that takes longer than
// Config.ListTimeout.
func (s *Service) EnterReading(ctx context.Context) (reading context.Context, done func(), err error) {
	// A list that has waited this long is one too many; its reader can retry.
	const patience = time.Second
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case s.reading <- struct{}{}:
		reading, cancel := context.WithTimeout(ctx, s.cfg.ListTimeout)
		return reading, func() { cancel(); <-s.reading }, nil
	case <-waiting.Done():
		return nil, nil, errBusy.Because(waiting.Err())
	}
}

var errBusy = fault.Plain(fault.Unavailable,
	fault.T("Too many lists are being read right now. Try again in a moment.", "查询列表的请求过多，请稍后重试。")).After(time.Second)

// ErrReading hides the cause of a failed query from the reader, who can only
// retry.
var ErrReading = fault.Plain(fault.Unavailable,
	fault.T("Orders cannot be read right now. Try again in a moment.", "暂时无法查询订单，请稍后重试。")).After(time.Second)

// OpenUnpaid returns the number of unpaid orders per user, for users with at
// least atLeast of them: at most most users, those with the most orders first.
// It reads the unpaid rows once, by their own index, and takes a slot for list
// queries: it must not hold the connections that the writer needs.
func (s *Service) OpenUnpaid(ctx context.Context, atLeast, most int) (map[int64]int64, error) {
	ctx, done, err := s.EnterReading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	rows, err := orderdb.New(s.deps.DB).OpenUnpaid(ctx, orderdb.OpenUnpaidParams{AtLeast: int64(atLeast), AtMost: int32(most)}) //nolint:gosec // a setting
	if err != nil {
		return nil, fmt.Errorf("order: count open orders: %w", err)
	}
	open := make(map[int64]int64, len(rows))
	for _, r := range rows {
		open[r.UserID] = r.Orders
	}
	return open, nil
}
