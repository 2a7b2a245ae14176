package change

import (
	"context"
	"fmt"

	"stampede/inventory"
	"stampede/platform/watch/audit"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
)

// oversellAgreement is how much of an item may be sold beyond its stock, and why.
type oversellAgreement struct {
	Percent int16  `json:"percent" minimum:"0" maximum:"100" doc:"Percentage of the stock to sell in addition to it, in whole units rounded down; 0 sells only the stock" example:"5"`
	Reason  string `json:"reason,omitempty" doc:"Who agreed to it and why, 1 to 500 characters; optional at 0 %" example:"Supplier delivers 50 more by the 20th, contract 2026-117"`
}

// setOversell makes, changes or withdraws the agreement to sell an item beyond
// its stock. It has its own route, separate from the item's other fields, so
// that no operator agrees to it by accident. Repeating it changes nothing.
func setOversell(ctx context.Context, c *change, id int64, in oversellAgreement) (out plan.ItemView, err error) {
	b, old, err := c.lockItem(ctx, id, plan.ActEdit)
	if err != nil {
		return out, err
	}
	row, before := old, b.Stock()
	row.OversellPercent, row.OversellReason = in.Percent, in.Reason
	var f plan.Flaws
	f.Agreement(&row)
	if err := f.Err(); err != nil {
		return out, err
	}
	if row.OversellPercent == 0 {
		row.OversellReason = "" // the audit log keeps the reason for withdrawing it
	}
	if row.OversellPercent == old.OversellPercent && row.OversellReason == old.OversellReason {
		out = plan.ViewItem(&old)
		return out, nil
	}
	if row, err = c.q.SetOversell(ctx, seckilldb.SetOversellParams{ID: id, Percent: row.OversellPercent, Reason: row.OversellReason}); err != nil {
		return out, fmt.Errorf("change: set oversell: %w", err)
	}
	if err := c.changedBelow(ctx, before); err != nil {
		return out, err
	}
	out = plan.ViewItem(&row)
	return out, c.record(ctx, "item.oversell", inventory.ItemSubject(id), audit.Change{
		Before: agreedOn(&old), After: agreedOn(&row), Reason: in.Reason,
	})
}

// agreedOn is the agreement in the form that the audit log keeps.
func agreedOn(i *seckilldb.SeckillItem) map[string]any {
	return map[string]any{"percent": i.OversellPercent, "reason": i.OversellReason, "stock": i.Stock, "on_sale": plan.UnitsOnSale(i)}
}
