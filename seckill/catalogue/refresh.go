package catalogue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/store/bus"
	"stampede/seckill/seckillevent"
)

const (
	// pollEvery finds changes whose event was lost. An instance may sell from an
	// outdated snapshot for two seconds at most; Redis decides what must not be
	// outdated, windows and pauses.
	pollEvery = 2 * time.Second
	// readTimeout bounds one read, so that a hanging database does not keep the
	// next attempt from starting.
	readTimeout = 10 * time.Second
)

// Subscription refreshes the catalogue on every instance as soon as an activity
// changes.
func (c *Catalogue) Subscription() bus.Subscription {
	return bus.Subscription{
		Name: "seckill-catalogue", Filter: seckillevent.SubjectChanged, PerInstance: true,
		Handle: func(context.Context, bus.Msg) error {
			select {
			case c.kicked <- struct{}{}:
			default: // a refresh is already pending and will see this change too
			}
			return nil
		},
	}
}

// Run keeps the catalogue fresh until ctx ends.
func (c *Catalogue) Run(ctx context.Context) error {
	return app.Loop{Every: pollEvery, Kick: c.kicked, Do: c.Refresh, Log: c.log, Failed: "catalogue refresh failed"}.Run(ctx)
}

// Refresh updates the snapshot and returns when it contains everything
// committed before the call. If nothing changed it costs one query over the few
// activities that are not long over. On error the old snapshot is kept.
func (c *Catalogue) Refresh(ctx context.Context) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	seen := c.picture.Load()
	current, err := c.plan.Fingerprint(ctx)
	if err != nil {
		c.failures.Inc()
		return err
	}
	if current == seen.fingerprint && seen.byID != nil {
		return nil
	}
	published, err := c.plan.Published(ctx)
	if err != nil {
		c.failures.Inc()
		return err
	}
	c.picture.Store(draw(published))
	return nil
}

// draw builds a snapshot from a plan.
func draw(p Published) *picture {
	out := &picture{
		byID: make(map[int64]*Item, len(p.Items)), items: p.Items, sessions: p.Sessions, fingerprint: p.Fingerprint,
	}
	for _, item := range p.Items {
		out.byID[item.ID] = item
	}
	slices.SortFunc(out.items, func(a, b *Item) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
