package desk

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/order"
	"stampede/order/details"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/qrcode"
	"stampede/platform/store/pg"
)

// Why an order's details cannot be changed, or keep it from being paid.
var (
	errDetailsFixed = fault.New(fault.Conflict, "details-fixed",
		fault.T("The details can no longer be changed", "订单信息已无法修改"),
		fault.T("The details of an order are fixed when its first payment begins.", "开始付款后，订单信息不能再修改。"),
		fault.T("Ask the shop to change them, or cancel the order and buy again.", "请联系商家修改，或取消订单后重新购买。"))
)

func (s *Service) detailsRoutes(rt *httpx.Router) {
	rt.API.Member("fields", huma.Schema{
		Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Examples: []any{[]string{"phone", "address"}},
		Description: "What is missing, of details-missing",
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: "/api/v1/orders/{no}/details", ID: "put-order-details", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Class: httpx.Critical,
		Summary: "Settle an order before its payment: how the goods reach you, and what the activity asks for",
		Description: "Replaces what was settled before, and changes the order's freight and amount. Possible while the order waits for payment and no payment " +
			"of it was begun. What is asked is in `checkout` of the order's document.",
		Refuses: []*fault.Error{errDetailsFixed, order.ErrNotPayable, order.ErrClosing, order.ErrQueued},
	}, s.putDetails)
}

type detailsInput struct {
	No   string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body details.Choices
}

// putDetails settles an order. A payment that begins meanwhile waits for the row
// lock, and then finds the new amount.
func (s *Service) putDetails(ctx context.Context, in *detailsInput) (*httpx.Output[wholeOrder], error) {
	no, err := order.Number(in.No, order.ErrNotFound)
	if err != nil {
		return nil, err
	}
	user := auth.From(ctx).UserID
	var amended []orderevent.Order
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		amended, err = s.settleDetails(ctx, tx, no, user, in.Body)
		return err
	})
	if errors.Is(err, order.ErrNotFound) {
		err = s.deps.Orders.Missing(ctx, no, user)
	}
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Is(order.ErrNotPayable) {
		err = refusal.Saying(
			fault.T("The details of an order can be changed only while it waits for payment, and before its deadline.",
				"只能在付款截止前修改待付款订单的信息。"))
	}
	if err != nil {
		return nil, err
	}
	if len(amended) > 0 {
		s.deps.Orders.Refresh(ctx, amended...)
	}
	return s.readDocument(ctx, no, user)
}

// settleDetails writes an order's details and, if its freight changes with them, the
// order, which it then returns.
func (s *Service) settleDetails(ctx context.Context, tx pgx.Tx, no ids.ID, user int64, in details.Choices) ([]orderevent.Order, error) {
	o, err := s.deps.Orders.LockPending(ctx, tx, no, user)
	if err != nil {
		return nil, err
	}
	begun, err := s.deps.Payments.Begun(ctx, tx, no)
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
	amended, err := s.deps.Orders.SetFreight(ctx, tx, o, freight)
	return []orderevent.Order{amended}, err
}

func (s *Service) pickupRoutes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/orders/{no}/pickup-code.png", ID: "get-pickup-code-image", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper,
		Summary: "An order's pickup code as a QR picture", Files: []string{"image/png"},
	}, s.pickupPicture)
}

var errNoCode = fault.Plain(fault.NotFound,
	fault.T("This order has no pickup code, or not any more: it has one from the payment until it is picked up.",
		"该订单没有提货码：付款后至取货前才有。"))

// pickupPicture draws the code of a paid order that is to be picked up.
func (s *Service) pickupPicture(ctx context.Context, in *orderInput) (*httpx.File, error) {
	no, err := order.Number(in.No, order.ErrNotFound)
	if err != nil {
		return nil, err
	}
	rows, err := table.Many(ctx, s.deps.DB, []ids.ID{no})
	if err != nil {
		return nil, order.ErrReading.Because(err)
	}
	if o, ok := rows[no]; !ok || o.UserID != auth.From(ctx).UserID {
		return nil, order.ErrNotFound
	} else if o.Status != orderevent.StatusPaid {
		return nil, errNoCode
	}
	d, _, err := details.Read(ctx, s.deps.DB, no)
	if err != nil {
		return nil, order.ErrReading.Because(err)
	}
	if d.Code == "" {
		return nil, errNoCode
	}
	png, err := qrcode.PNG(d.Code)
	if err != nil {
		return nil, err
	}
	return &httpx.File{CacheControl: httpx.NoStore, ContentType: "image/png", Body: png}, nil
}
