package rush

import (
	"context"
	"fmt"
	"log/slog"

	"stampede/inventory"
	"stampede/seckill/catalogue"
	"stampede/seckill/seckillevent"
)

// republisher publishes grants once more whose messages are lost, for the
// sweeper and for a Load. The writer accepts each number once.
type republisher struct {
	bus     grantStream
	metrics *metrics
	log     *slog.Logger
}

// publish stores at most inventory.MaxBatch grants of one item and epoch as one
// message. After an error they may be stored or not.
func (r republisher) publish(ctx context.Context, item *catalogue.Item, lost []inventory.StaleHold) error {
	var b seckillevent.Batch
	describe(&b, item, lost[0].Epoch)
	for _, h := range lost {
		b.Grants = append(b.Grants, seckillevent.Grant{No: h.No, User: h.User, Quantity: h.Quantity, PayWithin: h.PayWithin, Seq: h.Seq})
	}
	if err := r.bus.Publish(ctx, seckillevent.GrantsSubject(item.ID), b.ID, b.Encode(nil)); err != nil {
		return fmt.Errorf("publish grants again: %w", err)
	}
	r.metrics.swept.WithLabelValues("republished").Add(float64(len(b.Grants)))
	r.log.WarnContext(ctx, "grants published again", "item_id", item.ID, "epoch", b.Epoch, "grants", len(b.Grants))
	return nil
}

// Republish publishes grants of one epoch of an item once more. A Load calls it
// with the open holds that it finds: they have neither a message nor an order.
// It returns when they are stored.
func (r *Service) Republish(ctx context.Context, itemID int64, holds []inventory.StaleHold) error {
	item, ok := r.catalogue.Item(itemID)
	if !ok {
		return fmt.Errorf("seckill: item %d is not in the catalogue", itemID)
	}
	return republisher{r.lanes.bus, r.metrics, r.deps.Log}.publish(ctx, item, holds)
}
