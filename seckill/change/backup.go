package change

import (
	"context"
	"fmt"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
)

// backupMove is the body of a request to move units between sale and backup.
type backupMove struct {
	Units int32 `json:"units" minimum:"-10000000" maximum:"10000000" doc:"Above 0: from the sale to the backup; below 0: from the backup to the sale" example:"5"`

	OrFewer orFewer `json:"or_fewer,omitempty" doc:"Take as many units as are free, also none; otherwise units-not-free refuses to take fewer"`
}

// backupMoved is the answer to it.
type backupMoved struct {
	Moved int32         `json:"moved" doc:"How many units moved, with the sign of the request"`
	Item  plan.ItemView `json:"item"`
}

// moveBackup moves units of an item between its sale and its backup, also while it
// runs and after its end: late payments still take units from the backup. It moves what
// can be moved in inventory and changes the plan by the same units. Units of an oversold item come back with the share beyond them; none leave its
// sale, because that share would have to leave it too, and shoppers may hold it.
func moveBackup(ctx context.Context, c *change, id int64, in backupMove) (backupMoved, error) {
	units := in.Units
	_, item, err := c.lockItem(ctx, id, plan.ActMoveBackup)
	if err != nil {
		return backupMoved{}, err
	}
	var f plan.Flaws
	f.Add(units != 0 && units >= -plan.MaxStock && units <= plan.MaxStock, "body.units", units,
		fault.T("Move 1 to {most} units, in either direction.", "数量为 1 至 {most}，转回时填负数。", "most", plan.MaxStock))
	f.Add(!item.Unlimited, "body.units", units, fault.T("An unlimited item has no backup.", "不限量商品没有备用库存。"))
	f.Add(item.OversellPercent == 0 || units <= 0, "body.units", units,
		fault.T("The item is sold {percent} % beyond its stock by agreement, so no units leave its sale. Units below "+
			"0 come back from its backup; to hold more back, set its backup before it is published.",
			"该商品按约定超售 {percent}%，不能再转入备用；负数可从备用转回。", "percent", item.OversellPercent))
	more, back := item, min(-min(units, 0), item.Backup)
	more.Stock, more.Backup = item.Stock+back, item.Backup-back
	f.Add(units >= 0 || plan.UnitsOnSale(&more)+more.Backup <= plan.MaxStock, "body.units", units,
		fault.T("With {percent} % oversold, {most} units are the most an item may have; move fewer.",
			"含超售 {percent}%，商品最多 {most} 件，请减少数量。", "percent", item.OversellPercent, "most", plan.MaxStock))
	if err := f.Err(); err != nil {
		return backupMoved{}, err
	}
	var moved int32
	if units > 0 {
		moved, err = c.offSale(ctx, id, units, in.OrFewer, c.s.deps.Stock.ToBackup)
	} else {
		moved, err = c.s.deps.Stock.FromBackup(ctx, c.tx, id, -units)
		if err == nil {
			err = in.OrFewer.enough(moved, -units, "units")
		}
		moved = -moved
	}
	if err != nil {
		return backupMoved{}, fmt.Errorf("change: move backup of item %d: %w", id, err)
	}
	if moved == 0 {
		return backupMoved{Item: plan.ViewItem(&item)}, nil
	}
	before := item
	if item, err = c.q.MoveItemBackup(ctx, seckilldb.MoveItemBackupParams{ID: id, Units: moved}); err != nil {
		return backupMoved{}, fmt.Errorf("change: move backup: %w", err)
	}
	if share := plan.UnitsOnSale(&item) - plan.UnitsOnSale(&before) + moved; share > 0 {
		if err := c.s.deps.Stock.Change(ctx, c.tx, id, inventory.Change{AddStock: &share}); err != nil {
			return backupMoved{}, fmt.Errorf("change: add the share beyond the stock of item %d: %w", id, err)
		}
	}
	err = c.changedUnits(ctx, id, "backup", moved, edited(unitsOf(&before), unitsOf(&item)))
	return backupMoved{Moved: moved, Item: plan.ViewItem(&item)}, err
}

// unitsOf is what a move of the backup changes, in the form that the audit log keeps.
func unitsOf(i *seckilldb.SeckillItem) map[string]int32 {
	return map[string]int32{"stock": i.Stock, "backup": i.Backup, "on_sale": plan.UnitsOnSale(i)}
}
