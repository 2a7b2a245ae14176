package seckill

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
	"stampede/platform/store/pg"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
)

// Limits of an item.
const (
	maxSKURunes      = 64
	maxTitleRunes    = 120
	maxSpecRunes     = 500
	maxImageURLBytes = 2048
	maxStock         = 10_000_000
)

// ItemDraft is the body that creates an item.
type ItemDraft struct {
	SKU          string       `json:"sku" doc:"1 to 64 characters, unique in its session" example:"phone-15"`
	Title        string       `json:"title" doc:"1 to 120 characters"`
	Spec         string       `json:"spec,omitempty" doc:"Up to 500 characters" example:"128 GB, black"`
	ImageURL     string       `json:"image_url,omitempty" doc:"https, a path of the shop's own address, or empty"`
	ListPrice    wire.Money   `json:"list_price" doc:"What it costs outside the sale"`
	SalePrice    wire.Money   `json:"sale_price" doc:"No more than the list price, in the same currency"`
	Stock        int32        `json:"stock,omitempty" minimum:"0" maximum:"10000000" doc:"Units on sale; 0 for an unlimited item"`
	Backup       int32        `json:"backup,omitempty" minimum:"0" maximum:"10000000" doc:"Units held back beside the stock: an order that was closed unpaid gets them if its money still arrives"`
	Unlimited    bool         `json:"unlimited,omitempty" doc:"Nothing is counted down"`
	LimitPerUser int32        `json:"limit_per_user,omitempty" minimum:"0" maximum:"1000" doc:"Units that one user may hold; 0 or more than the activity's limit is the activity's limit"`
	Detail       *DetailDraft `json:"detail,omitempty" doc:"What shoppers read on its page; GET and PUT items/{id}/detail have it"`
}

// newItem is an item draft with the session it belongs to.
type newItem struct {
	SessionID wire.ID `json:"session_id"`
	ItemDraft
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
}

func (in *ItemDraft) row() seckilldb.SeckillItem {
	return seckilldb.SeckillItem{
		Sku: in.SKU, Title: in.Title, Spec: in.Spec, ImageUrl: in.ImageURL, ListPrice: in.ListPrice.Amount,
		SalePrice: in.SalePrice.Amount, Currency: in.ListPrice.Currency, Stock: in.Stock, Backup: in.Backup, Unlimited: in.Unlimited,
		LimitPerUser: ownLimit(in.LimitPerUser),
	}
}

// ownLimit is the limit column: NULL where the activity's limit applies.
func ownLimit(limit int32) *int32 {
	if limit == 0 {
		return nil
	}
	return &limit
}

var currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)

// itemDraft checks an item that is created.
func (f *flaws) itemDraft(location string, in *ItemDraft) {
	row := in.row()
	f.item(location, &row, in.SalePrice.Currency)
	if in.Detail != nil {
		f.detail(location+".detail", in.Detail)
	}
}

// item checks what an operator sets on an item; saleCurrency is the currency
// given with the sale price.
func (f *flaws) item(location string, i *seckilldb.SeckillItem, saleCurrency string) {
	f.text(location+".sku", i.Sku, 1, maxSKURunes)
	f.text(location+".title", i.Title, 1, maxTitleRunes)
	f.text(location+".spec", i.Spec, 0, maxSpecRunes)
	f.add(validImage(i.ImageUrl), location+".image_url", i.ImageUrl, imageRule)
	f.add(currencyForm.MatchString(i.Currency), location+".list_price.currency", i.Currency,
		fault.T("A currency is three capital letters, for example CNY.", "货币为三个大写字母，例如 CNY。"))
	f.add(saleCurrency == i.Currency, location+".sale_price.currency", saleCurrency,
		fault.T("Both prices are in the same currency.", "原价与秒杀价须为同一货币。"))
	f.add(i.ListPrice >= 0 && i.ListPrice <= wire.MaxPrice, location+".list_price.amount", i.ListPrice,
		fault.T("A price is 0 to {most} minor units.", "价格以最小货币单位计，须在 0 至 {most} 之间。", "most", wire.MaxPrice))
	f.add(i.SalePrice >= 0 && i.SalePrice <= i.ListPrice, location+".sale_price.amount", i.SalePrice,
		fault.T("The sale price is no more than the list price.", "秒杀价不能高于原价。"))
	f.add(i.Stock >= 0 && i.Stock <= maxStock, location+".stock", i.Stock,
		fault.T("The stock is 0 to {most} units.", "库存为 0 至 {most}。", "most", maxStock))
	f.add(i.Unlimited || i.Stock > 0, location+".stock", i.Stock,
		fault.T("An item has at least one unit in stock, or is unlimited.", "库存至少为 1，或设为不限量。"))
	f.add(!i.Unlimited || i.Stock == 0, location+".stock", i.Stock,
		fault.T("An unlimited item has no stock to count; leave it out.", "不限量商品请留空库存。"))
	f.add(i.Backup >= 0 && i.Backup <= maxStock, location+".backup", i.Backup,
		fault.T("The backup is 0 to {most} units.", "备用库存为 0 至 {most}。", "most", maxStock))
	f.add(!i.Unlimited || i.Backup == 0, location+".backup", i.Backup,
		fault.T("An unlimited item needs no backup; leave it out.", "不限量商品请留空备用库存。"))
	f.oversell(location, i)
	if l := i.LimitPerUser; l != nil {
		f.add(*l >= 1 && *l <= maxLimitPerUser, location+".limit_per_user", *l,
			fault.T("The limit per user is 1 to {most} units, or 0 for the activity's.",
				"每人限购为 1 至 {most}，0 为按活动规则。", "most", maxLimitPerUser))
	}
}

// imageRule is what validImage accepts.
var imageRule = fault.T("A picture's address starts with https://, or with / for one at the shop's own address, and has up "+
	"to {most} bytes; pages block http://.",
	"图片地址须以 https:// 开头，本店域名下的图片可写以 / 开头的路径，最长 {most} 字节；http:// 图片会被浏览器拦截，顾客看不到。",
	"most", maxImageURLBytes)

// validImage accepts only what a browser loads on the shop's pages, without executing
// anything.
func validImage(s string) bool {
	if s == "" {
		return true
	}
	u, err := url.Parse(s)
	if err != nil || len(s) > maxImageURLBytes || !inEncoding(s) || strings.ContainsFunc(s, plaintext.Unruly) || strings.Contains(s, `\`) {
		return false
	}
	own := u.Scheme == "" && u.Host == "" && strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//")
	return own || u.Scheme == "https" && u.Host != "" && u.User == nil
}

// createItem adds an item to a session.
func (s *Service) createItem(ctx context.Context, key string, in newItem) (itemView, error) {
	var out itemView
	err := s.transact(ctx, func(ctx context.Context, c *change) (err error) {
		out, err = once(ctx, c, key, "item.create", in, func() (itemView, error) {
			b, t, err := c.lockSession(ctx, int64(in.SessionID), actEdit)
			if err != nil {
				return itemView{}, err
			}
			before, row := b.stock(), in.row()
			var f flaws
			f.itemDraft("body", &in.ItemDraft)
			f.add(len(before) < maxItemsPerActivity, "body.session_id", in.SessionID,
				fault.T("An activity has {most} items at most.", "一个活动最多 {most} 件商品。", "most", maxItemsPerActivity))
			if err := f.err(); err != nil {
				return itemView{}, err
			}
			if row, err = c.insertItem(ctx, "body", t.session.ID, row); err != nil {
				return itemView{}, err
			}
			view := viewItem(&row)
			if err := c.putDetails(ctx, []itemView{view}, []ItemDraft{in.ItemDraft}); err != nil {
				return itemView{}, err
			}
			return view, c.changedBelow(ctx, before)
		})
		return err
	})
	return out, err
}

// insertItem writes a checked item. A row that has an id is copied with its detail.
func (c *change) insertItem(ctx context.Context, location string, sessionID int64, row seckilldb.SeckillItem) (seckilldb.SeckillItem, error) {
	out, err := c.q.InsertItem(ctx, seckilldb.InsertItemParams{
		SessionID: sessionID, ActivityID: c.activity.ID, Sku: row.Sku, Title: row.Title, Spec: row.Spec, ImageUrl: row.ImageUrl,
		ListPrice: row.ListPrice, SalePrice: row.SalePrice, Currency: row.Currency, Stock: row.Stock, Backup: row.Backup, Unlimited: row.Unlimited,
		LimitPerUser: row.LimitPerUser, OversellPercent: row.OversellPercent, OversellReason: row.OversellReason,
	})
	if err != nil {
		return out, orTakenSKU(err, location, row.Sku, "insert item")
	}
	if row.ID != 0 {
		if err := c.q.CopyItemDetail(ctx, seckilldb.CopyItemDetailParams{CopyID: out.ID, OriginalID: row.ID}); err != nil {
			return out, fmt.Errorf("seckill: copy item detail: %w", err)
		}
	}
	err = c.record(ctx, "item.create", inventory.ItemSubject(out.ID), created(viewItem(&out)))
	return out, err
}

// orTakenSKU turns a unique key violation into a flaw of the SKU field.
func orTakenSKU(err error, location, sku, operation string) error {
	if pg.ViolatesUnique(err, "items_session_id_sku_key") {
		var f flaws
		f.add(false, location+".sku", sku, fault.T("The session already has an item with this SKU.", "该场次已有相同编码的商品。"))
		return f.err()
	}
	return fmt.Errorf("seckill: %s: %w", operation, err)
}

// readItem returns an item.
func (s *Service) readItem(ctx context.Context, id int64) (itemView, error) {
	row, err := seckilldb.New(s.deps.DB).Item(ctx, id)
	if err != nil {
		return itemView{}, orNotFound(err, errNoItem, "read item")
	}
	view := []itemView{viewItem(&row)}
	if err := s.countReservations(ctx, view); err != nil {
		return itemView{}, err
	}
	return view[0], nil
}
