package seckill

import (
	"context"
	"fmt"
	"log/slog"

	"stampede/inventory"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
)

// editItem applies a patch to an item.
func (s *Service) editItem(ctx context.Context, id int64, in itemPatch) (itemView, error) {
	var out itemView
	err := s.transact(ctx, func(ctx context.Context, c *change) error {
		b, old, err := c.lockItem(ctx, id, actEdit)
		if err != nil {
			return err
		}
		if old.Version != in.Version {
			return errStale(old.Version)
		}
		before := b.stock()
		row, saleCurrency := in.over(old)
		var f flaws
		f.item("body", &row, saleCurrency)
		if err := f.err(); err != nil {
			return err
		}
		if out = viewItem(&row); unchanged(viewItem(&old), out) {
			return nil
		}
		row, err = c.q.UpdateItem(ctx, seckilldb.UpdateItemParams{
			ID: id, Sku: row.Sku, Title: row.Title, Spec: row.Spec, ImageUrl: row.ImageUrl, ListPrice: row.ListPrice,
			SalePrice: row.SalePrice, Currency: row.Currency, Stock: row.Stock, Backup: row.Backup, Unlimited: row.Unlimited, LimitPerUser: row.LimitPerUser,
		})
		if err != nil {
			return orTakenSKU(err, "body", optional(in.SKU, ""), "update item")
		}
		if err := c.changedBelow(ctx, before); err != nil {
			return err
		}
		out = viewItem(&row)
		return c.record(ctx, "item.edit", inventory.ItemSubject(id), edited(viewItem(&old), out))
	})
	return out, err
}

// over applies the patch to a row. The second result is the sale price's
// currency, which has no column because it must equal the list price's.
func (in *itemPatch) over(row seckilldb.SeckillItem) (seckilldb.SeckillItem, string) {
	list := optional(in.ListPrice, wire.Money{Amount: row.ListPrice, Currency: row.Currency})
	sale := optional(in.SalePrice, wire.Money{Amount: row.SalePrice, Currency: row.Currency})
	row.Sku = optional(in.SKU, row.Sku)
	row.Title = optional(in.Title, row.Title)
	row.Spec = optional(in.Spec, row.Spec)
	row.ImageUrl = optional(in.ImageURL, row.ImageUrl)
	row.ListPrice, row.SalePrice, row.Currency = list.Amount, sale.Amount, list.Currency
	row.Unlimited = optional(in.Unlimited, row.Unlimited)
	if in.Unlimited != nil && row.Unlimited {
		row.Stock, row.Backup = 0, 0 // there is nothing to count; a request that also sets one is refused
	}
	row.Backup = optional(in.Backup, row.Backup)
	row.Stock = optional(in.Stock, row.Stock)
	if in.LimitPerUser != nil {
		row.LimitPerUser = ownLimit(*in.LimitPerUser)
	}
	return row, sale.Currency
}

// deleteItem removes an item.
func (s *Service) deleteItem(ctx context.Context, id int64) error {
	return s.transact(ctx, func(ctx context.Context, c *change) error {
		b, old, err := c.lockItem(ctx, id, actEdit)
		if err != nil {
			return err
		}
		before := b.stock() // the plan before the deletion, to find the stock row to drop
		if err := c.q.DeleteItem(ctx, id); err != nil {
			return fmt.Errorf("seckill: delete item: %w", err)
		}
		if err := c.changedBelow(ctx, before); err != nil {
			return err
		}
		c.logDeletion("item", id)
		return c.record(ctx, "item.delete", inventory.ItemSubject(id), viewItem(&old))
	})
}

// stockAddition is the body of a request to add stock.
type stockAddition struct {
	Add int32 `json:"add" minimum:"1" maximum:"10000000" doc:"Units to add to the stock; an agreed share beyond it grows with it"`
}

// addStock puts more units of an item on sale, also while it runs.
func (s *Service) addStock(ctx context.Context, key string, id int64, in stockAddition) (itemView, error) {
	var out itemView
	request := struct {
		ItemID wire.ID
		stockAddition
	}{wire.ID(id), in}
	err := s.transact(ctx, func(ctx context.Context, c *change) (err error) {
		out, err = once(ctx, c, key, "item.add-stock", request, func() (itemView, error) { return c.addStock(ctx, id, in.Add) })
		return err
	})
	return out, err
}

// addStock raises the plan's stock and the stock row's total by the same units in
// one transaction. It adds a difference and never sets a value, so that two
// operators who add at the same time both get what they requested.
func (c *change) addStock(ctx context.Context, id int64, units int32) (itemView, error) {
	_, old, err := c.lockItem(ctx, id, actAddStock)
	if err != nil {
		return itemView{}, err
	}
	var f flaws
	f.add(!old.Unlimited, "body.add", units, "An unlimited item has no stock to add to.")
	more := old
	more.Stock += min(units, maxStock) // the sum is checked next and must not overflow before that
	f.add(units >= 1 && units <= maxStock && unitsOnSale(&more)+more.Backup <= maxStock, "body.add", units,
		"The new stock, with %d %% oversold and the backup of %d, is %d units at most; the stock is %d now.", old.OversellPercent, old.Backup, maxStock, old.Stock)
	if err := f.err(); err != nil {
		return itemView{}, err
	}
	row, err := c.q.AddItemStock(ctx, seckilldb.AddItemStockParams{ID: id, Added: units})
	if err != nil {
		return itemView{}, fmt.Errorf("seckill: add stock: %w", err)
	}
	added := unitsOnSale(&row) - unitsOnSale(&old)
	if err := c.s.deps.Stock.Change(ctx, c.tx, id, inventory.Change{AddStock: &added}); err != nil {
		return itemView{}, fmt.Errorf("seckill: add stock to item %d: %w", id, err)
	}
	c.did = []slog.Attr{slog.String("action", string(actAddStock)), slog.Int64("item_id", id), slog.Int("units", int(units))}
	c.apply = append(c.apply, id) // carried to Redis once this has been committed
	if err := c.touch(ctx); err != nil {
		return itemView{}, err
	}
	return viewItem(&row), c.record(ctx, "item.add-stock", inventory.ItemSubject(id), map[string]int32{"added": units, "stock": row.Stock, "on_sale": unitsOnSale(&row)})
}

// lockItem locks the activity of an item for an action and reads its whole
// tree.
func (c *change) lockItem(ctx context.Context, id int64, act action) (*branch, seckilldb.SeckillItem, error) {
	row, err := c.q.Item(ctx, id)
	if err != nil {
		return nil, row, orNotFound(err, errNoItem, "read item")
	}
	if err := c.lock(ctx, row.ActivityID, act); err != nil {
		return nil, row, err
	}
	tree, err := readTree(ctx, c.q, []seckilldb.SeckillActivity{c.activity})
	if err != nil {
		return nil, row, err
	}
	// Read again under the lock: another operator may have changed or deleted it while this request
	// waited.
	if row, err = c.q.Item(ctx, id); err != nil {
		return nil, row, orNotFound(err, errNoItem, "read item")
	}
	return &tree[0], row, nil
}
