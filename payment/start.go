package payment

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/edge/qrcode"
	"stampede/platform/store/pg"
)

// free is the provider name of payments that need no provider: an order of zero
// amount is captured by the request itself, with a ledger row of zero, so that
// every paid order has a payment and the books need no exception.
const free = "free"

// ErrUnavailable means that the provider or our database gave no answer.
// Retrying is safe: a payment that was created meanwhile is found by its
// number. Whether money has moved is unknown, so the error does not say.
var ErrUnavailable = fault.New(fault.Unavailable, "payment-unavailable",
	fault.T("Payment is not available right now", "支付暂不可用，请稍后再试"),
	fault.T("Payment is not available right now. Try again in a moment; the order's status shows whether it is paid.",
		"支付暂不可用，请稍后重试；是否已付款请看订单状态。"),
	fault.T("Try again in half a minute. If it persists, check the provider’s alarms.", "请半分钟后重试；若持续出现，请查看支付渠道告警。")).After(2 * time.Second)

// honest returns err as its caller reads it: an error that is not a fault yet
// comes from a store that is down.
func honest(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	return ErrUnavailable.Because(err)
}

// errNoWay means that the shop has no provider, so that only free orders can be paid.
var errNoWay = ErrUnavailable.After(0).Saying(
	fault.T("Nothing can be paid here yet: the shop has no payment provider.", "商家还没有配置支付渠道，暂时无法付款。"))

// errNoLogin means that the method works only for shoppers whom the provider's app
// knows.
var errNoLogin = fault.Plain(fault.Invalid,
	fault.T("This way to pay works inside the provider's app only: log in with it there, or choose another method.",
		"该支付方式只能在对应的应用内使用：请在其中登录，或换一种支付方式。"))

// errTooLate means that the order can be paid, but its deadline is too near for the
// shopper's choice.
var errTooLate = order.ErrNotPayable.Saying(
	fault.T("Too little time is left to pay this way; least_seconds of GET /api/v1/payment-methods is what each way "+
		"needs before pay_until.",
		"剩余时间不足以使用该支付方式；各方式所需时间见 GET /api/v1/payment-methods 的 least_seconds。"))

// checkout begins payments.
type checkout struct {
	*gateway
	books   *books
	closing *closing
}

type startInput struct {
	No   string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body *struct {
		Provider string          `json:"provider,omitempty" maxLength:"32" doc:"How to pay; the shop's first provider that fits when left out" example:"sandbox"`
		Method   provider.Method `json:"method,omitempty" maxLength:"32" doc:"The provider's way to pay; its first when left out" example:"page"`
		Coupon   *string         `json:"coupon,omitempty" maxLength:"32" doc:"The coupon_no of GET coupons to pay with, or an empty text for none. Left out, the order keeps the coupon it has" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f62"`
	} `required:"false" nameHint:"PaymentRequest"`
	idempotency.Header
}

// way is how a shopper wants to pay; empty fields leave the choice to the shop.
type way struct {
	Provider string
	Method   provider.Method
	Coupon   *string `json:",omitempty"` // "" is none; nil keeps the one that the order has
}

// startRequest is all that distinguishes two requests under one key.
type startRequest struct {
	OrderNo ids.ID
	way
}

// startedPayment is a shopper's view of a payment.
type startedPayment struct {
	PaymentNo ids.ID            `json:"payment_no"`
	OrderNo   ids.ID            `json:"order_no"`
	Provider  string            `json:"provider" example:"sandbox"`
	Method    provider.Method   `json:"method,omitempty" example:"page"`
	Status    string            `json:"status" enum:"created,captured" doc:"captured only for an order that costs nothing"`
	PayURL    string            `json:"pay_url,omitempty" doc:"Where to send the shopper's browser" example:"https://pay.example/checkout/4200001234"`
	QRCode    string            `json:"qr_code,omitempty" doc:"The text of the QR code that the shopper scans with the provider's app" example:"weixin://wxpay/bizpayurl?pr=4200001234"`
	QRImage   string            `json:"qr_image,omitempty" doc:"That code as a picture: a PNG in a data URL, for an <img>" example:"data:image/png;base64,iVBORw0K"`
	JSAPI     map[string]string `json:"jsapi,omitempty" doc:"The parameters of the payment call inside the provider's app"`
	Amount    orderevent.Money  `json:"amount"`
	ExpiresAt string            `json:"expires_at" format:"date-time" doc:"The provider takes no money from then on"`
}

// start is POST orders/{no}/payments.
func (ck *checkout) start(ctx context.Context, in *startInput) (*httpx.Output[startedPayment], error) {
	no, err := ids.Parse(in.No)
	if err != nil {
		return nil, order.ErrNotFound.Because(err)
	}
	var by way
	if in.Body != nil {
		by = way{in.Body.Provider, in.Body.Method, in.Body.Coupon}
	}
	offers, err := ck.offers(by)
	if err != nil {
		return nil, err
	}
	request := startRequest{no, by}
	if len(offers) > 0 { // naming what the shop would choose is the same request
		request.way = way{offers[0].Name, offers[0].Method, by.Coupon}
	}
	// Starting a payment is idempotent anyway, since a repeated request returns the open one. The key adds that the
	// answer stays the same even if that payment has ended meanwhile.
	return httpx.Answered(idempotency.Around(ctx, ck.deps.DB, ck.deps.Log, in.Key, "payment.start", request, func(ctx context.Context) (startedPayment, error) {
		p, err := ck.begin(ctx, no, auth.From(ctx).UserID, by)
		if err != nil {
			return startedPayment{}, honest(err)
		}
		return ck.started(ctx, p), nil
	}))
}

// started is the payment as its shopper reads it.
func (ck *checkout) started(ctx context.Context, p paymentdb.PaymentsPayment) startedPayment {
	v := startedPayment{
		PaymentNo: p.PaymentNo, OrderNo: p.OrderNo, Provider: p.Provider, Method: p.Method, Status: p.Status,
		PayURL: p.Handoff.URL, QRCode: p.Handoff.QR, JSAPI: p.Handoff.JSAPI,
		Amount: orderevent.Money{Amount: p.Amount, Currency: p.Currency}, ExpiresAt: orderevent.Time(p.ExpiresAt),
	}
	if v.QRCode != "" {
		picture, err := qrcode.PNG(v.QRCode)
		if err != nil { // the shopper's page still has the text
			ck.deps.Log.WarnContext(ctx, "payment code not drawn", "provider", p.Provider, "payment_no", p.PaymentNo, "error", err)
			return v
		}
		v.QRImage = "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture)
	}
	return v
}

// startAttempts bounds how often another open payment is closed first; each
// time a concurrent request has to have been faster.
const startAttempts = 3

// begin returns the order's open payment at the provider, or opens one. It fails as
// order's Missing says, with its ErrNotPayable or ErrClosing, with an invalid
// provider or method, or with payment-unavailable, after at most callTimeout plus the
// time for Postgres.
func (ck *checkout) begin(ctx context.Context, no ids.ID, user int64, by way) (paymentdb.PaymentsPayment, error) {
	offers, err := ck.offers(by)
	if err != nil {
		return paymentdb.PaymentsPayment{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout+bookTimeout)
	defer cancel()
	if offers, err = ck.loggedIn(ctx, offers, user); err != nil {
		return paymentdb.PaymentsPayment{}, err
	}
	for range startAttempts {
		p, title, err := ck.open(ctx, no, user, offers, by.Coupon)
		if errors.Is(err, order.ErrNotFound) {
			err = ck.deps.Orders.Missing(ctx, no, user)
		}
		other := errors.Is(err, errOtherCoupon)
		if err != nil && !other || p.Status == statusCaptured {
			return p, err
		}
		wanted := !other && (by.Provider == "" || by.Provider == p.Provider) && (by.Method == "" || by.Method == p.Method)
		if prov, here := ck.named[p.Provider]; wanted && here {
			if p.Handoff.Usable(time.Now()) {
				return p, nil
			}
			created, err := ck.create(ctx, prov, &p, title)
			if err != nil || created {
				return p, err
			}
		}
		// The open payment is not given up for a way that would be refused.
		if !wanted && !errors.Is(err, errFreeNow) {
			if err := ck.replaceable(p, offers); err != nil {
				return p, err
			}
		}
		// The shopper cannot or will not pay this payment, or not this amount. It is closed at its provider
		// before another one is opened; if it was paid, the order is now paid and says so.
		if _, err := ck.closing.closeOne(ctx, p); err != nil {
			return p, ErrUnavailable.Because(err)
		}
	}
	return paymentdb.PaymentsPayment{}, order.ErrClosing
}

// create opens a payment of ours at its provider and notes the handoff. created is
// false if it can no longer be paid and has to be closed. On an error the shopper may
// try again: the next request creates the same number.
func (ck *checkout) create(ctx context.Context, prov provider.Provider, p *paymentdb.PaymentsPayment, title string) (created bool, err error) {
	charge := provider.Charge{
		PaymentNo: p.PaymentNo, Method: p.Method, Title: title, Amount: p.Amount, Currency: p.Currency, ExpiresAt: p.ExpiresAt,
		NotifyURL: ck.callbackURL(notifyPath, p.Provider), ReturnURL: ck.returnURL(p.OrderNo), Address: httpx.ClientAddr(ctx),
	}
	if ck.deps.OpenID != nil {
		charge.OpenID = func(ctx context.Context, app string) (string, error) { return ck.deps.OpenID(ctx, p.UserID, app) }
	}
	p.Handoff, err = prov.Create(ctx, charge)
	switch {
	case err == nil:
		// No row is noted if the payment ended while the provider created it. A provider that forgets closings of
		// numbers it did not know now has an open payment.
		n, err := ck.q.NoteHandoff(ctx, paymentdb.NoteHandoffParams{Handoff: p.Handoff, PaymentNo: p.PaymentNo, Bucket: p.Bucket})
		if err != nil {
			return false, fmt.Errorf("payment: note the handoff of %s: %w", p.PaymentNo, err)
		}
		return n == 1, nil
	case errors.Is(err, provider.ErrClosed):
		return false, nil // it has ended at the provider and our row has not been updated
	case errors.Is(err, provider.ErrNoLogin):
		if _, err := ck.closing.closeOne(ctx, *p); err != nil { // another way to pay shall not wait for it
			return false, ErrUnavailable.Because(err)
		}
		return false, errNoLogin
	case errors.Is(err, provider.ErrRefused) && time.Until(p.ExpiresAt) < prov.Profile().MinWindow:
		return false, nil // the last moment to pay passed in transit; the order says so
	case errors.Is(err, provider.ErrRefused):
		ck.deps.Log.ErrorContext(ctx, "provider refuses a payment", "provider", p.Provider, "payment_no", p.PaymentNo, "error", err)
		_, closeErr := ck.closing.closeOne(ctx, *p) // if this fails, the payment expires
		return false, ErrUnavailable.Because(errors.Join(err, closeErr))
	default:
		return false, ErrUnavailable.Because(err)
	}
}

// returnURL is where the shopper's browser goes after paying. It names the order: the
// tab, or the browser, that returns may have no state.
func (ck *checkout) returnURL(no ids.ID) string {
	if ck.cfg.ReturnURL == "" {
		return ""
	}
	return ck.cfg.ReturnURL + "?order=" + no.String()
}

// statusCaptured is a payment row's status once its money has moved.
const statusCaptured = "captured"

// errOtherCoupon means that the open payment was made with another coupon, or without
// one, and has to be closed first.
var errOtherCoupon = errors.New("payment: the open payment has another coupon")

// errFreeNow is errOtherCoupon for an order that costs nothing with its coupon, and so
// needs no way to pay.
var errFreeNow = fmt.Errorf("%w, and costs nothing", errOtherCoupon)

// open returns the order's open payment, at any provider, or writes a new one by the
// first offer whose shortest window still fits, in one transaction that locks the
// order's row, so that neither a closing nor another request can intervene. An order
// of zero amount is paid there and needs no offer. With a coupon, the order has it in
// the same transaction; if that changes the order and there is an open payment, open
// fails with errOtherCoupon and changes nothing.
func (ck *checkout) open(ctx context.Context, no ids.ID, user int64, offers []offer, coupon *string) (p paymentdb.PaymentsPayment, title string, err error) {
	var done settled
	var amended orderevent.Order
	item := int64(0)
	made, changed := false, false
	err = pg.InTxPlannedOnce(ctx, ck.deps.DB, func(tx pgx.Tx) error {
		done, made, changed = settled{}, false, false // InTx may run this again
		o, err := ck.deps.Orders.Payable(ctx, tx, no, user)
		if err != nil {
			return err
		}
		title, item = o.Title, o.ItemID
		q := ck.q.WithTx(tx)
		if coupon != nil {
			var found bool
			if p, found, err = openOne(ctx, q, no); err != nil {
				return err
			}
			if o, changed, err = ck.deps.Orders.Choose(ctx, tx, o, *coupon); err != nil {
				return err
			}
			if amended = o; changed && found && o.Amount() == 0 {
				return errFreeNow
			}
			if changed && found {
				return errOtherCoupon
			}
		}
		if p, made, err = ck.openRow(ctx, q, no, o, offers); err != nil {
			return err
		}
		if p.Provider == free {
			p.Status = statusCaptured
			done, err = ck.books.settleIn(ctx, tx, free, provider.Capture{
				PaymentNo: p.PaymentNo, Transaction: free + "-" + p.PaymentNo.String(), Amount: 0, Currency: p.Currency,
			}, asked)
		}
		return err
	})
	if err == nil && changed {
		ck.deps.Orders.Refresh(ctx, amended)
	}
	if err == nil && made {
		ck.metrics.started.WithLabelValues(p.Provider).Inc()
		ck.deps.Tally.Count(item, stagePayments, "started", 1)
	}
	if err == nil && done.outcome != "" {
		ck.books.announce(ctx, free, provider.Capture{PaymentNo: p.PaymentNo}, done)
	}
	return p, title, err
}

// openOne returns an order's open payment, if it has one.
func openOne(ctx context.Context, q *paymentdb.Queries, no ids.ID) (p paymentdb.PaymentsPayment, found bool, err error) {
	p, err = q.OpenPayment(ctx, paymentdb.OpenPaymentParams{OrderNo: no, Bucket: no.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) {
		return p, false, nil
	}
	if err != nil {
		return p, false, fmt.Errorf("payment: read open payment of %s: %w", no, err)
	}
	return p, true, nil
}

// openRow writes an order's payment by the first offer whose shortest window fits
// before the deadline: a provider's expiry must never be later than ours. If the order
// has an open payment already, it returns that one, and made is false.
func (ck *checkout) openRow(ctx context.Context, q *paymentdb.Queries, no ids.ID, o orderevent.Order, offers []offer) (p paymentdb.PaymentsPayment, made bool, err error) {
	if o.Amount() == 0 {
		offers = []offer{{Profile: provider.Profile{Name: free}}}
	}
	if len(offers) == 0 {
		return p, false, errNoWay
	}
	if offers, err = ck.taking(offers, o.Currency); err != nil {
		return p, false, err
	}
	// A payment may end without the order's lock, but none opens without it: if the open payment that stopped the first
	// round has ended before it is read, the second round finds none.
	for range 2 {
		for _, by := range offers {
			p, err = q.StartPayment(ctx, paymentdb.StartPaymentParams{
				Bucket: no.Bucket(), PaymentNo: ids.NewFor(o.UserID), OrderNo: no, UserID: o.UserID, Provider: by.Name, Method: by.Method,
				Amount: o.Amount(), Currency: o.Currency, ExpiresAt: o.PayDeadline,
				QueryAfterMs: ck.cfg.QueryAfter.Milliseconds(), LeastWindowMs: by.MinWindow.Milliseconds(),
			})
			if err == nil {
				return p, true, nil
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return p, false, fmt.Errorf("payment: start for %s: %w", no, err)
			}
		}
		var found bool
		if p, found, err = openOne(ctx, q, no); err != nil || found {
			return p, false, err
		}
	}
	return p, false, errTooLate.With("order_status", o.Status)
}
