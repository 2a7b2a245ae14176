package change

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/edge/external"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
)

type newItem struct {
	SessionID wire.ID `json:"session_id"`
	plan.ItemDraft
}

// itemPatch changes only the fields it names.
type itemPatch struct {
	Version      int32       `json:"version" minimum:"1" doc:"The version that was read; the edit is refused if the database has another one"`
	SKU          *string     `json:"sku,omitempty" doc:"1 to 64 characters, unique in its session"`
	Title        *string     `json:"title,omitempty" doc:"1 to 120 characters"`
	Spec         *string     `json:"spec,omitempty" doc:"Up to 500 characters"`
	ImageURL     *string     `json:"image_url,omitempty" doc:"https, a path of the shop's own address, or empty"`
	ListPrice    *wire.Money `json:"list_price,omitempty" doc:"What it costs outside the sale"`
	SalePrice    *wire.Money `json:"sale_price,omitempty" doc:"No more than the list price, in the same currency"`
	Stock        *int32      `json:"stock,omitempty" minimum:"0" maximum:"10000000" doc:"Units on sale; 0 for an unlimited item"`
	Backup       *int32      `json:"backup,omitempty" minimum:"0" maximum:"10000000" doc:"Units held back beside the stock"`
	Unlimited    *bool       `json:"unlimited,omitempty" doc:"true drops the stock; false needs one"`
	LimitPerUser *int32      `json:"limit_per_user,omitempty" minimum:"0" maximum:"1000" doc:"0 is the activity's limit"`
	external.Patch
}

func createItem(ctx context.Context, c *change, in newItem) (plan.ItemView, error) {
	b, t, err := c.lockSession(ctx, int64(in.SessionID), plan.ActEdit)
	if err != nil {
		return plan.ItemView{}, err
	}
	before, row := b.Stock(), in.Row()
	var f plan.Flaws
	f.ItemDraft("body", &in.ItemDraft)
	f.Add(len(before) < plan.MaxItems, "body.session_id", in.SessionID,
		fault.T("An activity has {most} items at most.", "一个活动最多 {most} 件商品。", "most", plan.MaxItems))
	if err := f.Err(); err != nil {
		return plan.ItemView{}, err
	}
	if row, err = c.insertItem(ctx, "body", t.ID, row); err != nil {
		return plan.ItemView{}, err
	}
	view := plan.ViewItem(&row)
	if err := c.putDetails(ctx, []plan.ItemView{view}, []plan.ItemDraft{in.ItemDraft}); err != nil {
		return plan.ItemView{}, err
	}
	return view, c.changedBelow(ctx, before)
}

// insertItem writes a checked item. A row that has an id is copied with its detail.
func (c *change) insertItem(ctx context.Context, location string, sessionID int64, row seckilldb.SeckillItem) (seckilldb.SeckillItem, error) {
	original := row.ID
	row.ID, row.SessionID, row.ActivityID, row.Version, row.Paused, row.Admission = 0, sessionID, c.activity.ID, 1, false, nil
	if err := c.putItem(ctx, &row); err != nil {
		return row, takenSKU(taken(err, location, row.ExternalID), location, row.Sku)
	}
	if original != 0 {
		if err := c.q.CopyItemDetail(ctx, seckilldb.CopyItemDetailParams{CopyID: row.ID, OriginalID: original}); err != nil {
			return row, fmt.Errorf("change: copy item detail: %w", err)
		}
	}
	err := c.record(ctx, "item.create", inventory.ItemSubject(row.ID), created(plan.ViewItem(&row)))
	return row, err
}

// putItem writes an item. Where its SKU may be new, takenSKU says what an error means.
func (c *change) putItem(ctx context.Context, row *seckilldb.SeckillItem) error {
	put, err := c.q.PutItem(ctx, seckilldb.PutItemParams{
		ID: row.ID, SessionID: row.SessionID, ActivityID: row.ActivityID, Sku: row.Sku, Title: row.Title, Spec: row.Spec, ImageUrl: row.ImageUrl,
		ListPrice: row.ListPrice, SalePrice: row.SalePrice, Currency: row.Currency, Stock: row.Stock, Unlimited: row.Unlimited,
		LimitPerUser: row.LimitPerUser, Version: row.Version, OversellPercent: row.OversellPercent, OversellReason: row.OversellReason,
		Backup: row.Backup, Paused: row.Paused, Admission: row.Admission,
		ExternalID: row.ExternalID, Metadata: row.Metadata,
	})
	if err != nil {
		return fmt.Errorf("change: put item: %w", err)
	}
	*row = put
	return nil
}

// takenSKU makes an error of putItem a flaw of the SKU in the request if the session has it already.
func takenSKU(err error, location, sku string) error {
	if !pg.ViolatesUnique(err, "items_session_id_sku_key") {
		return err
	}
	var f plan.Flaws
	f.Add(false, location+".sku", sku, fault.T("The session already has an item with this SKU.", "该场次已有相同编码的商品。"))
	return f.Err()
}

// itemRow reads an item, without the number of its reservations, which is counted.
func itemRow(ctx context.Context, q *seckilldb.Queries, id int64) (seckilldb.SeckillItem, error) {
	row, err := q.Item(ctx, id)
	return row, plan.OrNotFound(err, plan.ErrNoItem, "read item")
}

func readItem(ctx context.Context, db *pgxpool.Pool, id int64) (plan.ItemView, error) {
	row, err := itemRow(ctx, seckilldb.New(db), id)
	if err != nil {
		return plan.ItemView{}, err
	}
	view := []plan.ItemView{plan.ViewItem(&row)}
	if err := countReservations(ctx, db, view); err != nil {
		return plan.ItemView{}, err
	}
	return view[0], nil
}

func editItem(ctx context.Context, c *change, id int64, in itemPatch) (out plan.ItemView, err error) {
	b, old, err := c.lockItem(ctx, id, plan.ActEditOrCorrect)
	if err != nil {
		return out, err
	}
	if old.Version != in.Version {
		return out, plan.ErrStale(old.Version)
	}
	before := b.Stock()
	row, saleCurrency := in.over(old)
	var f plan.Flaws
	f.Item("body", &row, &old, saleCurrency)
	if c.onlyCorrections() {
		if err := c.correctItem("body", old, row); err != nil {
			return out, err
		}
	}
	if err := f.Err(); err != nil {
		return out, err
	}
	if out = plan.ViewItem(&row); unchanged(plan.ViewItem(&old), out) {
		return out, nil
	}
	row.Version++
	if err := c.putItem(ctx, &row); err != nil {
		return out, takenSKU(taken(err, "body", row.ExternalID), "body", row.Sku)
	}
	if err := c.changedBelow(ctx, before); err != nil {
		return out, err
	}
	out = plan.ViewItem(&row)
	return out, c.record(ctx, "item.edit", inventory.ItemSubject(id), edited(plan.ViewItem(&old), out))
}

// over applies the patch to a row. The second result is the sale price's
// currency, which has no column because it must equal the list price's.
func (in *itemPatch) over(row seckilldb.SeckillItem) (seckilldb.SeckillItem, string) {
	list := pg.ValueOr(in.ListPrice, wire.Money{Amount: row.ListPrice, Currency: row.Currency})
	sale := pg.ValueOr(in.SalePrice, wire.Money{Amount: row.SalePrice, Currency: row.Currency})
	row.Sku = pg.ValueOr(in.SKU, row.Sku)
	row.Title = pg.ValueOr(in.Title, row.Title)
	row.Spec = pg.ValueOr(in.Spec, row.Spec)
	row.ImageUrl = pg.ValueOr(in.ImageURL, row.ImageUrl)
	row.ListPrice, row.SalePrice, row.Currency = list.Amount, sale.Amount, list.Currency
	row.Unlimited = pg.ValueOr(in.Unlimited, row.Unlimited)
	if in.Unlimited != nil && row.Unlimited {
		row.Stock, row.Backup = 0, 0 // there is nothing to count; a request that also sets one is refused
	}
	row.Backup = pg.ValueOr(in.Backup, row.Backup)
	row.Stock = pg.ValueOr(in.Stock, row.Stock)
	if in.LimitPerUser != nil {
		row.LimitPerUser = pg.Null(*in.LimitPerUser) // NULL where the activity's limit applies
	}
	in.Apply(&row.ExternalID, &row.Metadata)
	return row, sale.Currency
}

func deleteItem(ctx context.Context, c *change, id int64) error {
	b, old, err := c.lockItem(ctx, id, plan.ActEdit)
	if err != nil {
		return err
	}
	before := b.Stock() // the plan before the deletion, to find the stock row to drop
	if err := c.q.DeleteItem(ctx, id); err != nil {
		return fmt.Errorf("change: delete item: %w", err)
	}
	if err := c.changedBelow(ctx, before); err != nil {
		return err
	}
	return c.record(ctx, "item.delete", inventory.ItemSubject(id), deleted(plan.ViewItem(&old)))
}

// lockItem locks the activity of an item for an action and reads its whole
// tree.
func (c *change) lockItem(ctx context.Context, id int64, act plan.Action) (*plan.Activity, seckilldb.SeckillItem, error) {
	row, err := itemRow(ctx, c.q, id)
	if err != nil {
		return nil, row, err
	}
	tree, err := c.lockTree(ctx, row.ActivityID, act)
	if err != nil {
		return nil, row, err
	}
	// Read again under the lock: another operator may have changed or deleted it while this request
	// waited.
	row, err = itemRow(ctx, c.q, id)
	return tree, row, err
}

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
	row.Version++
	if err := c.putItem(ctx, &row); err != nil {
		return out, err
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

// The operators' view of reservations. Package reservation grants them.

type listingReservations struct {
	operator.ByID
	httpx.ChangesInput
}

type itemReservation struct {
	UserID     wire.ID   `json:"user_id"`
	ReservedAt wire.Time `json:"reserved_at"`
	HumanCheck bool      `json:"human_check" doc:"A proof of work was sent with it"`
}

func viewReservation(r *seckilldb.SeckillReservation) itemReservation {
	return itemReservation{UserID: wire.ID(r.UserID), ReservedAt: wire.Time(r.ReservedAt), HumanCheck: r.HumanOk}
}

// listReservations answers a page. It is ordered by user because the primary key
// is: any other order would add an index to the cost of every reservation.
func (s *Service) listReservations(ctx context.Context, in *listingReservations) (*httpx.PageOutput[itemReservation], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	return pg.Read(ctx, s.deps.Standby, s.deps.DB, func(ctx context.Context, db pg.DB) (*httpx.PageOutput[itemReservation], error) {
		return reservations(ctx, seckilldb.New(db), id, in)
	})
}

func reservations(ctx context.Context, q *seckilldb.Queries, id int64, in *listingReservations) (*httpx.PageOutput[itemReservation], error) {
	if _, err := itemRow(ctx, q, id); err != nil {
		return nil, err
	}
	return operator.Page(&in.ChangesInput, viewReservation, func(r *seckilldb.SeckillReservation) int64 { return r.UserID },
		func(r *seckilldb.SeckillReservation) time.Time { return r.ReservedAt },
		func(after int64, limit int32) ([]seckilldb.SeckillReservation, error) {
			return q.ReservationsOf(ctx, seckilldb.ReservationsOfParams{ItemID: id, After: after, RowLimit: limit})
		})
}

func countReservations(ctx context.Context, db *pgxpool.Pool, views []plan.ItemView) error {
	ids := make([]int64, len(views))
	for i := range views {
		ids[i] = int64(views[i].ID)
	}
	counts, err := plan.Reservations(ctx, db, ids)
	if err != nil {
		return err
	}
	for i := range views {
		n := counts[ids[i]]
		views[i].Reservations = &n
	}
	return nil
}
