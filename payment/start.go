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
	"stampede/platform/auth"
	"stampede/platform/fault"
	"stampede/platform/idempotency"
	"stampede/platform/ids"
	"stampede/platform/pg"
)

// free is the provider name of payments that need none: an order of zero
// amount is captured by the request itself, with a ledger row of zero, so that
// every paid order has a payment and the books need no exception.
const free = "free"

// errUnavailable: the provider gave no answer. Nothing is lost by asking again,
// a payment number that was created meanwhile is found.
var errUnavailable = fault.New(fault.Unavailable, "payment-unavailable",
	"The payment provider does not answer. Nothing was charged; try again in a moment.").After(2 * time.Second)

// errPaid: an open payment turned out to be paid while another was wanted.
var errPaid = order.ErrNotPayable.With("status", orderevent.StatusPaid)

type startInput struct {
	No   string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body *struct {
		Provider string `json:"provider,omitempty" maxLength:"32" doc:"How to pay; the shop's first provider when left out" example:"sandbox"`
	} `required:"false"`
	idempotency.Header
}

// startRequest is all of what a shopper asks for, to tell two requests apart.
type startRequest struct {
	OrderNo  ids.ID
	Provider string
}

// payDocument is a payment as its shopper reads it.
type payDocument struct {
	PaymentNo ids.ID           `json:"payment_no"`
	OrderNo   ids.ID           `json:"order_no"`
	Provider  string           `json:"provider" example:"sandbox"`
	Status    string           `json:"status" enum:"created,captured" doc:"captured only for an order that costs nothing"`
	PayURL    string           `json:"pay_url,omitempty" doc:"Where the shopper pays"`
	Amount    orderevent.Money `json:"amount"`
	ExpiresAt string           `json:"expires_at" format:"date-time" doc:"The provider takes no money from then on"`
}

type startOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         payDocument
}

// start is POST orders/{no}/payments.
func (s *Service) start(ctx context.Context, in *startInput) (*startOutput, error) {
	no, err := ids.Parse(in.No)
	if err != nil {
		return nil, order.ErrNotFound.Because(err)
	}
	name := s.first
	if in.Body != nil && in.Body.Provider != "" {
		name = in.Body.Provider
	}
	// Starting a payment bears being repeated by itself, which returns the open one. The key adds that the answer stays
	// the same when that payment has ended meanwhile.
	doc, err := idempotency.Around(ctx, s.deps.DB, s.deps.Log, in.Key, "payment.start", startRequest{no, name}, func(ctx context.Context) (payDocument, error) {
		p, err := s.begin(ctx, no, auth.From(ctx).UserID, name)
		if err != nil {
			return payDocument{}, err
		}
		return payDocument{
			PaymentNo: p.PaymentNo, OrderNo: p.OrderNo, Provider: p.Provider, Status: p.Status, PayURL: p.PayUrl,
			Amount: orderevent.Money{Amount: p.Amount, Currency: p.Currency}, ExpiresAt: orderevent.Time(p.ExpiresAt),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return &startOutput{CacheControl: "private, no-store", Body: doc}, nil
}

// startAttempts bounds how often another open payment is cleared out of the way
// first; each time somebody else has to have been faster.
const startAttempts = 3

// begin returns the order's open payment at the provider, or opens one. It
// fails with order's ErrNotFound, ErrNotPayable or ErrClosing, with an invalid
// provider, or with payment-unavailable.
func (s *Service) begin(ctx context.Context, no ids.ID, user int64, name string) (paymentdb.PaymentsPayment, error) {
	prov, ok := s.named[name]
	if !ok {
		return paymentdb.PaymentsPayment{}, fault.Newf(fault.Invalid, "invalid", "There is no payment provider %q here.", name)
	}
	for range startAttempts {
		p, title, err := s.open(ctx, no, user, prov.Profile())
		if err != nil || p.Status == statusCaptured || p.Provider == name && p.PayUrl != "" {
			return p, err
		}
		if p.Provider != name {
			// The older payment is closed where it is before there is another one.
			if paid, err := s.closeOne(ctx, p); err != nil {
				return p, errUnavailable.Because(err)
			} else if paid {
				return p, errPaid
			}
			continue
		}
		url, err := prov.Create(ctx, provider.Charge{
			PaymentNo: p.PaymentNo, Title: title, Amount: p.Amount, Currency: p.Currency, ExpiresAt: p.ExpiresAt,
			NotifyURL: s.notifyURL(name), ReturnURL: s.cfg.ReturnURL,
		})
		switch {
		case errors.Is(err, provider.ErrClosed):
			// Over there it has ended and our row does not know: find out how.
			if paid, err := s.closeOne(ctx, p); err != nil {
				return p, errUnavailable.Because(err)
			} else if paid {
				return p, errPaid
			}
			continue
		case errors.Is(err, provider.ErrRefused):
			s.deps.Log.ErrorContext(ctx, "provider refuses a payment", "provider", name, "payment_no", p.PaymentNo, "error", err)
			if _, err := s.closeOne(ctx, p); err != nil {
				return p, errUnavailable.Because(err)
			}
			return p, errUnavailable.Because(err)
		case err != nil:
			// The row stays open: the next request creates the same number again.
			return p, errUnavailable.Because(err)
		}
		n, err := s.q.NotePayURL(ctx, paymentdb.NotePayURLParams{PayUrl: url, PaymentNo: p.PaymentNo, Bucket: p.Bucket})
		if err != nil {
			return p, fmt.Errorf("payment: note pay URL of %s: %w", p.PaymentNo, err)
		}
		if n == 0 {
			// It was closed while the provider created it. A provider that forgets
			// closings of numbers it did not know yet now has an open payment.
			if _, err := s.closeOne(ctx, p); err != nil {
				s.deps.Log.WarnContext(ctx, "payment created too late and not closed, its expiry will", "payment_no", p.PaymentNo, "error", err)
			}
			continue
		}
		p.PayUrl = url
		return p, nil
	}
	return paymentdb.PaymentsPayment{}, order.ErrClosing
}

// statusCaptured is a payment row's status once its money has moved.
const statusCaptured = "captured"

// open returns the order's open payment, at whichever provider, or writes a new
// one down, in one transaction that holds the order's row: neither a closing
// nor another request comes in between. An order of zero amount is paid there.
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
		if o.Amount() == 0 {
			arg.Provider, arg.LeastWindowMs = free, 0
		}
		p, err = q.StartPayment(ctx, arg)
		if errors.Is(err, pgx.ErrNoRows) {
			// The provider's shortest window no longer fits before the deadline, and
			// its expiry must never lie behind ours.
			return order.ErrNotPayable.With("status", o.Status)
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
