package seckill

import (
	"context"
	"fmt"
	"strings"

	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
)

const (
	// maxOversellPercent doubles the stock. An agreement covers what a supplier
	// delivers after the sale; whoever may sell more than that has a stock to
	// enter, not a share to agree on.
	maxOversellPercent = 100
	// maxReasonRunes fits the sentence and the contract's number that an auditor
	// looks for.
	maxReasonRunes = 500
)

// unitsOnSale is an item's total: its stock, and the agreed share beyond it in
// whole units, rounded down. Everything that counts units counts these, so that
// nothing that was not agreed is ever oversold.
func unitsOnSale(i *seckilldb.SeckillItem) int32 {
	return i.Stock + int32(int64(i.Stock)*int64(i.OversellPercent)/100) // at most twice ten million
}

// oversell checks an item's agreement against the rest of the item.
func (f *flaws) oversell(location string, i *seckilldb.SeckillItem) {
	f.add(!i.Unlimited || i.OversellPercent == 0, location+".unlimited", i.Unlimited,
		"An unlimited item has no stock to oversell; set its oversell percentage to 0 first.")
	if i.Stock >= 0 && i.Stock <= maxStock {
		f.add(unitsOnSale(i) <= maxStock, location+".stock", i.Stock,
			"The stock with %d %% oversold is %d units at most.", i.OversellPercent, maxStock)
	}
}

// oversellAgreement is how much of an item may be sold beyond its stock, and why.
type oversellAgreement struct {
	Percent int16  `json:"percent" minimum:"0" maximum:"100" doc:"Share of the stock to sell beyond it, in whole units rounded down; 0 sells the stock and nothing more" example:"5"`
	Reason  string `json:"reason,omitempty" doc:"Who agreed to it and why, 1 to 500 characters; may be left out at 0 %" example:"Supplier delivers 50 more by the 20th, contract 2026-117"`
}

// setOversell makes, changes or takes back the agreement to sell an item beyond
// its stock. It has a route of its own, beside the item's other fields, so that
// nobody agrees to it in passing. Repeating it changes nothing.
func (s *Service) setOversell(ctx context.Context, id int64, in oversellAgreement) (itemView, error) {
	var out itemView
	err := s.transact(ctx, func(ctx context.Context, c *change) error {
		b, old, err := c.lockItem(ctx, id, actEdit)
		if err != nil {
			return err
		}
		row, before := old, b.stock()
		row.OversellPercent, row.OversellReason = in.Percent, in.Reason
		var f flaws
		f.agreement(&row)
		if err := f.err(); err != nil {
			return err
		}
		if row.OversellPercent == 0 {
			row.OversellReason = "" // why it was taken back is in the audit log; there is nothing left to justify
		}
		if row.OversellPercent == old.OversellPercent && row.OversellReason == old.OversellReason {
			out = viewItem(&old)
			return nil
		}
		if row, err = c.q.SetOversell(ctx, seckilldb.SetOversellParams{ID: id, Percent: row.OversellPercent, Reason: row.OversellReason}); err != nil {
			return fmt.Errorf("seckill: set oversell: %w", err)
		}
		if err := c.changedBelow(ctx, before); err != nil {
			return err
		}
		out = viewItem(&row)
		return c.record(ctx, "item.oversell", catalogue.ItemSubject(id), map[string]any{
			"reason": in.Reason, "before": agreedOn(&old), "after": agreedOn(&row),
		})
	})
	return out, err
}

// agreement checks what an operator agrees to.
func (f *flaws) agreement(i *seckilldb.SeckillItem) {
	f.add(i.OversellPercent >= 0 && i.OversellPercent <= maxOversellPercent, "body.percent", i.OversellPercent,
		"The percentage is 0 to %d.", maxOversellPercent)
	f.add(i.OversellPercent == 0 || strings.TrimSpace(i.OversellReason) != "", "body.reason", i.OversellReason,
		"Selling more than the stock needs a reason: who agreed to it, and why.")
	f.text("body.reason", i.OversellReason, 0, maxReasonRunes)
	if i.Unlimited {
		f.add(i.OversellPercent == 0, "body.percent", i.OversellPercent, "An unlimited item has no stock to oversell.")
		return
	}
	f.add(unitsOnSale(i) <= maxStock, "body.percent", i.OversellPercent,
		"The stock of %d units with this share is more than %d units.", i.Stock, maxStock)
}

// agreedOn is the agreement as the audit log keeps it.
func agreedOn(i *seckilldb.SeckillItem) map[string]any {
	return map[string]any{"percent": i.OversellPercent, "reason": i.OversellReason, "stock": i.Stock, "on_sale": unitsOnSale(i)}
}
