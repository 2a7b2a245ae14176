package seckill

import (
	"context"
	"fmt"

	"stampede/inventory"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
)

// editItem applies a patch to an item.
func (s *Service) editItem(ctx context.Context, id int64, in itemPatch) (itemView, error) {
	var out itemView
	err := s.transact(ctx, func(ctx context.Context, c *change) error {
		b, old, err := c.lockItem(ctx, id, actAmend)
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
		if c.amends() {
			if err := c.amendItem(old, row); err != nil {
				return err
			}
		}
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
		if c.amends() {
			err = c.touch(ctx)
		} else {
			err = c.changedBelow(ctx, before)
		}
		if err != nil {
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
		return c.record(ctx, "item.delete", inventory.ItemSubject(id), deleted(viewItem(&old)))
	})
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
