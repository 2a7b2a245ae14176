package rush

import (
	"context"
	"fmt"
	"time"

	"stampede/inventory"
	"stampede/platform/watch/alarm"
)

const (
	// fencedFor is how long an item on sale may go without decisions before an
	// alarm calls an operator: three times what a Load with busy publishers
	// takes.
	fencedFor = 20 * time.Second
	// fencedEvery is how often items are checked: one query and one round trip
	// to Redis for all that are on sale.
	fencedEvery = 5 * time.Second
)

// FencedProbe finds items whose sale is open but that Redis does not decide,
// whatever the reason: failing Loads have their own alarm, but a Load that waits
// for the order writer does not fail. A Redis that does not answer has its own
// alarm, and hides only the items that it stores.
func (r *Service) FencedProbe() alarm.Probe {
	return alarm.Probe{Alarm: alarmItemFenced, Every: fencedEvery, For: fencedFor, Shared: true, Look: r.fencedItems}
}

// fencedItems finds items on sale that Redis does not decide, with the reason.
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
			found = append(found, alarm.Finding{Subject: inventory.ItemSubject(item.ID), Detail: statuses[i].Why()})
		}
	}
	return found, err
}
