package payment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
)

// promptBank is a provider that answers immediately and in this process, so
// that thousands of courses of events take seconds. It never sends a callback
// itself: the test decides which and when.
type promptBank struct {
	mu       sync.Mutex
	payments map[ids.ID]*banked
	refunds  map[ids.ID]provider.RefundStatus
	unheard  bool // the answers to refund requests are lost
	states   func(provider.Day) provider.Lines
}

// banked is a payment at the bank.
type banked struct {
	state    provider.State
	captures []provider.Capture
	amount   int64
	refuses  bool // every refund of it fails
}

func newPromptBank() *promptBank {
	return &promptBank{payments: map[ids.ID]*banked{}, refunds: map[ids.ID]provider.RefundStatus{}}
}

func (b *promptBank) Profile() provider.Profile {
	return provider.Profile{Name: "prompt", Merchant: merchantNo, Methods: []provider.Method{"page"}}
}

func (b *promptBank) Create(_ context.Context, c provider.Charge) (provider.Handoff, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := b.payments[c.PaymentNo]; ok && p.state != provider.Open {
		return provider.Handoff{}, provider.ErrClosed
	}
	b.payments[c.PaymentNo] = &banked{state: provider.Open, amount: c.Amount}
	return provider.Handoff{URL: "http://bank.invalid/" + c.PaymentNo.String()}, nil
}

func (b *promptBank) Query(_ context.Context, of provider.Payment) (provider.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status(of.No), nil
}

// status requires mu.
func (b *promptBank) status(no ids.ID) provider.Status {
	p, ok := b.payments[no]
	switch {
	case !ok:
		return provider.Status{State: provider.Missing}
	case p.state == provider.Captured:
		return provider.Status{State: provider.Captured, Capture: p.captures[0]}
	default:
		return provider.Status{State: p.state}
	}
}

func (b *promptBank) Close(_ context.Context, of provider.Payment) (provider.Status, error) {
	no := of.No
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := b.payments[no]; !ok || p.state == provider.Open {
		b.payments[no] = &banked{state: provider.Closed}
		if ok {
			b.payments[no].amount = p.amount
		}
	}
	return b.status(no), nil
}

func (b *promptBank) Refund(_ context.Context, r provider.Return) (provider.RefundStatus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unheard {
		b.refund(r)
		return provider.RefundStatus{}, errors.New("the answer is lost")
	}
	return b.refund(r), nil
}

// refund requires mu.
func (b *promptBank) refund(r provider.Return) provider.RefundStatus {
	if known, ok := b.refunds[r.RefundNo]; ok {
		return known
	}
	st := provider.RefundStatus{
		State: provider.Succeeded, Merchant: merchantNo, RefundNo: r.RefundNo, PaymentNo: r.Payment.No, Transaction: "back " + r.RefundNo.String(),
		Amount: r.Amount, Currency: r.Currency, At: time.Now(),
	}
	if b.payments[r.Payment.No].refuses {
		st.State, st.Transaction = provider.Failed, ""
	}
	b.refunds[r.RefundNo] = st
	return st
}

func (b *promptBank) Parse(http.Header, []byte) (provider.Notice, error) {
	return provider.Notice{}, provider.ErrUnreadable
}

func (b *promptBank) Answer(error) provider.Reply { return provider.Reply{Status: http.StatusOK} }

// take moves the money once more, even for a closed payment if forced: no
// provider should do that, and some have.
func (b *promptBank) take(no ids.ID, forced bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.payments[no]
	if !ok || !forced && p.state != provider.Open {
		return
	}
	p.state = provider.Captured
	p.captures = append(p.captures, provider.Capture{
		Merchant: merchantNo, PaymentNo: no, Transaction: fmt.Sprintf("%s-%d", no, len(p.captures)), Amount: p.amount, Currency: "CNY", At: time.Now(),
	})
}

// captures are the movements that the bank would report of a payment.
func (b *promptBank) captures(no ids.ID) []provider.Capture {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := b.payments[no]; ok {
		return append([]provider.Capture(nil), p.captures...)
	}
	return nil
}

// refunded are the refunds that the bank would report of a payment.
func (b *promptBank) refunded(no ids.ID) (all []provider.RefundStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.refunds {
		if r.PaymentNo == no {
			all = append(all, r)
		}
	}
	return all
}

// loseAnswers says whether the answers to refund requests are lost from now on.
func (b *promptBank) loseAnswers(lose bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unheard = lose
}

// refuse makes every refund of a payment fail from now on.
func (b *promptBank) refuse(no ids.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := b.payments[no]; ok {
		p.refuses = true
	}
}

// kept is what remains of the shopper's money at the bank after all refunds.
func (b *promptBank) kept(no ids.ID) (sum int64) {
	for _, c := range b.captures(no) {
		sum += c.Amount
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.refunds {
		if r.PaymentNo == no && r.State == provider.Succeeded {
			sum -= r.Amount
		}
	}
	return sum
}

func (b *promptBank) Statement(_ context.Context, d provider.Day) provider.Lines {
	if b.states == nil {
		return provider.NoLines(provider.ErrNotReady)
	}
	return b.states(d)
}
