package loadgen

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// Paid is the result of paying.
type Paid struct {
	Orders  int
	Elapsed time.Duration // from the first request to the last answer
	Took    Latency       // for one payment: opening it, and the button on the bank's page
}

// Pay lets winners pay their orders at a rate, in payments a second, until all have
// or ctx ends. A payment that failed is not counted.
func (c *Crowd) Pay(ctx context.Context, winners []int, perSecond float64) Paid {
	var mu sync.Mutex
	all, began, pace := histogram(), time.Now(), rate.NewLimiter(rate.Limit(perSecond), 1)
	var payers errgroup.Group
	payers.SetLimit(pollers)
	for _, i := range winners {
		if pace.Wait(ctx) != nil {
			break
		}
		payers.Go(func() error {
			sent := time.Now()
			if c.pay(context.WithoutCancel(ctx), i) {
				mu.Lock()
				defer mu.Unlock()
				record(all, time.Since(sent))
			}
			return nil
		})
	}
	_ = payers.Wait() // they return no errors
	return Paid{Orders: int(all.TotalCount()), Elapsed: time.Since(began), Took: summarize(all)}
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
