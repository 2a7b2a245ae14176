package rush

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/alarm"
	"stampede/seckill/catalogue"
)

const (
	// fencedFor is how long an item on sale may be without an answer before a
	// person is asked: three times what a Load with busy publishers takes.
	fencedFor = 20 * time.Second
	// fencedEvery is how often it is looked at: one small read per item on sale.
	fencedEvery = 5 * time.Second
)

// FencedProbe looks for items whose sale is open and that Redis does not decide
// on, whatever the reason: Loads that fail have an alarm of their own, but one
// that waits for the order writer does not fail. A Redis that does not answer is
// another alarm's business.
func (r *Service) FencedProbe() alarm.Probe {
	return alarm.Probe{Code: alarm.ItemFenced, Every: fencedEvery, For: fencedFor, Shared: true, Look: r.fencedItems}
}

// fencedItems finds items on sale that Redis does not decide on, with the reason.
func (r *Service) fencedItems(ctx context.Context) ([]alarm.Finding, error) {
	now := r.clock.Now()
	var found []alarm.Finding
	for _, item := range r.catalogue.Items() {
		if !item.DueInRedis(now) || now.Before(item.OpensAt) {
			continue
		}
		state, ok, err := r.deps.Stock.State(ctx, item.Stock())
		if err != nil {
			return nil, fmt.Errorf("seckill: look for fenced items: %w", err)
		}
		switch {
		case ok && state.Ready():
		case !ok:
			found = append(found, alarm.Finding{Subject: catalogue.ItemSubject(item.ID), Detail: "It has no state in Redis."})
		case !state.SameRedis:
			found = append(found, alarm.Finding{Subject: catalogue.ItemSubject(item.ID), Detail: "Redis was restarted or failed over since it was loaded."})
		default:
			found = append(found, alarm.Finding{Subject: catalogue.ItemSubject(item.ID), Detail: "Its Load has not come to an end."})
		}
	}
	return found, nil
}
