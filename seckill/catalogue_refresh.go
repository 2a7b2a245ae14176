package seckill

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"stampede/platform/bus"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/seckillevent"
)

const (
	// catalogueKept is how long an activity stays in sight after its end: long
	// enough that shoppers with a late rush, an open order or an old link are
	// told that it ended rather than that it never was.
	catalogueKept = 24 * time.Hour
	// cataloguePoll finds changes whose event was lost. Two seconds are the
	// longest that an instance may sell by an outdated picture; what must not be
	// outdated, windows and pauses, Redis decides.
	cataloguePoll = 2 * time.Second
	// catalogueTimeout bounds one read, so that a hanging database does not keep
	// the next attempt from starting.
	catalogueTimeout = 10 * time.Second
)

// subscription refreshes at once when an activity changed, on every instance.
func (c *Catalogue) subscription() bus.Subscription {
	return bus.Subscription{
		Name: "seckill-catalogue", Filter: seckillevent.SubjectChanged, PerInstance: true,
		Handle: func(context.Context, bus.Msg) error {
			select {
			case c.kicked <- struct{}{}:
			default: // a refresh is waiting already and will see this change too
			}
			return nil
		},
	}
}

// Run keeps the catalogue fresh until ctx ends.
func (c *Catalogue) Run(ctx context.Context) error {
	tick := time.NewTicker(cataloguePoll)
	defer tick.Stop()
	for {
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			c.deps.Log.WarnContext(ctx, "catalogue not refreshed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.kicked:
		}
	}
}

// Refresh brings the picture up to date and returns when it shows everything
// that was committed before the call. When nothing changed it costs one query
// over the few activities that are not long over. On error the old picture
// stays.
func (c *Catalogue) Refresh(ctx context.Context) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, catalogueTimeout)
	defer cancel()
	seen := c.picture.Load()
	current, err := seckilldb.New(c.deps.DB).CatalogueFingerprint(ctx, catalogueKept.Seconds())
	if err != nil {
		c.failures.Inc()
		return fmt.Errorf("seckill: read catalogue fingerprint: %w", err)
	}
	if current == seen.fingerprint && seen.byID != nil {
		return nil
	}
	p, err := c.read(ctx)
	if err != nil {
		c.failures.Inc()
		return err
	}
	c.show(p)
	return nil
}

// read makes a new picture from one snapshot of the database.
func (c *Catalogue) read(ctx context.Context) (*picture, error) {
	var tree []branch
	p := &picture{}
	err := snapshot(ctx, c.deps.DB, func(q *seckilldb.Queries) (err error) {
		if p.fingerprint, err = q.CatalogueFingerprint(ctx, catalogueKept.Seconds()); err != nil {
			return fmt.Errorf("seckill: read catalogue fingerprint: %w", err)
		}
		activities, err := q.PublishedActivities(ctx, catalogueKept.Seconds())
		if err != nil {
			return fmt.Errorf("seckill: read published activities: %w", err)
		}
		tree, err = readTree(ctx, q, activities)
		return err
	})
	if err != nil {
		return nil, err
	}
	p.byID, p.sessions = make(map[int64]*Item), make(map[int64]int64)
	for i := range tree {
		for j := range tree[i].sessions {
			t := &tree[i].sessions[j]
			p.sessions[t.session.ID] = tree[i].activity.ID
			for k := range t.items {
				item := c.item(&tree[i].activity, &t.session, &t.items[k])
				p.byID[item.ID] = item
				p.items = append(p.items, item)
			}
		}
	}
	slices.SortFunc(p.items, func(a, b *Item) int { return cmp.Compare(a.ID, b.ID) })
	return p, nil
}

// item puts an item together from its three rows.
func (c *Catalogue) item(a *seckilldb.SeckillActivity, s *seckilldb.SeckillSession, i *seckilldb.SeckillItem) *Item {
	return &Item{
		ID: i.ID, SessionID: s.ID, ActivityID: a.ID, SKU: i.Sku, Title: i.Title, Spec: i.Spec, ImageURL: i.ImageUrl,
		ListPrice: i.ListPrice, SalePrice: i.SalePrice, Currency: i.Currency, Total: unitsOnSale(i), Unlimited: i.Unlimited,
		UserLimit: userLimit(a, i), PerActivity: a.OneItemPerUser, OpensAt: s.OpensAt, ClosesAt: s.ClosesAt,
		PayWindow: payWindow(a, s), Paused: a.Paused, OnSale: a.Status == statusScheduled || a.Status == statusRunning,
		PreheatAt: c.preheatAt(s.OpensAt), Rebuy: a.RebuyAfterClose, HumanCheck: a.HumanCheck, HumanCheckRate: a.HumanCheckRate,
		OnePerUser: a.Exclusive, ReserveFrom: moment(s.ReservationOpensAt), ReserveUntil: moment(s.ReservationClosesAt), ReserveCap: s.ReservationCap,
	}
}

// preheatAt is when an item that opens then is first loaded.
func (c *Catalogue) preheatAt(opensAt time.Time) time.Time {
	at := opensAt.Add(-c.cfg.PreheatLead)
	if !c.cfg.PreheatAtMidnight {
		return at
	}
	y, m, d := opensAt.In(c.zone).Date()
	// A sale at 00:10 would have ten minutes only; the lead is the least there is.
	if midnight := time.Date(y, m, d, 0, 0, 0, 0, c.zone); midnight.Before(at) {
		return midnight
	}
	return at
}
