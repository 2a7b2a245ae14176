package search

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/seckill/seckillevent"
)

// maxRead is the most rows that a page reads: some ten milliseconds of Postgres and of
// this process.
const maxRead = 5000

// Phones is what the search asks of the shoppers' accounts.
type Phones interface {
	// Searched returns the user with a phone, 0 for none, and records the search. Its
	// error is a fault: the caller may not search by phone, or it is no phone.
	Searched(ctx context.Context, phone string) (user int64, err error)
	// PhonesOf returns the phones of those of the users who have one, in E.164.
	PhonesOf(ctx context.Context, users []int64) (map[int64]string, error)
}

// Payments is what the search asks of payment.
type Payments interface {
	// OrdersOfPayment returns the order of a payment, or none.
	OrdersOfPayment(ctx context.Context, paymentNo ids.ID) ([]ids.ID, error)
	// OrdersOfTransaction returns the orders that money moved for under a provider's
	// number.
	OrdersOfTransaction(ctx context.Context, txn string) ([]ids.ID, error)
	// RefundsOf returns what went back of the orders' money, and of which of them more may:
	// a refund is open. Orders without refunds are in neither.
	RefundsOf(ctx context.Context, orders []ids.ID) (refunded map[ids.ID]int64, open map[ids.ID]bool, err error)
}

// Plan is what the search asks of seckill's plan.
type Plan interface {
	// WhenOnSale returns the first opening and the last closing of the sessions
	// that match the item, the session and the activity, where nil matches any;
	// known is false if there is none.
	WhenOnSale(ctx context.Context, item, session, activity *int64) (opens, closes time.Time, known bool, err error)
	// ItemsOfSKU returns the latest items of a SKU, and the first opening and the last
	// closing of their sessions.
	ItemsOfSKU(ctx context.Context, sku string, most int) (items []int64, opens, closes time.Time, err error)
	// SaleOf returns what was on sale as an item, from memory where it can; the zero value
	// if there is no such item.
	SaleOf(ctx context.Context, item int64) (seckillevent.Sale, error)
}

// Deps are the search's dependencies; all but Accounts and Zone are required.
type Deps struct {
	DB       *pgxpool.Pool
	Standby  *pg.Standby // reads the pages
	Accounts Phones
	Payments Payments
	Plan     Plan
	Log      *slog.Logger
	// Zone is the shop's, in which people read times; nil is UTC.
	Zone *time.Location
	// Enter waits for a slot for a list query and returns the context to read in: a
	// list must not occupy the connections that the writer needs.
	Enter func(ctx context.Context) (reading context.Context, done func(), err error)
}

// Service is the search. Safe for concurrent use.
type Service struct {
	deps Deps
	// maxRead is the constant; a test's is smaller.
	maxRead int
	// exports has a place for each export under way.
	exports chan struct{}
}

// New returns the search.
func New(deps Deps) *Service {
	return &Service{deps: deps, maxRead: maxRead, exports: make(chan struct{}, maxExports)}
}

// Routes registers the routes.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/orders", ID: "admin-list-orders", Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead,
		Summary: "Orders, newest first",
		Description: "All filters given apply together. With `paid_from` or `paid_until` the last paid are first, with `updated_from` or `updated_until` the last changed, " +
			"after those that wait for their payment, with `to_ship` the first paid; a user's, a number's and disputed orders are always by number. Every page is answered as fast: it reads a bounded " +
			"number of orders, so that one whose matches are thinly spread has fewer rows than its limit, even none; there is more as long as there is a `next_cursor`.",
	}, s.list)
	s.exportRoute(rt.API)
}

// listInput is a page of the list.
type listInput struct {
	httpx.PageInput
	Filters
	Parcels bool `query:"parcels" doc:"With what sending them takes: details, shipment and refunded"`
}

var (
	errTooWide = fault.Plain(fault.Unavailable,
		fault.T("Postgres took too long to find these orders. Try again in a moment, or narrow the list by from and "+
			"to, or by a user_id, an item_id, a session_id or an activity_id.",
			"查询订单耗时过长，请稍后重试，或用 from 和 to，或按 user_id、item_id、session_id、activity_id 缩小范围。")).After(time.Second)
	errReading = fault.Plain(fault.Unavailable,
		fault.T("Orders cannot be read right now. Try again in a moment.", "暂时无法查询订单，请稍后重试。")).After(time.Second)
)

// list answers a page of orders from Postgres.
func (s *Service) list(ctx context.Context, in *listInput) (*httpx.PageOutput[AdminOrderRow], error) {
	f, err := s.filterOf(ctx, &in.Filters)
	if err != nil {
		return nil, err
	}
	f.parcels = in.Parcels
	rows, next, err := s.page(ctx, f, in.Cursor, in.Limit, s.maxRead)
	if err != nil {
		return nil, err
	}
	return httpx.Answer(httpx.Page[AdminOrderRow]{Data: rows, NextCursor: next}), nil
}

// page reads up to limit orders that match, of at most most, in a slot for list
// queries.
func (s *Service) page(ctx context.Context, f *filter, cursor string, limit, most int) ([]AdminOrderRow, string, error) {
	reading, done, err := s.deps.Enter(ctx)
	if err != nil {
		return nil, "", err
	}
	defer done()
	var next string
	rows, err := pg.Read(reading, s.deps.Standby, s.deps.DB, func(ctx context.Context, db pg.DB) ([]AdminOrderRow, error) {
		found, after, err := f.collect(ctx, db, cursor, limit, most)
		if next = after; err != nil {
			return nil, err
		}
		return s.views(ctx, db, f, found)
	})
	var refused *fault.Error
	switch {
	case err == nil:
		return rows, next, nil
	case errors.As(err, &refused):
		return nil, "", err
	case reading.Err() != nil && ctx.Err() == nil:
		return nil, "", errTooWide.Because(err)
	default:
		return nil, "", errReading.Because(err)
	}
}
