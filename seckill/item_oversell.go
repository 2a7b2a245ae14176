package seckill

import (
	"context"
	"fmt"
	"strings"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/watch/audit"
	"stampede/seckill/internal/seckilldb"
)

const (
	// maxOversellPercent doubles the stock. An agreement covers units that a
	// supplier delivers after the sale; an operator who may sell more than that
	// should raise the stock instead.
	maxOversellPercent = 100
	// maxReasonRunes fits a sentence and a contract number, which is what an
	// auditor needs.
	maxReasonRunes = 500
)

// unitsOnSale is an item's total: its stock plus the agreed share beyond it in
// whole units, rounded down. Everything that counts units uses this number, so
// that no unit beyond the agreement is ever sold.
func unitsOnSale(i *seckilldb.SeckillItem) int32 {
	return i.Stock + int32(int64(i.Stock)*int64(i.OversellPercent)/100) // at most twice ten million
}

// oversell checks an item's agreement against the item's other fields.
func (f *flaws) oversell(location string, i *seckilldb.SeckillItem) {
	f.add(!i.Unlimited || i.OversellPercent == 0, location+".unlimited", i.Unlimited,
		fault.T("An unlimited item has no stock to oversell; set its oversell percentage to 0 first.",
			"请先将超售比例设为 0，再改为不限量。"))
	if i.Stock >= 0 && i.Stock <= maxStock && i.Backup >= 0 && i.Backup <= maxStock {
		f.add(unitsOnSale(i)+i.Backup <= maxStock, location+".stock", i.Stock,
			fault.T("The stock with {percent} % oversold and the backup is {most} units at most.",
				"含超售 {percent}% 与备用，库存最多 {most}。", "percent", i.OversellPercent, "most", maxStock))
	}
}

// oversellAgreement is how much of an item may be sold beyond its stock, and why.
type oversellAgreement struct {
	Percent int16  `json:"percent" minimum:"0" maximum:"100" doc:"Percentage of the stock to sell in addition to it, in whole units rounded down; 0 sells only the stock" example:"5"`
	Reason  string `json:"reason,omitempty" doc:"Who agreed to it and why, 1 to 500 characters; optional at 0 %" example:"Supplier delivers 50 more by the 20th, contract 2026-117"`
}

// setOversell makes, changes or withdraws the agreement to sell an item beyond
// its stock. It has its own route, separate from the item's other fields, so
// that no operator agrees to it by accident. Repeating it changes nothing.
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
			row.OversellReason = "" // the audit log keeps the reason for withdrawing it
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
		return c.record(ctx, "item.oversell", inventory.ItemSubject(id), audit.Change{
			Before: agreedOn(&old), After: agreedOn(&row), Reason: in.Reason,
		})
	})
	return out, err
}

// agreement checks an operator's agreement to oversell.
func (f *flaws) agreement(i *seckilldb.SeckillItem) {
	f.add(i.OversellPercent >= 0 && i.OversellPercent <= maxOversellPercent, "body.percent", i.OversellPercent,
		fault.T("The percentage must be 0 to {most}.", "百分比为 0 至 {most}。", "most", maxOversellPercent))
	f.add(i.OversellPercent == 0 || strings.TrimSpace(i.OversellReason) != "", "body.reason", i.OversellReason,
		fault.T("Selling more than the stock needs a reason: who agreed to it, and why.", "超售须填写原因：由谁同意、为何超售。"))
	f.text("body.reason", i.OversellReason, 0, maxReasonRunes)
	if i.Unlimited {
		f.add(i.OversellPercent == 0, "body.percent", i.OversellPercent,
			fault.T("An unlimited item has no stock to oversell.", "不限量商品不能设置超售。"))
		return
	}
	f.add(unitsOnSale(i)+i.Backup <= maxStock, "body.percent", i.OversellPercent,
		fault.T("The stock of {stock} units plus this percentage, and the backup, are more than {most} units.",
			"库存 {stock} 加上超售与备用，超过上限 {most}。", "stock", i.Stock, "most", maxStock))
}

// agreedOn is the agreement in the form that the audit log keeps.
func agreedOn(i *seckilldb.SeckillItem) map[string]any {
	return map[string]any{"percent": i.OversellPercent, "reason": i.OversellReason, "stock": i.Stock, "on_sale": unitsOnSale(i)}
}
