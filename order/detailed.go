package order

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/order/acts"
	"stampede/order/details"
	"stampede/order/dispute"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
)

// Why an order's details cannot be changed, or keep it from being paid.
var (
	ErrDetailsMissing = fault.New(fault.Conflict, "details-missing",
		fault.T("Details of this order are missing", "请先填写订单信息"),
		fault.T("Before this order can be paid, send what its checkout asks for to PUT /api/v1/orders/{no}/details.",
			"付款前，请将所需信息提交到 PUT /api/v1/orders/{no}/details。"),
		fault.T("Fill in the order’s details, then pay.", "请先填写订单所需信息，再付款。"))
	errDetailsFixed = fault.New(fault.Conflict, "details-fixed",
		fault.T("The details can no longer be changed", "订单信息已无法修改"),
		fault.T("The details of an order are fixed when its first payment begins.", "开始付款后，订单信息不能再修改。"),
		fault.T("Ask the shop to change them, or cancel the order and buy again.", "请联系商家修改，或取消订单后重新购买。"))
)

func (s *Service) detailRoutes(rt *httpx.Router) {
	rt.API.Member("fields", huma.Schema{
		Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Examples: []any{[]string{"phone", "address"}},
		Description: "What is missing, of details-missing",
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: "/api/v1/orders/{no}/details", ID: "put-order-details", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Class: httpx.Critical,
		Summary: "Settle an order before its payment: how the goods reach you, and what the activity asks for",
		Description: "Replaces what was settled before, and changes the order's freight and amount. Possible while the order waits for payment and no payment " +
			"of it was begun. What is asked is in `checkout` of the order's document.",
		Problems: map[int]string{http.StatusNotFound: "not-found", http.StatusConflict: "details-fixed, order-not-payable, order-closing, order-queued", http.StatusUnprocessableEntity: "invalid"},
	}, s.putDetails)
}

type detailsInput struct {
	No   string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body details.Choices
}

// putDetails settles an order. A payment that begins meanwhile waits for the row
// lock, and then finds the new amount.
func (s *Service) putDetails(ctx context.Context, in *detailsInput) (*httpx.Output[wholeOrder], error) {
	path := orderInput{No: in.No}
	no, err := path.number()
	if err != nil {
		return nil, err
	}
	user := auth.From(ctx).UserID
	var amended []orderevent.Order
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		amended, err = s.settleDetails(ctx, tx, no, user, in.Body)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		err = s.Missing(ctx, no, user)
	}
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Is(ErrNotPayable) {
		err = refusal.Saying(
			fault.T("The details of an order can be changed only while it waits for payment, and before its deadline.",
				"只能在付款截止前修改待付款订单的信息。"))
	}
	if err != nil {
		return nil, err
	}
	if len(amended) > 0 {
		s.Show(ctx, amended...)
	}
	return s.readDocument(ctx, no, user)
}

// settleDetails writes an order's details and, if its freight changes with them, the
// order, which it then returns.
func (s *Service) settleDetails(ctx context.Context, tx pgx.Tx, no ids.ID, user int64, in details.Choices) ([]orderevent.Order, error) {
	o, err := s.lockPending(ctx, tx, no, user)
	if err != nil {
		return nil, err
	}
	begun, err := s.peers.Payments.Begun(ctx, tx, no)
	if err != nil {
		return nil, err
	}
	if begun {
		return nil, errDetailsFixed
	}
	sale, err := s.deps.Plan.SaleOf(ctx, o.ItemID)
	if err != nil {
		return nil, err
	}
	if err := in.Check(&sale.Checkout); err != nil {
		return nil, err
	}
	if err := details.Put(ctx, tx, no, user, &in); err != nil {
		return nil, err
	}
	freight := sale.Checkout.FreightOf(in.Way, o.Goods())
	if freight == o.Freight {
		return nil, nil
	}
	amended, err := amend(ctx, tx, no, "freight", freight, o.Discount)
	return []orderevent.Order{amended}, err
}

// detailed fails with ErrDetailsMissing if an order that tx has locked cannot be paid
// before its shopper has settled it. What was settled satisfied the activity, whose
// checkout has not changed since.
func (s *Service) detailed(ctx context.Context, tx pgx.Tx, o *orderevent.Order) error {
	sale, err := s.deps.Plan.SaleOf(ctx, o.ItemID)
	if err != nil || sale.Checkout.Settled() {
		return err
	}
	ok, err := details.Exist(ctx, tx, o.No)
	if err == nil && !ok {
		err = ErrDetailsMissing.With("fields", details.Missing(&sale.Checkout))
	}
	return err
}

// Forget is called in the transaction in which a user deletes the account.
func (s *Service) Forget(ctx context.Context, tx pgx.Tx, user int64) error {
	return errors.Join(details.Forget(ctx, tx, user), dispute.Forget(ctx, tx, user), acts.Forget(ctx, tx, user))
}
