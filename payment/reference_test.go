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

// referring is a company that names payments itself: it returns a reference, and notes
// with which one each later call names the payment.
type referring struct {
	provider.Provider
	mu   sync.Mutex
	seen map[string]string // by call
}

func referenceOf(no ids.ID) string { return "cs_" + no.String() }

func (r *referring) note(call string, p provider.Payment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[call] = p.Ref; p.Ref == referenceOf(p.No) {
		r.seen[call] = "its own"
	}
}

func (r *referring) Create(ctx context.Context, c provider.Charge) (provider.Handoff, error) {
	h, err := r.Provider.Create(ctx, c)
	h.Ref = referenceOf(c.PaymentNo)
	return h, err
}

func (r *referring) Query(ctx context.Context, p provider.Payment) (provider.Status, error) {
	r.note("query", p)
	return r.Provider.Query(ctx, p)
}

func (r *referring) Close(ctx context.Context, p provider.Payment) (provider.Status, error) {
	r.note("close", p)
	return r.Provider.Close(ctx, p)
}

func (r *referring) Refund(ctx context.Context, ret provider.Return) (provider.RefundStatus, error) {
	r.note("refund", ret.Payment)
	return r.Provider.Refund(ctx, ret)
}

// TestProvidersReferenceReachesEveryCall: what Create returned as Handoff.Ref comes back
// in each later call about that payment.
func TestProvidersReferenceReachesEveryCall(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	bank := &referring{Provider: s.client, seen: make(map[string]string)}
	shop := s.instance(options{}, bank)
	begin := func() (no ids.ID, user int64, url string) {
		no, user = s.one(100)
		p, err := shop.begin(t.Context(), no, user, way{})
		require.NoError(t, err)
		return no, user, p.Handoff.URL
	}
	s.door.lose.Store(true)
	begin()
	s.until("the open payment is queried", func() bool {
		_, err := shop.queryDue(t.Context())
		bank.mu.Lock()
		defer bank.mu.Unlock()
		return err == nil && bank.seen["query"] != ""
	})
	late, _, url := begin()
	s.payAt(url, sandbox.Normal)
	s.exec(`UPDATE orders.orders SET status = 'closed' WHERE order_no = $1`, late)
	if _, err := shop.CloseOpen(t.Context(), []ids.ID{late}); err != nil {
		t.Fatal(err)
	}
	s.until("the late money is refunded", func() bool {
		_, err := shop.refundDue(t.Context())
		return err == nil && s.refundOf(late) == "late succeeded"
	})
	for _, call := range []string{"query", "close", "refund"} {
		if bank.seen[call] != "its own" {
			t.Errorf("%s names the payment %q", call, bank.seen[call])
		}
	}
}
