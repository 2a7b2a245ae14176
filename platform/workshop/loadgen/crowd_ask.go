package loadgen

import (
	"context"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/watch/proof"
)

// Last returns the places of the winners whose attempts were in flight when the
// last one was sent, at most one per connection.
func (c *Crowd) Last() (places []int) {
	var sent time.Duration
	for i := range c.shoppers {
		sent = max(sent, c.shoppers[i].sent)
	}
	for i := range c.shoppers {
		if s := &c.shoppers[i]; s.answer == answerQueued && s.answered >= sent {
			places = append(places, i)
		}
	}
	return places
}

// Ask polls for winners' orders one after the other, each until the order
// exists or ctx ends, and returns how many have which status; "" counts those
// without an answer.
func (c *Crowd) Ask(ctx context.Context, winners []int) map[string]int64 {
	all := map[string]int64{}
	w := &hand{link: c.client.newLink(ctx)}
	defer w.link.close()
	for _, i := range winners {
		s := &c.shoppers[i]
		status := c.askFor(ctx, w, i)
		if s.trail == nil {
			s.trail = newTrail(i)
		}
		s.trail.heard(status, false, time.Since(c.base))
		all[status]++
	}
	return all
}

// askPause is the pause between two polls for an order that does not exist yet.
const askPause = 2 * time.Millisecond

// askFor polls for one order until it has left the line.
func (c *Crowd) askFor(ctx context.Context, w *hand, i int) (status string) {
	token, err := c.token(int64(i))
	if err != nil {
		return ""
	}
	for {
		if a, err := w.link.do(get, "/api/v1/orders/"+c.shoppers[i].no.String(), token, nil); err == nil && a.ok() {
			text, _ := textMember(a.body, `"status"`)
			if status = string(text); status != answerQueued {
				return status
			}
		}
		if app.Sleep(ctx, askPause) != nil {
			return status
		}
	}
}

// Entries returns the client log: the answers that every shopper got. The user
// of shopper i is first + i.
func (c *Crowd) Entries(first int64) []proof.ClientRecord {
	entries := make([]proof.ClientRecord, len(c.shoppers))
	for i := range c.shoppers {
		s := &c.shoppers[i]
		entries[i] = proof.ClientRecord{OrderNo: s.no, UserID: first + int64(i), Answer: s.answer}
		if s.trail != nil {
			entries[i].Pushed = s.trail.lastPush()
			if status, _, _ := s.trail.state(); status != gone {
				entries[i].Status = status
			}
		}
	}
	return entries
}
