package payment

import (
	"context"
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
	"stampede/platform/store/pg"
)

// free is the provider name of payments that need no provider: an order of zero
// amount is captured by the request itself, with a ledger row of zero, so that
// every paid order has a payment and the books need no exception.
const free = "free"

// errUnavailable means that the provider or our database gave no answer.
// Retrying is safe: a payment that was created meanwhile is found by its
// number. Whether money has moved is unknown, so the error does not say.
var errUnavailable = fault.New(fault.Unavailable, "payment-unavailable", fault.Titles{"Payment is not available right now", "支付暂不可用，请稍后再试"},
	"Payment is not available right now. Try again in a moment; the order's status shows whether it is paid.").After(2 * time.Second)

// honest returns err as its caller reads it: an error that is not a fault yet
// comes from a store that is down.
func honest(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	return errUnavailable.Because(err)
}

// errNoWay means that the shop has no provider, so that only free orders can be paid.
var errNoWay = errUnavailable.After(0).Saying("Nothing can be paid here yet: the shop has no payment provider.")

type startInput struct {
	No   string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body *struct {
		Provider string `json:"provider,omitempty" maxLength:"32" doc:"How to pay; the shop's first provider when left out" example:"sandbox"`
	} `required:"false" nameHint:"PaymentRequest"`
	idempotency.Header
}

// startRequest is all that distinguishes two requests under one key.
type startRequest struct {
	OrderNo  ids.ID
	Provider string
}

// startedPayment is a shopper's view of a payment.
type startedPayment struct {
	PaymentNo ids.ID           `json:"payment_no"`
	OrderNo   ids.ID           `json:"order_no"`
	Provider  string           `json:"provider" example:"sandbox"`
	Status    string           `json:"status" enum:"created,captured" doc:"captured only for an order that costs nothing"`
	PayURL    string           `json:"pay_url,omitempty" doc:"Where the shopper pays"`
	Amount    orderevent.Money `json:"amount"`
	ExpiresAt string           `json:"expires_at" format:"date-time" doc:"The provider takes no money from then on"`
}

// start is POST orders/{no}/payments.
func (s *Service) start(ctx context.Context, in *startInput) (*httpx.Output[startedPayment], error) {
	no, err := ids.Parse(in.No)
	if err != nil {
		return nil, order.ErrNotFound.Because(err)
	}
	name := s.first
	if in.Body != nil && in.Body.Provider != "" {
		name = in.Body.Provider
	}
	// Starting a payment is idempotent anyway, since a repeated request returns the open one. The key adds that the
	// answer stays the same even if that payment has ended meanwhile.
	doc, err := idempotency.Around(ctx, s.deps.DB, s.deps.Log, in.Key, "payment.start", startRequest{no, name}, func(ctx context.Context) (startedPayment, error) {
		p, err := s.begin(ctx, no, auth.From(ctx).UserID, name)
		if err != nil {
			return startedPayment{}, honest(err)
		}
		return startedPayment{
			PaymentNo: p.PaymentNo, OrderNo: p.OrderNo, Provider: p.Provider, Status: p.Status, PayURL: p.PayUrl,
			Amount: orderevent.Money{Amount: p.Amount, Currency: p.Currency}, ExpiresAt: orderevent.Time(p.ExpiresAt),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return httpx.Answer(doc), nil
}

// startAttempts bounds how often another open payment is closed first; each
// time a concurrent request has to have been faster.
const startAttempts = 3

// begin returns the order's open payment at the provider, or opens one. It fails as
// order's Missing says, with its ErrNotPayable or ErrClosing, with an invalid
// provider, or with payment-unavailable, after at most callTimeout plus the time for
// Postgres.
func (s *Service) begin(ctx context.Context, no ids.ID, user int64, name string) (paymentdb.PaymentsPayment, error) {
	prov, ok := s.named[name]
	if !ok && (name != "" || len(s.named) > 0) {
		return paymentdb.PaymentsPayment{}, fault.Plainf(fault.Invalid, "There is no payment provider %q here.", name)
	}
	var profile provider.Profile
	if ok {
		profile = prov.Profile()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout+bookTimeout)
	defer cancel()
	for range startAttempts {
		p, title, err := s.open(ctx, no, user, profile)
		if errors.Is(err, order.ErrNotFound) {
			err = s.deps.Orders.Missing(ctx, no, user)
		}
		if err != nil || p.Status == statusCaptured || p.Provider == name && p.PayUrl != "" {
			return p, err
		}
		if p.Provider == name {
			p.PayUrl, err = prov.Create(ctx, provider.Charge{
				PaymentNo: p.PaymentNo, Title: title, Amount: p.Amount, Currency: p.Currency, ExpiresAt: p.ExpiresAt,
				NotifyURL: s.notifyURL(name), ReturnURL: s.returnURL(p.OrderNo),
			})
			switch {
			case err == nil:
				n, err := s.q.NotePayURL(ctx, paymentdb.NotePayURLParams{PayUrl: p.PayUrl, PaymentNo: p.PaymentNo, Bucket: p.Bucket})
				if err != nil {
					return p, fmt.Errorf("payment: note pay URL of %s: %w", p.PaymentNo, err)
				}
				if n == 1 {
					return p, nil
				}
				// It ended while the provider created it. A provider that forgets closings
				// of numbers it did not know now has an open payment.
			case errors.Is(err, provider.ErrClosed):
				// It has ended at the provider and our row has not been updated.
			case errors.Is(err, provider.ErrRefused) && time.Until(p.ExpiresAt) < profile.MinWindow:
				// The last moment to pay passed in transit; the order says so.
			case errors.Is(err, provider.ErrRefused):
				s.deps.Log.ErrorContext(ctx, "provider refuses a payment", "provider", name, "payment_no", p.PaymentNo, "error", err)
				_, closeErr := s.closeOne(ctx, p) // if this fails, the payment expires
				return p, errUnavailable.Because(errors.Join(err, closeErr))
			default:
				// The row stays open: the next request creates the same number again.
				return p, errUnavailable.Because(err)
			}
		}
		// The shopper cannot pay this payment. It is closed at its provider before
		// another one is opened; if it was paid, the order is now paid and says so.
		if _, err := s.closeOne(ctx, p); err != nil {
			return p, errUnavailable.Because(err)
		}
	}
	return paymentdb.PaymentsPayment{}, order.ErrClosing
}

// returnURL is where the shopper's browser goes after paying. It names the order: the
// tab, or the browser, that returns may have no state.
func (s *Service) returnURL(no ids.ID) string {
	if s.cfg.ReturnURL == "" {
		return ""
	}
	return s.cfg.ReturnURL + "?order=" + no.String()
}

// statusCaptured is a payment row's status once its money has moved.
const statusCaptured = "captured"

// open returns the order's open payment, at any provider, or writes a new one,
// in one transaction that locks the order's row, so that neither a closing nor
// another request can intervene. An order of zero amount is paid there, even if
// profile is of no provider.
func (s *Service) open(ctx context.Context, no ids.ID, user int64, profile provider.Profile) (p paymentdb.PaymentsPayment, title string, err error) {
	var done settled
	made := false
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		done, made = settled{}, false // InTx may run this again
		o, err := s.deps.Orders.Payable(ctx, tx, no, user)
		if err != nil {
			return err
		}
		title = o.Title
		q := s.q.WithTx(tx)
		p, err = q.OpenPayment(ctx, paymentdb.OpenPaymentParams{OrderNo: no, Bucket: no.Bucket()})
		if err == nil {
			return nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("payment: read open payment of %s: %w", no, err)
		}
		arg := paymentdb.StartPaymentParams{
			Bucket: no.Bucket(), PaymentNo: ids.NewFor(user), OrderNo: no, UserID: user, Provider: profile.Name, Amount: o.Amount(), Currency: o.Currency,
			ExpiresAt: o.PayDeadline, QueryAfterMs: s.cfg.QueryAfter.Milliseconds(), LeastWindowMs: profile.MinWindow.Milliseconds(),
		}
		switch {
		case o.Amount() == 0:
			arg.Provider, arg.LeastWindowMs = free, 0
		case profile.Name == "":
			return errNoWay
		}
		p, err = q.StartPayment(ctx, arg)
		if errors.Is(err, pgx.ErrNoRows) {
			// The provider's shortest window no longer fits before the deadline, and its
			// expiry must never be later than ours.
			return order.ErrNotPayable.With("order_status", o.Status)
		}
		if err != nil {
			return fmt.Errorf("payment: start for %s: %w", no, err)
		}
		made = true
		if p.Provider == free {
			p.Status = statusCaptured
			done, err = s.settleIn(ctx, tx, free, provider.Capture{
				PaymentNo: p.PaymentNo, Transaction: free + "-" + p.PaymentNo.String(), Amount: 0, Currency: p.Currency,
			}, asked)
		}
		return err
	})
	if err == nil && made {
		s.metrics.started.WithLabelValues(p.Provider).Inc()
	}
	if err == nil && done.outcome != "" {
		s.announce(ctx, free, provider.Capture{PaymentNo: p.PaymentNo}, done)
	}
	return p, title, err
}
