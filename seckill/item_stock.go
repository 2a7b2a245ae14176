package seckill

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sort"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/audit"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
)

// stockAddition is the body of a request to change the stock.
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

// writingOff is the body of a request to write units off.
type writingOff struct {
	Units  int32  `json:"units" minimum:"1" maximum:"10000000" doc:"Units that cannot be sold any more, of those that no shopper holds"`
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for the audit log" example:"Broken in transport, report 2026-88"`

	OrFewer orFewer `json:"or_fewer,omitempty" doc:"Take as many units as are free, also none; otherwise units-not-free refuses to take fewer"`
}

// writtenOff is the answer to it.
type writtenOff struct {
	WrittenOff int32    `json:"written_off" doc:"How many units were written off"`
	Item       itemView `json:"item"`
}

// notFreeYet describes what every route says that takes units off a sale.
const notFreeYet = "Units of an order that just ended are not free until they are back on sale: ask again then."

// stockRoutes registers the routes that change how many units an item sells while
// it runs.
func (s *Service) stockRoutes(api httpx.API, base string) {
	api.Member("free", huma.Schema{Type: huma.TypeInteger, Description: "Units that no shopper holds, of units-not-free", Examples: []any{4}})
	change := writeOp(http.MethodPost, base+"/{id}/stock", "add-stock", "Put more units on sale, or take free ones off it, at any time until the end", http.StatusOK, backupProblems)
	change.Description = "`changed` says how many were added or taken off. " + notFreeYet
	makeRoute(api, change, s.changeStockBy)
	off := writeOp(http.MethodPost, base+"/{id}/write-off", "write-off", "Write units off that are lost or broken, from 60 s before the opening until the end", http.StatusOK, backupProblems)
	off.Description = "They leave the sale for good and count as written off. " + notFreeYet + " Before the 60 s, edit the stock."
	makeRoute(api, off, s.writeOff)
}

// changeStockBy adds units of an item to its sale or takes free ones off it, also
// while it runs.
func (s *Service) changeStockBy(ctx context.Context, key string, id int64, in stockAddition) (itemView, error) {
	return changeUnits(ctx, s, key, "item.add-stock", id, in, func(ctx context.Context, c *change) (itemView, error) { return c.changeStockBy(ctx, id, in) })
}

// changeUnits makes a change of an item's units in a transaction, once per key: these
// requests state differences, so that a repetition would add up.
func changeUnits[B, T any](ctx context.Context, s *Service, key, action string, id int64, body B, do func(ctx context.Context, c *change) (T, error)) (out T, err error) {
	request := struct {
		ItemID wire.ID
		Body   B
	}{wire.ID(id), body}
	err = s.transact(ctx, func(ctx context.Context, c *change) (err error) {
		out, err = once(ctx, c, key, action, request, func() (T, error) { return do(ctx, c) })
		return err
	})
	return out, err
}

// changedUnits completes such a change of an activity that is published: logs, carries
// it to Redis after the commit, and records it.
func (c *change) changedUnits(ctx context.Context, id int64, what string, units int32, did audit.Change) error {
	c.did = []slog.Attr{slog.String("action", what), slog.Int64("item_id", id), slog.Int("units", int(units))}
	c.apply = append(c.apply, id)
	if err := c.touch(ctx); err != nil {
		return err
	}
	return c.record(ctx, "item."+what, inventory.ItemSubject(id), did)
}

// changeStockBy changes the plan's stock and the stock row's total together. It
// moves by a difference and never sets a value, so that two operators who add at the
// same time both get what they requested.
func (c *change) changeStockBy(ctx context.Context, id int64, in stockAddition) (itemView, error) {
	units := in.Add
	_, old, err := c.lockItem(ctx, id, actAddStock)
	if err != nil {
		return itemView{}, err
	}
	var f flaws
	f.add(units != 0 && units >= -maxStock && units <= maxStock, "body.add", units,
		fault.T("Add 1 to {most} units, or take them off with a minus sign.",
			"数量为 1 至 {most}，减少时填负数。", "most", maxStock))
	f.add(!old.Unlimited, "body.add", units, fault.T("An unlimited item has no stock to change.", "不限量商品没有库存可调整。"))
	more := old
	more.Stock += min(units, maxStock) // the sum is checked next and must not overflow before that
	f.add(units < 0 || unitsOnSale(&more)+more.Backup <= maxStock, "body.add", units,
		fault.T("The new stock, with {percent} % oversold and the backup of {backup}, is {most} units at most; the "+
			"stock is {stock} now.",
			"含超售 {percent}% 和备用 {backup}，库存最多 {most}；当前为 {stock}。",
			"percent", old.OversellPercent, "backup", old.Backup, "most", maxStock, "stock", old.Stock))
	if err := f.err(); err != nil {
		return itemView{}, err
	}
	if units > 0 {
		added := unitsOnSale(&more) - unitsOnSale(&old)
		err = c.s.deps.Stock.Change(ctx, c.tx, id, inventory.Change{AddStock: &added})
	} else {
		units, err = c.takeOff(ctx, &old, -units, in.OrFewer)
	}
	if err != nil {
		return itemView{}, fmt.Errorf("seckill: change stock of item %d by %d: %w", id, units, err)
	}
	if units == 0 {
		c.apply, c.announce = append(c.apply, id), true // a rest may have come back
		view := viewItem(&old)
		view.Changed = new(int32)
		return view, nil
	}
	row, err := c.q.AddItemStock(ctx, seckilldb.AddItemStockParams{ID: id, Added: units})
	if err != nil {
		return itemView{}, fmt.Errorf("seckill: change stock: %w", err)
	}
	was, view := viewItem(&old), viewItem(&row)
	view.Changed = &units
	return view, c.changedUnits(ctx, id, string(actAddStock), units, edited(was, view))
}

// takeOff takes units of goods off the stock row, with the agreed share beyond them, and
// returns the change of the stock, 0 or below.
func (c *change) takeOff(ctx context.Context, old *seckilldb.SeckillItem, asked int32, or orFewer) (int32, error) {
	units := min(asked, old.Stock)
	sold := func(fewer int32) int32 { // units on sale that leave with so many units of goods
		less := *old
		less.Stock -= fewer
		return unitsOnSale(old) - unitsOnSale(&less)
	}
	// Of an item that is sold beyond its stock, the units that are free need not be a whole number of goods and
	// their shares; the rest stays on sale.
	goods := func(free int32) int32 {
		return int32(sort.Search(int(units), func(n int) bool { return sold(int32(n)+1) > free })) //nolint:gosec // at most maxStock
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

// writeOff writes free units of an item off, also while it runs.
func (s *Service) writeOff(ctx context.Context, key string, id int64, in writingOff) (writtenOff, error) {
	return changeUnits(ctx, s, key, "item.write-off", id, in, func(ctx context.Context, c *change) (writtenOff, error) { return c.writeOff(ctx, id, in) })
}

// writeOff leaves the plan as it is: the units were put on sale, and the stock row
// says what became of them.
func (c *change) writeOff(ctx context.Context, id int64, in writingOff) (writtenOff, error) {
	_, item, err := c.lockItem(ctx, id, actWriteOff)
	if err != nil {
		return writtenOff{}, err
	}
	var f flaws
	f.add(in.Units >= 1 && in.Units <= maxStock, "body.units", in.Units,
		fault.T("Write off 1 to {most} units.", "报损数量为 1 至 {most}。", "most", maxStock))
	f.add(!item.Unlimited, "body.units", in.Units,
		fault.T("An unlimited item has no units to write off.", "不限量商品没有可报损的库存。"))
	f.text("body.reason", in.Reason, 1, maxReasonRunes)
	if err := f.err(); err != nil {
		return writtenOff{}, err
	}
	rows, err := c.s.deps.Stock.Lock(ctx, c.tx, []inventory.Key{{ItemID: id}})
	if err != nil {
		return writtenOff{}, err
	}
	before := rows[inventory.Key{ItemID: id}].WrittenOff
	units, err := c.offSale(ctx, id, in.Units, in.OrFewer, c.s.deps.Stock.WriteOffFree)
	if err != nil {
		return writtenOff{}, fmt.Errorf("seckill: write off units of item %d: %w", id, err)
	}
	out := writtenOff{WrittenOff: units, Item: viewItem(&item)}
	if units == 0 {
		return out, nil
	}
	return out, c.changedUnits(ctx, id, string(actWriteOff), units, audit.Change{
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
