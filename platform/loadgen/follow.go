package loadgen

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// The tool polls sooner than a page would, because it measures when the order
// became visible; from maxPoll on it does as the server asks.
const (
	firstPoll = 10 * time.Millisecond
	maxPoll   = 160 * time.Millisecond
)

// follow waits for a winner's order by polling and by push, pays if chosen, and
// waits for the payment to be told.
func (r *run) follow(ctx context.Context, s *shopper) {
	defer r.settled.Add(1)
	if !r.await(ctx, s, func(status string) bool { return status != "" }) {
		return
	}
	if status, _ := s.state(); !s.pays || status != statusPending {
		return
	}
	var p paymentView
	if err := r.client.call(ctx, http.MethodPost, "/api/v1/orders/"+s.no.String()+"/payments", s.token, map[string]string{}, &p); err != nil {
		r.tally.trouble("payment: " + codeOf(err))
		return
	}
	if err := r.client.payAtBank(ctx, p.PayURL); err != nil {
		r.tally.trouble("bank: " + codeOf(err))
		return
	}
	r.await(ctx, s, func(status string) bool { return status != statusPending })
}

// await polls until the status satisfies enough; false when ctx ended first or
// the number turned out never to have been in line.
func (r *run) await(ctx context.Context, s *shopper, enough func(string) bool) bool {
	pause := firstPoll
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		if status, _ := s.state(); enough(status) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.news:
			continue
		case <-timer.C:
		}
		var o orderView
		err := r.client.call(ctx, http.MethodGet, "/api/v1/orders/"+s.no.String(), s.token, nil, &o)
		now := time.Now()
		switch {
		case err == nil && o.Status == answerQueued:
			if o.Position != nil {
				r.position(s, *o.Position)
			}
		case err == nil:
			s.heard(o.Status, false, now)
		case codeOf(err) == "not-entered" && s.answer == answerNone:
			return false // the attempt never arrived; that is an honest end
		case codeOf(err) == "not-entered":
			r.tally.violate(s.no.String(), "was answered 202 and is not known any more")
			return false
		}
		pause = min(2*pause, maxPoll)
		if asked := time.Duration(o.PollAfterMS) * time.Millisecond; pause == maxPoll && asked > pause {
			pause = asked
		}
		timer.Reset(pause)
	}
}

// position checks that a place in line never rises between two polls.
func (r *run) position(s *shopper, now int64) {
	if now > s.position {
		r.tally.violate(s.no.String(), "rose in line between two polls")
	}
	s.position = now
}

func positionOf(body []byte) int64 {
	var v struct {
		Position int64 `json:"position"`
	}
	if json.Unmarshal(body, &v) != nil {
		return 0
	}
	return v.Position
}
