package loadgen

import (
	"context"
	"sync"
	"time"

	"stampede/platform/proof"
)

// Ask has everybody who was told 202 ask for the order, until it is there or
// ctx ends, and returns how many have which status; "" are those who got no
// answer.
func (c *Crowd) Ask(ctx context.Context) map[string]int64 {
	var mu sync.Mutex
	all := map[string]int64{}
	c.each(ctx, func(w *hand, i int) {
		s := &c.shoppers[i]
		if s.answer != idQueued {
			return
		}
		status := c.askFor(ctx, w, i)
		if s.trail == nil {
			s.trail = newTrail(i)
		}
		s.trail.heard(status, false, time.Since(c.base))
		mu.Lock()
		defer mu.Unlock()
		all[status]++
	})
	return all
}

// askFor polls for one order until it has left the line.
func (c *Crowd) askFor(ctx context.Context, w *hand, i int) (status string) {
	token, err := c.token(int64(i))
	if err != nil {
		return ""
	}
	for {
		if err := w.link.do(get, "/api/v1/orders/"+c.shoppers[i].no.String(), token, nil, &w.resp); err == nil && w.resp.Status < 400 {
			text, _ := textMember(w.resp.Body, `"status"`)
			if status = string(text); status != answerQueued {
				return status
			}
		}
		select {
		case <-ctx.Done():
			return status
		case <-time.After(firstPoll):
		}
	}
}

// Entries is the client's log: what every shopper was told. The user of shopper
// i is first + i.
func (c *Crowd) Entries(first int64) []proof.Told {
	entries := make([]proof.Told, len(c.shoppers))
	for i := range c.shoppers {
		s := &c.shoppers[i]
		entries[i] = proof.Told{OrderNo: s.no, UserID: first + int64(i), Answer: c.tally.name(s.answer)}
		if s.trail != nil {
			if status, _, _ := s.trail.state(); status != gone {
				entries[i].Status = status
			}
		}
	}
	return entries
}
