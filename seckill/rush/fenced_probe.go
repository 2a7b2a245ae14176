package rush

import (
	"context"
	"fmt"
	"time"

	"stampede/inventory"
	"stampede/platform/watch/alarm"
	"stampede/seckill/catalogue"
)

const (
	// fencedFor is how long an item on sale may be without an answer before a
	// person is asked: three times what a Load with busy publishers takes.
	fencedFor = 20 * time.Second
	// fencedEvery is how often items are looked at: one query and one round trip
	// to Redis for all that are on sale.
	fencedEvery = 5 * time.Second
)

// FencedProbe looks for items whose sale is open and that Redis does not decide
// on, whatever the reason: Loads that fail have an alarm of their own, but one
// that waits for the order writer does not fail. A Redis that does not answer is
// another alarm's business, and hides only the items that it has.
func (r *Service) FencedProbe() alarm.Probe {
	return alarm.Probe{Alarm: alarmItemFenced, Every: fencedEvery, For: fencedFor, Shared: true, Look: r.fencedItems}
}

// whyFenced is what the alarm says of an item that needs a Load.
var whyFenced = map[inventory.Status]string{
	inventory.NotThere:  "It has no state in Redis.",
	inventory.Restarted: "Redis was restarted or failed over since it was loaded.",
	inventory.Loading:   "Its Load has not come to an end.",
	inventory.Outdated:  "Redis is back at what it had before the last Load, and every grant is refused.",
}

// fencedItems finds items on sale that Redis does not decide on, with the reason.
// The error is about items whose status is unknown.
func (r *Service) fencedItems(ctx context.Context) ([]alarm.Finding, error) {
	now := r.clock.Now()
	var onSale []inventory.Item
	for _, item := range r.catalogue.Items() {
		if item.DueInRedis(now) && !now.Before(item.OpensAt) {
			onSale = append(onSale, item.Stock())
		}
	}
	if len(onSale) == 0 {
		return nil, nil
	}
	statuses, err := r.deps.Stock.Health(ctx, onSale)
	if err != nil {
		err = fmt.Errorf("seckill: find fenced items: %w", err)
	}
	var found []alarm.Finding
	for i, item := range onSale {
		if statuses[i].Unready() {
			found = append(found, alarm.Finding{Subject: catalogue.ItemSubject(item.ID), Detail: whyFenced[statuses[i]]})
		}
	}
	return found, err
}
