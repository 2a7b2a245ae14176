package plan

import (
	"net/url"
	"regexp"
	"strings"

	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/external"
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
	MaxStock         = 10_000_000
)

// ItemDraft is the body that creates an item.
type ItemDraft struct {
	SKU          string            `json:"sku" doc:"1 to 64 characters, unique in its session" example:"phone-15"`
	Title        string            `json:"title" doc:"1 to 120 characters" example:"Phone 15"`
	Spec         string            `json:"spec,omitempty" doc:"Up to 500 characters" example:"128 GB, black"`
	ImageURL     string            `json:"image_url,omitempty" doc:"https, a path of the shop's own address, or empty" example:"/media/phone-15.jpg"`
	ListPrice    wire.Money        `json:"list_price" doc:"What it costs outside the sale"`
	SalePrice    wire.Money        `json:"sale_price" doc:"No more than the list price, in the same currency"`
	Stock        int32             `json:"stock,omitempty" minimum:"0" maximum:"10000000" doc:"Units on sale; 0 for an unlimited item" example:"300"`
	Backup       int32             `json:"backup,omitempty" minimum:"0" maximum:"10000000" doc:"Units held back beside the stock: an order that was closed unpaid gets them if its money still arrives"`
	Unlimited    bool              `json:"unlimited,omitempty" doc:"Nothing is counted down"`
	LimitPerUser int32             `json:"limit_per_user,omitempty" minimum:"0" maximum:"1000" doc:"Units that one user may hold, all in one order; 0 or more than the activity's limit is the activity's limit"`
	ExternalID   string            `json:"external_id,omitempty" maxLength:"64" pattern:"^[!-~]*$" patternDescription:"printable ASCII without spaces" doc:"What the shop's own system calls it, unique in its session" example:"evening-phone-15"`
	Metadata     external.Metadata `json:"metadata,omitempty"`
	Detail       *DetailDraft      `json:"detail,omitempty" doc:"What shoppers read on its page; GET and PUT items/{id}/detail have it"`
}

// Row is the row that the draft inserts.
func (in *ItemDraft) Row() seckilldb.SeckillItem {
	return seckilldb.SeckillItem{
		Sku: in.SKU, Title: in.Title, Spec: in.Spec, ImageUrl: in.ImageURL, ListPrice: in.ListPrice.Amount,
		SalePrice: in.SalePrice.Amount, Currency: in.ListPrice.Currency, Stock: in.Stock, Backup: in.Backup, Unlimited: in.Unlimited,
		LimitPerUser: pg.Null(in.LimitPerUser), ExternalID: pg.Null(in.ExternalID), Metadata: in.Metadata.OrEmpty(),
	}
}

var currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)

// ItemDraft checks an item that is created.
func (f *Flaws) ItemDraft(location string, in *ItemDraft) {
	row := in.Row()
	f.Item(location, &row, nil, in.SalePrice.Currency)
	if in.Detail != nil {
		f.Detail(location+".detail", in.Detail)
	}
}

// Item checks what an operator sets on an item that was before, nil of a new one; saleCurrency
// is the currency given with the sale price.
func (f *Flaws) Item(location string, i, before *seckilldb.SeckillItem, saleCurrency string) {
	f.Text(location+".sku", i.Sku, 1, maxSKURunes)
	f.Text(location+".title", i.Title, 1, maxTitleRunes)
	f.Text(location+".spec", i.Spec, 0, maxSpecRunes)
	f.Add(validImage(i.ImageUrl), location+".image_url", i.ImageUrl, imageRule)
	f.Add(currencyForm.MatchString(i.Currency), location+".list_price.currency", i.Currency,
		fault.T("A currency is three capital letters, for example CNY.", "货币为三个大写字母，例如 CNY。"))
	f.Add(saleCurrency == i.Currency, location+".sale_price.currency", saleCurrency,
		fault.T("Both prices are in the same currency.", "原价与秒杀价须为同一货币。"))
	f.Add(i.ListPrice >= 0 && i.ListPrice <= wire.MaxPrice, location+".list_price.amount", i.ListPrice,
		fault.T("A price is 0 to {most} minor units.", "价格以最小货币单位计，须在 0 至 {most} 之间。", "most", wire.MaxPrice))
	f.Add(i.SalePrice >= 0 && i.SalePrice <= i.ListPrice, location+".sale_price.amount", i.SalePrice,
		fault.T("The sale price is no more than the list price.", "秒杀价不能高于原价。"))
	f.Add(i.Stock >= 0 && i.Stock <= MaxStock, location+".stock", i.Stock,
		fault.T("The stock is 0 to {most} units.", "库存为 0 至 {most}。", "most", MaxStock))
	// All units of an item may have been taken off or moved to its backup, and its texts are corrected then too.
	counted := before == nil || i.Stock != before.Stock || i.Unlimited != before.Unlimited
	f.Add(i.Unlimited || i.Stock > 0 || !counted, location+".stock", i.Stock,
		fault.T("An item has at least one unit in stock, or is unlimited.", "库存至少为 1，或设为不限量。"))
	f.Add(!i.Unlimited || i.Stock == 0, location+".stock", i.Stock,
		fault.T("An unlimited item has no stock to count; leave it out.", "不限量商品请留空库存。"))
	f.Add(i.Backup >= 0 && i.Backup <= MaxStock, location+".backup", i.Backup,
		fault.T("The backup is 0 to {most} units.", "备用库存为 0 至 {most}。", "most", MaxStock))
	f.Add(!i.Unlimited || i.Backup == 0, location+".backup", i.Backup,
		fault.T("An unlimited item needs no backup; leave it out.", "不限量商品请留空备用库存。"))
	f.oversell(location, i)
	f.external(location, i.ExternalID, i.Metadata)
	if l := i.LimitPerUser; l != nil {
		f.Add(*l >= 1 && *l <= maxLimitPerUser, location+".limit_per_user", *l,
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

const (
	// maxOversellPercent doubles the stock. An agreement covers units that a
	// supplier delivers after the sale; an operator who may sell more than that
	// should raise the stock instead.
	maxOversellPercent = 100
	// MaxReasonRunes fits a sentence and a contract number, which is what an
	// auditor needs.
	MaxReasonRunes = 500
)

// UnitsOnSale is an item's total: its stock plus the agreed share beyond it in
// whole units, rounded down. Everything that counts units uses this number, so
// that no unit beyond the agreement is ever sold.
func UnitsOnSale(i *seckilldb.SeckillItem) int32 {
	return i.Stock + int32(int64(i.Stock)*int64(i.OversellPercent)/100) // at most twice ten million
}

// oversell checks an item's agreement against the item's other fields.
func (f *Flaws) oversell(location string, i *seckilldb.SeckillItem) {
	f.Add(!i.Unlimited || i.OversellPercent == 0, location+".unlimited", i.Unlimited,
		fault.T("An unlimited item has no stock to oversell; set its oversell percentage to 0 first.",
			"请先将超售比例设为 0，再改为不限量。"))
	if i.Stock >= 0 && i.Stock <= MaxStock && i.Backup >= 0 && i.Backup <= MaxStock {
		f.Add(UnitsOnSale(i)+i.Backup <= MaxStock, location+".stock", i.Stock,
			fault.T("The stock with {percent} % oversold and the backup is {most} units at most.",
				"含超售 {percent}% 与备用，库存最多 {most}。", "percent", i.OversellPercent, "most", MaxStock))
	}
}

// Agreement checks an operator's agreement to oversell.
func (f *Flaws) Agreement(i *seckilldb.SeckillItem) {
	f.Add(i.OversellPercent >= 0 && i.OversellPercent <= maxOversellPercent, "body.percent", i.OversellPercent,
		fault.T("The percentage must be 0 to {most}.", "百分比为 0 至 {most}。", "most", maxOversellPercent))
	f.Add(i.OversellPercent == 0 || strings.TrimSpace(i.OversellReason) != "", "body.reason", i.OversellReason,
		fault.T("Selling more than the stock needs a reason: who agreed to it, and why.", "超售须填写原因：由谁同意、为何超售。"))
	f.Text("body.reason", i.OversellReason, 0, MaxReasonRunes)
	if i.Unlimited {
		f.Add(i.OversellPercent == 0, "body.percent", i.OversellPercent,
			fault.T("An unlimited item has no stock to oversell.", "不限量商品不能设置超售。"))
		return
	}
	f.Add(UnitsOnSale(i)+i.Backup <= MaxStock, "body.percent", i.OversellPercent,
		fault.T("The stock of {stock} units plus this percentage, and the backup, are more than {most} units.",
			"库存 {stock} 加上超售与备用，超过上限 {most}。", "stock", i.Stock, "most", MaxStock))
}
