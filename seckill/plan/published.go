package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/identity/humancheck"
	"stampede/platform/store/pg"
	"stampede/seckill/browse"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
)

// PublishedFor is how long an activity stays visible after its end: long enough
// that shoppers with a late rush, an open order or an old link see that it
// ended, rather than that it does not exist.
const PublishedFor = 24 * time.Hour

// Published reads published activities for the catalogue and for browsing.
type Published struct {
	Settings
	db   *pgxpool.Pool
	zone *time.Location
}

// NewPublished returns what is published in db.
func NewPublished(cfg Config, db *pgxpool.Pool) *Published {
	return &Published{cfg.Settings, db, cfg.Zone()}
}

// Fingerprint changes whenever the result of Published would.
func (p *Published) Fingerprint(ctx context.Context) (string, error) {
	return fingerprint(ctx, seckilldb.New(p.db))
}

func fingerprint(ctx context.Context, q *seckilldb.Queries) (string, error) {
	f, err := q.CatalogueFingerprint(ctx, PublishedFor.Seconds())
	if err != nil {
		return "", fmt.Errorf("plan: read catalogue fingerprint: %w", err)
	}
	return f, nil
}

// Published reads everything from one snapshot of the database.
func (p *Published) Published(ctx context.Context) (catalogue.Published, error) {
	var tree []Activity
	var out catalogue.Published
	err := snapshot(ctx, p.db, func(q *seckilldb.Queries) (err error) {
		if out.Fingerprint, err = fingerprint(ctx, q); err != nil {
			return err
		}
		tree, err = publishedTree(ctx, q)
		return err
	})
	if err != nil {
		return catalogue.Published{}, err
	}
	out.Sessions = make(map[int64]int64)
	for i := range tree {
		for _, t := range tree[i].Sessions {
			out.Sessions[t.ID] = tree[i].ID
		}
		for session, item := range tree[i].Items() {
			out.Items = append(out.Items, p.item(&tree[i].SeckillActivity, session, item))
		}
	}
	return out, nil
}

// publishedTree reads every visible activity with its sessions and items.
func publishedTree(ctx context.Context, q *seckilldb.Queries) ([]Activity, error) {
	activities, err := q.PublishedActivities(ctx, PublishedFor.Seconds())
	if err != nil {
		return nil, fmt.Errorf("plan: read published activities: %w", err)
	}
	return readTree(ctx, q, activities)
}

// item builds an item from its three rows.
func (p *Published) item(a *seckilldb.SeckillActivity, s *seckilldb.SeckillSession, i *seckilldb.SeckillItem) *catalogue.Item {
	return &catalogue.Item{
		ID: i.ID, SessionID: s.ID, ActivityID: a.ID, Title: i.Title, SalePrice: i.SalePrice, Currency: i.Currency,
		Total: UnitsOnSale(i), Unlimited: i.Unlimited, UserLimit: userLimit(a, i), PerActivity: a.OneItemPerUser,
		OpensAt: s.OpensAt, ClosesAt: s.ClosesAt, PayWindow: PayWindow(a, s), PreheatAt: p.preheatAt(s.OpensAt), Admission: i.Admission, Paused: Paused(a, i),
		OnSale:     a.Status == StatusScheduled || a.Status == StatusRunning,
		HumanCheck: humancheck.Kind(a.HumanCheck), HumanCheckRate: a.HumanCheckRate,
		OnePerUser: a.Exclusive, ReserveFrom: pg.ValueOr(s.ReservationOpensAt, time.Time{}), ReserveUntil: pg.ValueOr(s.ReservationClosesAt, time.Time{}),
	}
}

// preheatAt is when an item with this opening is first loaded.
func (p *Published) preheatAt(opensAt time.Time) time.Time {
	at := opensAt.Add(-p.PreheatLead)
	if !p.PreheatAtMidnight {
		return at
	}
	y, m, d := opensAt.In(p.zone).Date()
	// A sale at 00:10 would have only ten minutes after midnight; the lead is the
	// minimum.
	if midnight := time.Date(y, m, d, 0, 0, 0, 0, p.zone); midnight.Before(at) {
		return midnight
	}
	return at
}

// Activity is the shoppers' view of an activity; visible is false if it is
// deleted or still a draft.
func (p *Published) Activity(ctx context.Context, id int64) (a browse.Activity, visible bool, err error) {
	err = snapshot(ctx, p.db, func(q *seckilldb.Queries) error {
		tree, err := treeOf(ctx, q, id)
		if errors.Is(err, ErrNoActivity) || err == nil && tree.Status == StatusDraft {
			return nil
		}
		if err != nil {
			return err
		}
		a, visible = shown(tree), true
		return nil
	})
	return a, visible, err
}

// Activities are all visible activities.
func (p *Published) Activities(ctx context.Context) (all []browse.Activity, err error) {
	err = snapshot(ctx, p.db, func(q *seckilldb.Queries) error {
		tree, err := publishedTree(ctx, q)
		for i := range tree {
			all = append(all, shown(&tree[i]))
		}
		return err
	})
	return all, err
}

// shown converts an activity to its shoppers' view.
func shown(b *Activity) browse.Activity {
	a := &b.SeckillActivity
	out := browse.Activity{ID: a.ID, Revision: a.Revision, ForgetAt: a.EndsAt.Add(PublishedFor)}
	for i := range b.Sessions {
		s, items := &b.Sessions[i].SeckillSession, b.Sessions[i].Items
		view := browse.Session{
			ID: wire.ID(s.ID), ActivityID: wire.ID(a.ID), ActivityName: a.Name, Name: s.Name,
			OpensAt: wire.Time(s.OpensAt), ClosesAt: wire.Time(s.ClosesAt), Paused: a.Paused,
			Over: a.Status == StatusEnded || a.Status == StatusTerminated, PerActivity: a.OneItemPerUser,
			ItemCount: len(items), HumanCheck: humancheck.Kind(a.HumanCheck), Delivery: browse.DeliveryOf(&a.Checkout),
			ReserveFrom: (*wire.Time)(s.ReservationOpensAt), ReserveUntil: (*wire.Time)(s.ReservationClosesAt),
		}
		for j := range items {
			item := &items[j]
			view.Items = append(view.Items, browse.Item{
				ID: wire.ID(item.ID), Goods: goodsOf(item), OnSale: UnitsOnSale(item), Unlimited: item.Unlimited, LimitPerUser: userLimit(a, item),
				PayWindowSeconds: int64(PayWindow(a, s) / time.Second), Paused: item.Paused,
			})
		}
		out.Sessions = append(out.Sessions, view)
	}
	return out
}

func goodsOf(i *seckilldb.SeckillItem) wire.Goods {
	return wire.Goods{
		SKU: i.Sku, Title: i.Title, Spec: i.Spec, ImageURL: i.ImageUrl,
		ListPrice: wire.Money{Amount: i.ListPrice, Currency: i.Currency}, SalePrice: wire.Money{Amount: i.SalePrice, Currency: i.Currency},
	}
}

// Preview renders an item as shoppers will see it, also of a draft, from one snapshot of its
// plan and texts.
func Preview(ctx context.Context, db *pgxpool.Pool, id int64, now time.Time) (out browse.Preview, err error) {
	err = snapshot(ctx, db, func(q *seckilldb.Queries) error {
		item, err := q.Item(ctx, id)
		if err != nil {
			return OrNotFound(err, ErrNoItem, "read item")
		}
		a, err := treeOf(ctx, q, item.ActivityID)
		if err != nil {
			return err
		}
		written, err := DetailOf(ctx, q, id)
		if err != nil {
			return err
		}
		rules, err := RulesOf(ctx, q, a.ID)
		if err != nil {
			return err
		}
		for _, session := range shown(a).Sessions {
			for i := range session.Items {
				if session.Items[i].ID == wire.ID(id) {
					out, err = browse.PreviewOf(&session, &session.Items[i], browse.Detail{Images: written.Images, Description: written.Description, Rules: rules.Rules}, now)
					return err
				}
			}
		}
		return ErrNoItem
	})
	return out, err
}
