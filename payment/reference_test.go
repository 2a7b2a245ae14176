package payment

import (
	"context"
	"sync"
	"testing"

	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// referring is a company that names payments itself: it returns a reference, and counts the
// later calls, which have to name the payment by it.
type referring struct {
	provider.Provider
	t     *testing.T
	calls sync.Map // by name
}

func referenceOf(no ids.ID) string { return "cs_" + no.String() }

func (r *referring) named(call string, p provider.Payment) {
	if r.calls.Store(call, true); p.Ref != referenceOf(p.No) {
		r.t.Errorf("%s names the payment %q", call, p.Ref)
	}
}

func (r *referring) Create(ctx context.Context, c provider.Charge) (provider.Handoff, error) {
	h, err := r.Provider.Create(ctx, c)
	h.Ref = referenceOf(c.PaymentNo)
	return h, err
}

func (r *referring) Query(ctx context.Context, p provider.Payment) (provider.Status, error) {
	r.named("query", p)
	return r.Provider.Query(ctx, p)
}

func (r *referring) Close(ctx context.Context, p provider.Payment) (provider.Status, error) {
	r.named("close", p)
	return r.Provider.Close(ctx, p)
}

func (r *referring) Refund(ctx context.Context, ret provider.Return) (provider.RefundStatus, error) {
	r.named("refund", ret.Payment)
	return r.Provider.Refund(ctx, ret)
}

// TestProvidersReferenceReachesEveryCall: what Create returned as Handoff.Ref comes back
// in each later call about that payment.
func TestProvidersReferenceReachesEveryCall(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	bank := &referring{Provider: s.client, t: t}
	shop := s.instance(options{}, bank)
	s.door.lose.Store(true)
	no, user := s.one(100)
	p, err := shop.begin(t.Context(), no, user, way{})
	require.NoError(t, err)
	s.until("the open payment is queried", func() bool {
		_, err := shop.queryDue(t.Context())
		_, asked := bank.calls.Load("query")
		return err == nil && asked
	})
	s.payAt(p.Handoff.URL, sandbox.Normal)
	s.exec(`UPDATE orders.orders SET status = 'closed' WHERE order_no = $1`, no)
	_, err = shop.CloseOpen(t.Context(), []ids.ID{no})
	require.NoError(t, err)
	s.until("the late money is refunded", func() bool {
		_, err := shop.refundDue(t.Context())
		return err == nil && s.refundOf(no) == "late succeeded"
	})
	if _, closed := bank.calls.Load("close"); !closed {
		t.Error("the payment was not closed")
	}
}
