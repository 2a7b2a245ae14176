package plan

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
)

// WholeActivity is a whole activity as another system of the shop writes it and reads it back:
// what does not stand in it does not exist. Units sold beyond the stock by agreement,
// pauses and admission rates are no part of it, because each has a route of its own.
type WholeActivity struct {
	ActivityDraft
	Publish bool `json:"publish,omitempty" doc:"Publish the activity if it is a draft; read, it says that the activity was published. A published activity stays so without it"`
}

// Named checks that every part has an external id, that no two parts share one, nor two
// items of a session their SKU.
func (f *Flaws) Named(in *WholeActivity) {
	missing := fault.T("Give the external id: parts of a document are found by it. Set that of an existing part with PATCH first, or the part is replaced.",
		"请填写外部编号，文档按它对应各部分；已有的部分请先用 PATCH 设置，否则会被替换。")
	twice := fault.T("The document has this twice.", "文档中重复。")
	once := func(seen map[string]bool, location, text string) {
		f.Add(!seen[text], location, text, twice)
		seen[text] = true
	}
	sessions, items := map[string]bool{}, 0
	for i := range in.Sessions {
		session, location := &in.Sessions[i], fmt.Sprintf("body.sessions[%d]", i)
		if f.Add(session.ExternalID != "", location+".external_id", nil, missing); session.ExternalID != "" {
			once(sessions, location+".external_id", session.ExternalID)
		}
		ids, skus := map[string]bool{}, map[string]bool{}
		for j := range session.Items {
			item, location := &session.Items[j], fmt.Sprintf("%s.items[%d]", location, j)
			if f.Add(item.ExternalID != "", location+".external_id", nil, missing); item.ExternalID != "" {
				once(ids, location+".external_id", item.ExternalID)
			}
			once(skus, location+".sku", item.SKU)
		}
		items += len(session.Items)
	}
	f.Add(items <= MaxItems, "body.sessions", items,
		fault.T("An activity has {most} items at most.", "一个活动最多 {most} 件商品。", "most", MaxItems))
}

// Details reads what shoppers read about the activity's items, by item.
func Details(ctx context.Context, q *seckilldb.Queries, activity int64) (map[int64]WrittenDetail, error) {
	rows, err := q.ItemDetails(ctx, activity)
	if err != nil {
		return nil, fmt.Errorf("plan: read item details: %w", err)
	}
	all := make(map[int64]WrittenDetail, len(rows))
	for _, row := range rows {
		all[row.ItemID] = WrittenDetail{DetailDraft{row.Description, append([]string{}, row.Images...)}, row.Version}
	}
	return all, nil
}

// ReadDocument returns the document of the activity with an external id.
func ReadDocument(ctx context.Context, db *pgxpool.Pool, externalID string) (doc WholeActivity, err error) {
	err = snapshot(ctx, db, func(q *seckilldb.Queries) error {
		row, err := q.ActivityByExternalID(ctx, externalID)
		if err != nil {
			return OrNotFound(err, ErrNoExternalID, "read activity")
		}
		tree, err := Tree(ctx, q, row)
		if err != nil {
			return err
		}
		details, err := Details(ctx, q, row.ID)
		if err != nil {
			return err
		}
		rules, err := RulesOf(ctx, q, row.ID)
		doc = tree.document(details, rules.Rules)
		return err
	})
	return doc, err
}

// ErrNoExternalID refuses to read what was never put.
var ErrNoExternalID = ErrNoActivity.Saying(fault.T("There is no activity with this external id.", "没有该外部编号的活动。"))

func (b *Activity) document(details map[int64]WrittenDetail, rules string) WholeActivity {
	doc := WholeActivity{Publish: b.Status != StatusDraft, ActivityDraft: ActivityDraft{
		Name: b.Name, StartsAt: b.StartsAt.UTC(), EndsAt: b.EndsAt.UTC(), LimitPerUser: b.LimitPerUser, OneItemPerUser: b.OneItemPerUser,
		PaymentWindowShare: b.PaymentWindowShare, RebuyAfterClose: &b.RebuyAfterClose, HumanCheck: b.HumanCheck, HumanCheckRate: b.HumanCheckRate,
		Exclusive: b.Exclusive, RefundWithinHours: b.RefundWithinHours, RefundUnits: b.RefundUnits, PointsRate: b.PointsRate, Checkout: b.Checkout.View(),
		ExternalID: pg.ValueOr(b.ExternalID, ""), Metadata: b.Metadata, Rules: rules,
	}}
	if b.PaymentWindowShare == nil {
		doc.PaymentWindowSeconds = &b.PaymentWindowSeconds
	}
	for i := range b.Sessions {
		t := &b.Sessions[i]
		session := SessionDraft{
			Name: t.Name, OpensAt: t.OpensAt.UTC(), ClosesAt: t.ClosesAt.UTC(), ReservationOpensAt: inUTC(t.ReservationOpensAt),
			ReservationClosesAt: inUTC(t.ReservationClosesAt), ReservationCap: t.ReservationCap, ExternalID: pg.ValueOr(t.ExternalID, ""), Metadata: t.Metadata,
		}
		for j := range t.Items {
			session.Items = append(session.Items, itemDraft(&t.Items[j], details))
		}
		doc.Sessions = append(doc.Sessions, session)
	}
	return doc
}

func itemDraft(i *seckilldb.SeckillItem, details map[int64]WrittenDetail) ItemDraft {
	item := ItemDraft{
		SKU: i.Sku, Title: i.Title, Spec: i.Spec, ImageURL: i.ImageUrl, ListPrice: wire.Money{Amount: i.ListPrice, Currency: i.Currency},
		SalePrice: wire.Money{Amount: i.SalePrice, Currency: i.Currency}, Stock: i.Stock, Backup: i.Backup, Unlimited: i.Unlimited,
		LimitPerUser: pg.ValueOr(i.LimitPerUser, 0), ExternalID: pg.ValueOr(i.ExternalID, ""), Metadata: i.Metadata,
	}
	if d, written := details[i.ID]; written && (d.Description != "" || len(d.Images) > 0) {
		item.Detail = &d.DetailDraft
	}
	return item
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}
