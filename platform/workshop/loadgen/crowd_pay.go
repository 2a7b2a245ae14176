package loadgen

import (
	"context"
	"net/http"
	"sync"
	"time"

	"stampede/platform/base/app"
)

// Paid is the result of paying.
type Paid struct {
	Due    int     // payments that were to begin
	Orders int     // those that ended with a paid order
	OnTime int     // those of them that took no longer than onTime
	Took   Latency // from when a payment was due until its order says that it is paid
}

// OnTimeShare is the share of the due payments that were on time, 0 to 1.
func (p *Paid) OnTimeShare() float64 { return float64(p.OnTime) / float64(max(p.Due, 1)) }

const (
	// onTime is how long a shopper looks at a page that says "one moment": the bank's
	// callback has to arrive within it.
	onTime = time.Second
	// paidPatience is how long a payment may take before it counts as failed.
	paidPatience = 30 * time.Second
	// paidPause is the first pause between two looks at an order; it doubles. Callbacks
	// take some milliseconds, and each look costs the server a request.
	paidPause = 50 * time.Millisecond
)

// PayAt lets winners pay their orders at a rate, in payments a second, whether or not
// the earlier ones are paid, until all have begun or ctx ends. It returns when each
// payment that began has ended.
func (c *Crowd) PayAt(ctx context.Context, winners []int, perSecond float64) Paid {
	var p Paid
	var mu sync.Mutex
	var payers sync.WaitGroup
	all, began, every := histogram(), time.Now(), interval(perSecond)
	for k, i := range winners {
		due := began.Add(time.Duration(k) * every)
		if app.Sleep(ctx, time.Until(due)) != nil {
			break
		}
		p.Due++
		payers.Go(func() {
			paying, cancel := context.WithTimeout(context.WithoutCancel(ctx), paidPatience)
			defer cancel()
			if !c.pay(paying, i) || !c.seesPaid(paying, i) {
				return
			}
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			record(all, took)
			p.Orders++
			if took <= onTime {
				p.OnTime++
			}
		})
	}
	payers.Wait()
	p.Took = summarize(all)
	return p
}

// pay starts a payment and presses the bank's button; false if that failed.
func (c *Crowd) pay(ctx context.Context, i int) bool {
	token, err := c.token(int64(i))
	if err != nil {
		return false
	}
	var p paymentView
	if err := c.client.call(ctx, http.MethodPost, "/api/v1/orders/"+c.shoppers[i].no.String()+"/payments", token, map[string]string{}, &p); err != nil {
		c.tally.trouble("payment: " + codeOf(err))
		return false
	}
	page := p.PayURL + p.QRCode // one of them
	if page == "" {
		return true // it cost nothing
	}
	// The button on the page that a shopper's browser would open.
	if err := c.client.call(ctx, http.MethodPost, page, "", map[string]string{"action": "pay"}, nil); err != nil {
		c.tally.trouble("bank: " + codeOf(err))
		return false
	}
	return true
}

// seesPaid looks at a shopper's order until it is paid; false if ctx ends before.
func (c *Crowd) seesPaid(ctx context.Context, i int) bool {
	token, err := c.token(int64(i))
	if err != nil {
		return false
	}
	for pause := paidPause; app.Sleep(ctx, pause) == nil; pause *= 2 {
		var o orderView
		err := c.client.call(ctx, http.MethodGet, "/api/v1/orders/"+c.shoppers[i].no.String(), token, nil, &o)
		if err == nil && o.Status == "paid" {
			return true
		}
	}
	c.tally.trouble("order not paid")
	return false
}
