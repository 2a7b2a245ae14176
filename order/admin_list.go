package order

import (
	"context"
	"time"

	"stampede/order/internal/orderdb"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
)

// adminListInput narrows the list; a filter that is not given matches
// everything.
type adminListInput struct {
	httpx.PageInput
	OrderNo    string    `query:"order_no" doc:"The one order of this number" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	ItemID     int64     `query:"item_id" minimum:"1" doc:"Only of this item"`
	SessionID  int64     `query:"session_id" minimum:"1" doc:"Only of this session"`
	ActivityID int64     `query:"activity_id" minimum:"1" doc:"Only of this activity"`
	UserID     int64     `query:"user_id" minimum:"1" doc:"Only of this user"`
	Status     string    `query:"status" enum:"pending_payment,paid,completed,closed,refused,refunding,refunded,refund_failed" doc:"Only in this state"`
	Disputed   bool      `query:"disputed" doc:"Only with a dispute that is not closed"`
	From       time.Time `query:"from" doc:"Orders created at this time or later" example:"2026-11-11T20:00:00+08:00"`
	To         time.Time `query:"to" doc:"Orders created before this time" example:"2026-11-11T21:00:00+08:00"`
}

// Errors of bad filters, and of lists that would take too long.
var (
	errBadNumber = fault.Plain(fault.Invalid, "order_no is no order number: those have 32 hex digits.")
	errNoSpan    = fault.Plain(fault.Invalid, "from must be before to.")
	errTooWide   = fault.Plain(fault.Unavailable, "Finding these orders takes too long. Narrow the list by from and to, or by a user_id, an item_id, a session_id or an activity_id.").After(time.Second)
)

// adminList answers a page of orders from Postgres. It takes one of the slots
// for list queries, as shoppers' lists do: a query that scans far back must not
// occupy the connections that the writer needs.
func (s *Service) adminList(ctx context.Context, in *adminListInput) (*httpx.PageOutput[adminOrder], error) {
	p, where, err := in.query()
	if err != nil {
		return nil, err
	}
	reading, done, err := s.enterReading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	rows, err := s.listIn(reading, p, where, in.Disputed)
	if err != nil && reading.Err() != nil && ctx.Err() == nil {
		return nil, errTooWide.Because(err)
	}
	if err != nil {
		return nil, errReading(err)
	}
	return httpx.PageOf(in.PageInput, rows, func(r orderdb.OrdersOrder) adminOrder { return adminView(fromRow(r)) }, placeOfRow), nil
}

// listIn reads a page of orders whose numbers lie in where.
func (s *Service) listIn(ctx context.Context, p orderdb.ListOrdersParams, where numberSpan, disputed bool) ([]orderdb.OrdersOrder, error) {
	sold, err := s.onSale(ctx, p.ItemID, p.SessionID, p.ActivityID)
	if err != nil {
		return nil, err
	}
	where = where.within(sold)
	p.Since, p.Before = where.since, where.before
	if disputed {
		return orderdb.New(s.deps.DB).ListDisputedOrders(ctx, orderdb.ListDisputedOrdersParams(p))
	}
	return orderdb.New(s.deps.DB).ListOrders(ctx, p)
}

// query checks the filters and returns the bounds that they set on order
// numbers.
func (in *adminListInput) query() (p orderdb.ListOrdersParams, where numberSpan, err error) {
	p.Most = int32(in.Ask()) //nolint:gosec // a page is small
	where = everyNumber
	if where.before, err = in.BeforeNumber(); err != nil {
		return p, where, err
	}
	p.ItemID, p.SessionID, p.ActivityID, p.UserID = given(in.ItemID), given(in.SessionID), given(in.ActivityID), given(in.UserID)
	p.Status = given(in.Status)
	if in.UserID != 0 {
		p.Bucket = new(ids.Bucket(in.UserID)) // prunes to one partition
	}
	if in.OrderNo != "" {
		no, err := ids.Parse(in.OrderNo)
		if err != nil {
			return p, where, errBadNumber.Because(err)
		}
		p.Bucket = new(no.Bucket()) // if user_id names another user, the two filters match nothing
		where = where.within(only(no))
	}
	if !in.From.IsZero() {
		p.CreatedFrom = &in.From
	}
	if !in.To.IsZero() {
		p.CreatedTo = &in.To
	}
	if p.CreatedFrom != nil && p.CreatedTo != nil && !in.From.Before(in.To) {
		return p, where, errNoSpan
	}
	return p, where.within(createdIn(p.CreatedFrom, p.CreatedTo)), nil
}

// given is a filter's value, nil when it is left out.
func given[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}
