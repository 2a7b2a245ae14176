package change

import (
	"context"
	"fmt"
	"net/http"
	"sort"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/audit"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
)

type stockAddition struct {
	Add int32 `json:"add" minimum:"-10000000" maximum:"10000000" doc:"Units to add to the stock; below 0, units to take off it. An agreed share beyond it follows" example:"5"`

	OrFewer orFewer `json:"or_fewer,omitempty" doc:"Take as many units as are free, also none; otherwise units-not-free refuses to take fewer"`
}

// orFewer makes a request take as many units off the sale as are free. Without it the
// request is refused when there are fewer than it asks for.
type orFewer bool

var errNotFree = fault.New(fault.Conflict, "units-not-free", fault.T("Not enough units are free", "可用库存不足"),
	fault.T("Fewer units are free: shoppers hold or have bought the others.", "可用件数不足，其余已被顾客占用或购买。"),
	fault.T("Ask for no more than are free, or send or_fewer to take what there is.", "请减少数量，或按当前可用件数重新填写。"))

// enough refuses units that are not all free, unless the request takes fewer; member is
// the member of its body that says how many. Its transaction is rolled back then.
func (o orFewer) enough(free, units int32, member string) error {
	if bool(o) || free >= units {
		return nil
	}
	says := fault.T("Of these {asked} units, {free} can be taken.",
		"所选 {asked} 件中只有 {free} 件可用。", "asked", units, "free", free)
	refused := errNotFree.Saying(says).With("free", free).At("body."+member, says)
	refused.Flaws[0].Value = units
	return refused
}

type writingOff struct {
	Units  int32  `json:"units" minimum:"1" maximum:"10000000" doc:"Units that cannot be sold any more, of those that no shopper holds"`
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for the audit log" example:"Broken in transport, report 2026-88"`

	OrFewer orFewer `json:"or_fewer,omitempty" doc:"Take as many units as are free, also none; otherwise units-not-free refuses to take fewer"`
}

type writtenOff struct {
	WrittenOff int32         `json:"written_off" doc:"How many units were written off"`
	Item       plan.ItemView `json:"item"`
}

// notFreeYet describes what every route says that takes units off a sale.
const notFreeYet = "Units of an order that just ended are not free until they are back on sale: ask again then."

// stockRoutes registers the routes that change how many units an item sells while
// it runs.
func (s *Service) stockRoutes(api httpx.API, base string) {
	api.Member("free", huma.Schema{Type: huma.TypeInteger, Description: "Units that no shopper holds, of units-not-free", Examples: []any{4}})
	change := operator.Write(http.MethodPost, base+"/{id}/stock", "add-stock", "item.add-stock", "Put more units on sale, or take free ones off it, at any time until the end",
		http.StatusOK, backupRefusals...)
	change.Scope = auth.StockWrite
	change.Description = "`changed` says how many were added or taken off. " + notFreeYet
	createFrom(s, api, change, addStock)
	off := operator.Write(http.MethodPost, base+"/{id}/write-off", "write-off", "item.write-off",
		"Write units off that are lost or broken, from 60 s before the opening until the end", http.StatusOK, backupRefusals...)
	off.Scope = auth.StockWrite
	off.Description = "They leave the sale for good and count as written off. " + notFreeYet + " Before the 60 s, edit the stock."
	createFrom(s, api, off, writeOff)
}

// changedUnits completes such a change of an activity that is published: carries it to
// Redis after the commit, and records it.
func (c *change) changedUnits(ctx context.Context, id int64, what string, did audit.Change) error {
	c.apply = append(c.apply, id)
	if err := c.touch(ctx); err != nil {
		return err
	}
	return c.record(ctx, "item."+what, inventory.ItemSubject(id), did)
}

// addStock changes the plan's stock and the stock row's total together. It
// moves by a difference and never sets a value, so that two operators who add at the
// same time both get what they requested.
func addStock(ctx context.Context, c *change, id int64, in stockAddition) (plan.ItemView, error) {
	units := in.Add
	_, old, err := c.lockItem(ctx, id, plan.ActAddStock)
	if err != nil {
		return plan.ItemView{}, err
	}
	var f plan.Flaws
	f.Add(units != 0 && units >= -plan.MaxStock && units <= plan.MaxStock, "body.add", units,
		fault.T("Add 1 to {most} units, or take them off with a minus sign.",
			"数量为 1 至 {most}，减少时填负数。", "most", plan.MaxStock))
	f.Add(!old.Unlimited, "body.add", units, fault.T("An unlimited item has no stock to change.", "不限量商品没有库存可调整。"))
	more := old
	more.Stock += min(units, plan.MaxStock) // the sum is checked next and must not overflow before that
	f.Add(units < 0 || plan.UnitsOnSale(&more)+more.Backup <= plan.MaxStock, "body.add", units,
		fault.T("The new stock, with {percent} % oversold and the backup of {backup}, is {most} units at most; the "+
			"stock is {stock} now.",
			"含超售 {percent}% 和备用 {backup}，库存最多 {most}；当前为 {stock}。",
			"percent", old.OversellPercent, "backup", old.Backup, "most", plan.MaxStock, "stock", old.Stock))
	if err := f.Err(); err != nil {
		return plan.ItemView{}, err
	}
	if units > 0 {
		added := plan.UnitsOnSale(&more) - plan.UnitsOnSale(&old)
		err = c.s.deps.Stock.Change(ctx, c.tx, id, inventory.Change{AddStock: &added})
	} else {
		units, err = c.takeOff(ctx, &old, -units, in.OrFewer)
	}
	if err != nil {
		return plan.ItemView{}, fmt.Errorf("change: change stock of item %d by %d: %w", id, units, err)
	}
	if units == 0 {
		c.apply, c.announce = append(c.apply, id), true // a rest may have come back
		view := plan.ViewItem(&old)
		view.Changed = new(int32)
		return view, nil
	}
	row := old
	row.Stock, row.Version = row.Stock+units, row.Version+1
	if err := c.putItem(ctx, &row); err != nil {
		return plan.ItemView{}, err
	}
	was, view := plan.ViewItem(&old), plan.ViewItem(&row)
	view.Changed = &units
	return view, c.changedUnits(ctx, id, string(plan.ActAddStock), edited(was, view))
}

// takeOff takes units of goods off the stock row, with the agreed share beyond them, and
// returns the change of the stock, 0 or below.
func (c *change) takeOff(ctx context.Context, old *seckilldb.SeckillItem, asked int32, or orFewer) (int32, error) {
	units := min(asked, old.Stock)
	sold := func(fewer int32) int32 { // units on sale that leave with so many units of goods
		less := *old
		less.Stock -= fewer
		return plan.UnitsOnSale(old) - plan.UnitsOnSale(&less)
	}
	// Of an item that is sold beyond its stock, the units that are free need not be a whole number of goods and
	// their shares; the rest stays on sale.
	goods := func(free int32) int32 {
		return int32(sort.Search(int(units), func(n int) bool { return sold(int32(n)+1) > free })) //nolint:gosec // at most plan.MaxStock
	}
	free, err := c.s.deps.Stock.Free(ctx, c.tx, old.ID)
	if err != nil {
		return 0, err
	}
	if err := or.enough(goods(free), asked, "add"); err != nil || units == 0 {
		return 0, err
	}
	taken, err := c.s.deps.Stock.TakeOff(ctx, c.tx, old.ID, sold(units))
	if err != nil {
		return 0, err
	}
	units = goods(taken)
	if err := or.enough(units, asked, "add"); err != nil { // a shopper was faster; what left Redis comes back within seconds
		return 0, err
	}
	if rest := taken - sold(units); rest > 0 {
		err = c.s.deps.Stock.Change(ctx, c.tx, old.ID, inventory.Change{AddStock: &rest})
	}
	return -units, err
}

// writeOff writes free units of an item off and leaves the plan as it is: the units were put on sale, and the stock row
// says what became of them.
func writeOff(ctx context.Context, c *change, id int64, in writingOff) (writtenOff, error) {
	_, item, err := c.lockItem(ctx, id, plan.ActWriteOff)
	if err != nil {
		return writtenOff{}, err
	}
	var f plan.Flaws
	f.Add(in.Units >= 1 && in.Units <= plan.MaxStock, "body.units", in.Units,
		fault.T("Write off 1 to {most} units.", "报损数量为 1 至 {most}。", "most", plan.MaxStock))
	f.Add(!item.Unlimited, "body.units", in.Units,
		fault.T("An unlimited item has no units to write off.", "不限量商品没有可报损的库存。"))
	f.Text("body.reason", in.Reason, 1, plan.MaxReasonRunes)
	if err := f.Err(); err != nil {
		return writtenOff{}, err
	}
	rows, err := c.s.deps.Stock.LockItem(ctx, c.tx, id)
	if err != nil {
		return writtenOff{}, err
	}
	before := int32(0)
	for _, st := range rows {
		before += st.WrittenOff
	}
	units, err := c.offSale(ctx, id, in.Units, in.OrFewer, c.s.deps.Stock.WriteOffFree)
	if err != nil {
		return writtenOff{}, fmt.Errorf("change: write off units of item %d: %w", id, err)
	}
	out := writtenOff{WrittenOff: units, Item: plan.ViewItem(&item)}
	if units == 0 {
		return out, nil
	}
	return out, c.changedUnits(ctx, id, string(plan.ActWriteOff), audit.Change{
		Before: map[string]int32{"written_off": before}, After: map[string]int32{"written_off": before + units}, Reason: in.Reason,
	})
}

// offSale takes free units of an item off its sale by take.
func (c *change) offSale(ctx context.Context, id int64, units int32, or orFewer, take func(context.Context, pgx.Tx, int64, int32) (int32, error)) (int32, error) {
	free, err := c.s.deps.Stock.Free(ctx, c.tx, id)
	if err == nil {
		err = or.enough(free, units, "units")
	}
	if err != nil {
		return 0, err
	}
	taken, err := take(ctx, c.tx, id, units)
	if err != nil {
		return 0, err
	}
	return taken, or.enough(taken, units, "units") // a shopper was faster; what left Redis comes back within seconds
}

type backupMove struct {
	Units int32 `json:"units" minimum:"-10000000" maximum:"10000000" doc:"Above 0: from the sale to the backup; below 0: from the backup to the sale" example:"5"`

	OrFewer orFewer `json:"or_fewer,omitempty" doc:"Take as many units as are free, also none; otherwise units-not-free refuses to take fewer"`
}

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
	item.Stock, item.Backup, item.Version = item.Stock-moved, item.Backup+moved, item.Version+1
	if err := c.putItem(ctx, &item); err != nil {
		return backupMoved{}, err
	}
	if share := plan.UnitsOnSale(&item) - plan.UnitsOnSale(&before) + moved; share > 0 {
		if err := c.s.deps.Stock.Change(ctx, c.tx, id, inventory.Change{AddStock: &share}); err != nil {
			return backupMoved{}, fmt.Errorf("change: add the share beyond the stock of item %d: %w", id, err)
		}
	}
	err = c.changedUnits(ctx, id, "backup", edited(unitsOf(&before), unitsOf(&item)))
	return backupMoved{Moved: moved, Item: plan.ViewItem(&item)}, err
}

// unitsOf is what a move of the backup changes, in the form that the audit log keeps.
func unitsOf(i *seckilldb.SeckillItem) map[string]int32 {
	return map[string]int32{"stock": i.Stock, "backup": i.Backup, "on_sale": plan.UnitsOnSale(i)}
}
