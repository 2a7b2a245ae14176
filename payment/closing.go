package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/paymentevent"
	"stampede/payment/provider"
	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
)

// errUnanswered is the error of a closing about which the provider gave no word.
var errUnanswered = errors.New("payment: no word from the provider")

// closing ends open payments at their providers, and orders by request.
type closing struct {
	*gateway
	books *books
}

// OpenOf returns those of the orders that have an open payment, grouped by
// provider. It queries only Postgres.
func (cl *closing) OpenOf(ctx context.Context, nos []ids.ID) ([][]ids.ID, error) {
	open, err := cl.openPayments(ctx, nos)
	if err != nil {
		return nil, err
	}
	byProvider := make(map[string][]ids.ID)
	for _, o := range open {
		p := o.PaymentsPayment
		byProvider[p.Provider] = append(byProvider[p.Provider], p.OrderNo)
	}
	return slices.Collect(maps.Values(byProvider)), nil
}

func (cl *closing) openPayments(ctx context.Context, nos []ids.ID) ([]paymentdb.OpenPaymentsRow, error) {
	open, err := cl.q.OpenPayments(ctx, paymentdb.OpenPaymentsParams{OrderNos: nos, Buckets: ids.BucketsOf(nos), UnansweredAfter: cl.cfg.CloseUnansweredAfter})
	if err != nil {
		return nil, fmt.Errorf("payment: read open payments of %d orders: %w", len(nos), err)
	}
	return open, nil
}

// CloseOpen closes the open payment of each order at its provider and returns
// the numbers whose orders may now be closed: those without an open payment
// immediately, those whose payment is closed, and those whose money arrived in
// another amount and is refunded. It leaves out the orders whose money was
// faster (they are paid then, exactly as by a callback) and those whose
// provider gave no answer; the latter are in the error, which may come with
// numbers. Once an order is past its deadline by CloseUnansweredAfter it may be
// closed without an answer, with an alarm: its payment stays open and is queried
// further, and money that the provider took is late. CloseOpen must be called
// outside any transaction, on claimed orders, so that no payment is started
// meanwhile. It takes closeTimeout at most.
func (cl *closing) CloseOpen(ctx context.Context, nos []ids.ID) ([]ids.ID, error) {
	calls, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	open, err := cl.openPayments(calls, nos)
	if err != nil {
		return nil, err
	}
	if len(open) == 0 {
		return nos, nil
	}
	var mu sync.Mutex
	keep := make(map[ids.ID]bool)      // orders that must not be closed
	unanswered := make(map[string]int) // orders closed without an answer, by provider
	unheard := 0
	var first error
	each(calls, open, func(ctx context.Context, o paymentdb.OpenPaymentsRow) {
		p := o.PaymentsPayment
		paid, err := cl.closeOne(ctx, p)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case o.Overdue && errors.Is(err, errUnanswered):
			unanswered[p.Provider]++
			cl.deps.Log.WarnContext(ctx, "order closed without its provider's word", "provider", p.Provider, "payment_no", p.PaymentNo, "order_no", p.OrderNo, "error", err)
		case err != nil:
			unheard++
			first = cmp.Or(first, err)
			fallthrough
		case paid:
			keep[p.OrderNo] = true
		}
	})
	for name, orders := range unanswered {
		cl.raise(ctx, alarmUnanswered, "provider "+name, fmt.Sprintf("%d orders at once, %s after their deadline.", orders, cl.cfg.CloseUnansweredAfter))
	}
	closable := slices.DeleteFunc(slices.Clone(nos), func(no ids.ID) bool { return keep[no] })
	if unheard > 0 {
		// One error is representative: a provider that is down fails hundreds of calls
		// with the same text.
		return closable, fmt.Errorf("payment: %d of %d payments not closed, one of them: %w", unheard, len(open), first)
	}
	return closable, nil
}

// closeOne makes sure that a payment can no longer be paid, at its provider
// first and then in our row. It returns true if the money was faster and the
// order is paid with it.
func (cl *closing) closeOne(ctx context.Context, p paymentdb.PaymentsPayment) (paid bool, err error) {
	prov, err := cl.provider(ctx, p.Provider)
	if err != nil {
		return false, fmt.Errorf("%w: payment %s: %w", errUnanswered, p.PaymentNo, err)
	}
	st, err := prov.Close(ctx, named(p))
	if err != nil {
		return false, fmt.Errorf("%w: close %s: %w", errUnanswered, p.PaymentNo, err)
	}
	if st.State == provider.Missing {
		st.State = provider.Closed // there is nothing to close; money that still arrives is late
	}
	return cl.follow(ctx, p, st)
}

// named is the payment as its provider knows it.
func named(p paymentdb.PaymentsPayment) provider.Payment {
	return provider.Payment{No: p.PaymentNo, Ref: p.Handoff.Ref}
}

// follow updates our books to the provider's answer to our query about a
// payment.
func (cl *closing) follow(ctx context.Context, p paymentdb.PaymentsPayment, st provider.Status) (paid bool, err error) {
	switch st.State {
	case provider.Captured:
		outcome, err := cl.books.settle(ctx, p.Provider, st.Capture, asked)
		if err != nil || outcome != outcomeRepeated {
			return outcome == outcomePaid || outcome == outcomeRetaken, err
		}
		// A callback was settled meanwhile: it has paid the order, or the amount
		// differed and the order still waits.
		now, err := cl.deps.Orders.Statuses(ctx, []ids.ID{p.OrderNo})
		if err != nil {
			return false, fmt.Errorf("payment: read order %s: %w", p.OrderNo, err)
		}
		return now[p.OrderNo] != orderevent.StatusPending, nil
	case provider.Closed:
		if err := cl.markClosed(ctx, p); err != nil {
			return false, fmt.Errorf("payment: mark %s closed: %w", p.PaymentNo, err)
		}
	case provider.Open, provider.Missing: // nothing to follow
	}
	return false, nil
}

// markClosed closes a payment in our row and publishes it, once.
func (cl *closing) markClosed(ctx context.Context, p paymentdb.PaymentsPayment) error {
	return pg.InTx(ctx, cl.deps.DB, func(tx pgx.Tx) error {
		n, err := cl.q.WithTx(tx).ClosePayment(ctx, paymentdb.ClosePaymentParams{PaymentNo: p.PaymentNo, Bucket: p.Bucket})
		if err != nil || n == 0 {
			return err
		}
		_, err = outbox.Append(ctx, tx, paymentevent.SubjectClosed, paymentevent.Closed{
			PaymentNo: p.PaymentNo, OrderNo: p.OrderNo, UserID: p.UserID, Amount: p.Amount, Currency: p.Currency,
		})
		return err
	})
}
