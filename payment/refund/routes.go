package refund

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/store/pg"
)

// Routes registers the package's routes.
func (s *Service) Routes(rt *httpx.Router) {
	rt.API.Member("left", huma.Schema{Ref: "#/components/schemas/Money", Description: "What can still be refunded of the order, of refund-exceeds and payment-charged-back"})
	rt.API.Member("refund_status", huma.Schema{Type: huma.TypeString, Description: "What the refund is now, of refund-not-waiting", Examples: []any{succeeded}})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/orders/{no}/refunds", ID: "refund-order", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper,
		Summary: "Return a paid order for its money",
		Description: "The whole order, within the time after paying that the activity gives (`refund_within_hours`), and before the order is completed. " +
			"The order is `refunding` until the provider has paid the money back, then `refunded`.",
		Refuses: []*fault.Error{ErrNotRefundable, ErrTooMuch, errChargedBack, errNotAllowed},
	}, s.askAsShopper)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/orders/{no}/refunds", ID: "admin-refund-order", Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite,
		Summary: "Refund a paid order, in whole or in part", Audit: "refund.request",
		Description: "Without an amount, all that is left; with one, an Idempotency-Key is required, because a repeated request would pay twice. A part leaves the order as it is; once its refunds reach all that was paid it is `refunding`, and its units " +
			"return to the stock or are written off when the money is back. Above the shop's limit (`--refund-approval-above`) the refund is `awaiting_approval`.",
		Refuses: []*fault.Error{ErrNotRefundable, ErrTooMuch, errChargedBack, ErrNothing, errNoKey},
	}, s.askAsOperator)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/refunds", ID: "admin-list-refunds", Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead,
		Summary:     "Refunds, newest first",
		Description: "`awaiting_approval` and `failed` are the operators' worklist.",
	}, s.list)
	for _, d := range []struct {
		verb, summary, description string
		refuses                    []*fault.Error
		do                         func(ctx context.Context, no ids.ID, key string) (AdminRefund, error)
	}{
		{
			"approve", "Approve a refund", "By another operator than the one who asked for it, or who made the API key that did. It is then requested from the provider.",
			[]*fault.Error{errNotThis, errSecond, errChargedBack},
			s.approve,
		},
		{
			"reject", "Reject a refund", "The order stays as it is; another refund can be asked for.",
			[]*fault.Error{errNotThis},
			s.reject,
		},
		{
			"retry", "Retry a failed refund", "The answer is a new refund of the same money; the failed one is `replaced`.",
			[]*fault.Error{errNotThis, errChargedBack},
			s.retry,
		},
		{
			"end-by-chargeback", "Note that a chargeback has taken a failed refund's money",
			"For a payment whose chargeback the shop has lost: the shopper has the money from the bank. The refund cannot be retried any more, " +
				"unless the bank gives the money back: then it is `failed` again.",
			[]*fault.Error{errNotThis, errNotLost},
			s.endByChargeback,
		},
	} {
		httpx.Register(rt.API, httpx.Op{
			Method: http.MethodPost, Path: "/api/v1/admin/refunds/{no}/" + d.verb, ID: "admin-" + d.verb + "-refund", Tag: "operator", Role: auth.Operator, Audit: "refund." + d.verb,
			Summary: d.summary, Description: d.description, Refuses: d.refuses,
		}, func(ctx context.Context, in *decideInput) (*httpx.Output[AdminRefund], error) {
			no, err := ids.Parse(in.No)
			if err != nil {
				return nil, errNoRefund.Because(err)
			}
			return httpx.Answered(d.do(ctx, no, in.Key))
		})
	}
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/refunds/{no}/settle-by-hand", ID: "admin-settle-refund-by-hand", Tag: "operator", Role: auth.Operator,
		Summary: "Note that a failed refund was paid back by hand", Audit: "refund.settle-by-hand",
		Description: "For money that an operator has paid back in another way, such as a bank transfer. It is an end: the refund cannot be retried any more.",
		Refuses:     []*fault.Error{errNotThis},
	}, s.paidByHand)
}

type askInput struct {
	No string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	idempotency.Header
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why, in the shopper's words" example:"It arrived broken."`
	} `required:"false" nameHint:"ShopperRefundRequest"`
}

// askAsShopper is POST orders/{no}/refunds.
func (s *Service) askAsShopper(ctx context.Context, in *askInput) (*httpx.Output[RefundView], error) {
	no, err := ids.Parse(in.No)
	by := auth.From(ctx).UserID
	if err != nil || no.Bucket() != ids.Bucket(by) {
		return nil, order.ErrNotFound.Because(err)
	}
	note := ""
	if in.Body != nil {
		note = plaintext.Clean(in.Body.Reason)
	}
	made, err := s.Request(ctx, in.Key, Request{OrderNo: no, Reason: ByShopper, Note: note, By: by})
	return httpx.Answered(made.RefundView, err)
}

type orderInput struct {
	No string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	idempotency.Header
	Body struct {
		Amount *orderevent.Money `json:"amount,omitempty" doc:"In the order's currency; left out: all that is left. 0 is refused"`
		Reason string            `json:"reason" minLength:"1" maxLength:"500" doc:"Why; shown to operators" example:"The shopper sent it back."`
		Units  string            `json:"units,omitempty" enum:"return,write_off" doc:"What becomes of the units when all is refunded: back on sale, or never sold again because they are with the shopper, damaged or lost. Left out: the activity's rule, and write_off for an order that is completed"`
	} `nameHint:"RefundRequest"`
}

// askAsOperator is POST admin/orders/{no}/refunds.
func (s *Service) askAsOperator(ctx context.Context, in *orderInput) (*httpx.Output[AdminRefund], error) {
	no, err := ids.Parse(in.No)
	if err != nil {
		return nil, errNoOrder.Because(err)
	}
	return httpx.Answered(s.Request(ctx, in.Key, Request{
		OrderNo: no, Amount: in.Body.Amount, Reason: ByOperator, Note: in.Body.Reason, By: auth.From(ctx).UserID, Units: in.Body.Units,
	}))
}

type decideInput struct {
	No string `path:"no" doc:"Refund number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	idempotency.Header
}

type byHandInput struct {
	No string `path:"no" doc:"Refund number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	idempotency.Header
	Body struct {
		Receipt string `json:"receipt" minLength:"1" maxLength:"100" pattern:"\\S" doc:"The number on the receipt of that payment" example:"ICBC-20261123-0042"`
	} `nameHint:"SettleByHandRequest"`
}

func (s *Service) paidByHand(ctx context.Context, in *byHandInput) (*httpx.Output[AdminRefund], error) {
	no, err := ids.Parse(in.No)
	if err != nil {
		return nil, errNoRefund.Because(err)
	}
	return httpx.Answered(s.settleByHand(ctx, no, in.Key, in.Body.Receipt))
}

type listInput struct {
	httpx.ChangesInput
	Status string `query:"status" enum:"awaiting_approval,rejected,requested,succeeded,failed,settled_by_hand,charged_back,replaced" doc:"Only in this state"`
}

// list is GET admin/refunds.
func (s *Service) list(ctx context.Context, in *listInput) (*httpx.PageOutput[AdminRefund], error) {
	ctx, cancel := context.WithTimeout(ctx, bookTimeout)
	defer cancel()
	return pg.Read(ctx, s.deps.Standby, s.deps.DB, func(ctx context.Context, db pg.DB) (*httpx.PageOutput[AdminRefund], error) {
		return listed(ctx, paymentdb.New(db), in)
	})
}

func listed(ctx context.Context, q *paymentdb.Queries, in *listInput) (*httpx.PageOutput[AdminRefund], error) {
	return httpx.PageOfChanges(in.ChangesInput, func(p httpx.PageInput) (rows []paymentdb.PaymentsRefund, err error) {
		before, err := p.BeforeNumber()
		if err != nil {
			return nil, err
		}
		atMost := int32(p.Ask()) //nolint:gosec // a page is small
		if in.Status == "" {
			rows, err = q.ListRefunds(ctx, paymentdb.ListRefundsParams{Before: before, AtMost: atMost})
		} else {
			rows, err = q.RefundsWithStatus(ctx, paymentdb.RefundsWithStatusParams{Status: in.Status, Before: before, AtMost: atMost})
		}
		if err != nil {
			return nil, fault.Plain(fault.Unavailable,
				fault.T("The refunds cannot be read right now; ask again in a moment.", "暂时无法查询退款，请稍后再查。")).Because(fmt.Errorf("refund: list: %w", err))
		}
		return rows, nil
	}, func(r paymentdb.PaymentsRefund) time.Time { return r.UpdatedAt }, viewOf, func(r paymentdb.PaymentsRefund) string { return r.RefundNo.String() })
}
