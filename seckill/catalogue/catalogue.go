package catalogue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/platform/identity/humancheck"
	"stampede/platform/store/bus"
	"stampede/seckill/seckillevent"
)

// Plan reads what is published; the planning half of seckill implements it.
type Plan interface {
	// Fingerprint changes whenever the result of Published would. It is one query
	// over the few activities that are not long over.
	Fingerprint(ctx context.Context) (string, error)
	// Published reads everything that is published and not long over, from one
	// snapshot.
	Published(ctx context.Context) (Published, error)
}

// Published is a plan as it was at one moment. It is immutable.
type Published struct {
	Fingerprint string          // of the same snapshot
	Items       []*Item         // in any order
	Sessions    map[int64]int64 // session → activity
}

// Catalogue is this instance's snapshot of what is published and not long over.
// A refresh replaces the snapshot as a whole, so readers never wait and never
// see half a change. Safe for concurrent use.
type Catalogue struct {
	plan Plan
	log  *slog.Logger

	picture atomic.Pointer[picture]
	// reading serializes refreshes: a later one read newer data, so it may
	// always replace the result of an earlier one.
	reading sync.Mutex
	kicked  chan struct{} // capacity 1: one waiting refresh answers every kick
	fenced  chan int64

	failures prometheus.Counter
}

// picture is one immutable snapshot of the catalogue.
type picture struct {
	byID        map[int64]*Item
	items       []*Item         // ordered by id
	sessions    map[int64]int64 // session → activity
	fingerprint string
}

// maxHealRequests bounds the items that wait for a health check; if more items
// are fenced at the same time, the preheat worker's next round finds them a
// second later.
const maxHealRequests = 256

// New returns the empty catalogue of a plan; Refresh fills it.
func New(plan Plan, log *slog.Logger, metrics prometheus.Registerer) (*Catalogue, error) {
	c := &Catalogue{
		plan: plan, log: log, kicked: make(chan struct{}, 1), fenced: make(chan int64, maxHealRequests),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_seckill_catalogue_refresh_failures_total", Help: "Times the catalogue could not be read from Postgres.",
		}),
	}
	c.picture.Store(&picture{})
	items := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_seckill_catalogue_items", Help: "Published items that this instance knows.",
	}, func() float64 { return float64(len(c.Items())) })
	return c, errors.Join(metrics.Register(items), metrics.Register(c.failures))
}

// Item returns a published item; false for anything else. It allocates
// nothing.
func (c *Catalogue) Item(id int64) (*Item, bool) {
	i, ok := c.picture.Load().byID[id]
	return i, ok
}

// Ready reports whether the catalogue was read. Before, as after a start while
// Postgres is away, no item is known.
func (c *Catalogue) Ready() bool { return c.picture.Load().byID != nil }

// Items are all published items, ordered by id. The slice is shared: do not
// change it.
func (c *Catalogue) Items() []*Item { return c.picture.Load().items }

// Selling reports whether an item is on sale at some time between two moments.
func (c *Catalogue) Selling(from, until time.Time) bool {
	return slices.ContainsFunc(c.Items(), func(i *Item) bool { return i.OpensAt.Before(until) && i.ClosesAt.After(from) })
}

// ActivityOf returns the activity of a published session.
func (c *Catalogue) ActivityOf(sessionID int64) (int64, bool) {
	id, ok := c.picture.Load().sessions[sessionID]
	return id, ok
}

// Heal requests a health check of an item that answered fenced, and a Load if
// it needs one. It never blocks; requests for one item are coalesced.
func (c *Catalogue) Heal(itemID int64) {
	select {
	case c.fenced <- itemID:
	default: // full: the preheat worker's own round finds the item within a second
	}
}

// Fenced delivers the items that Heal was called for. It is for one reader, and
// is never closed.
func (c *Catalogue) Fenced() <-chan int64 { return c.fenced }

// Item is what deciding about an item on sale needs, read-only: every request shares one
// instance until the next refresh replaces it. What shoppers see of it is browse's.
type Item struct {
	ID, SessionID, ActivityID int64
	Title                     string
	SalePrice                 int64 // minor units
	Currency                  string
	Total                     int32 // units put on sale so far, with what is oversold by agreement; Stock() is what inventory calls the item
	Unlimited                 bool
	UserLimit                 int32 // units per user, from 1
	PerActivity               bool  // one item of the activity per user
	OpensAt, ClosesAt         time.Time
	PayWindow                 time.Duration
	Admission                 *int32 // attempts a second that all instances together let into their lanes; nil is all
	Paused                    bool   // refused by Redis, at the latest; by itself or with its activity
	OnSale                    bool   // published, and neither ended nor terminated
	PreheatAt                 time.Time

	HumanCheck                humancheck.Kind
	HumanCheckRate            int32     // paths a minute above which a second check is required; 0 never
	OnePerUser                bool      // the activity is exclusive: a user takes part in one exclusive activity at a time
	ReserveFrom, ReserveUntil time.Time // when it can be reserved; both zero when no reservation is required
}

// Stock returns the item as inventory names it.
func (i *Item) Stock() inventory.Item {
	return inventory.Item{ID: i.ID, ActivityID: i.ActivityID, PerActivity: i.PerActivity}
}

// ChallengePath is the route that issues challenges for the item's human check.
func (i *Item) ChallengePath() string {
	return "/api/v1/items/" + strconv.FormatInt(i.ID, 10) + "/challenge"
}

// DueInRedis reports whether the item has to be decidable in Redis at a moment:
// from its preheat until it closes. A closed item needs no Load: late returns
// only concern Postgres.
func (i *Item) DueInRedis(now time.Time) bool {
	return i.OnSale && !now.Before(i.PreheatAt) && now.Before(i.ClosesAt)
}

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
			app.Kick(c.kicked)
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

// opening is the item for those who tell shoppers of it.
func (i *Item) opening() seckillevent.Opening {
	return seckillevent.Opening{ItemID: i.ID, SessionID: i.SessionID, Title: i.Title, OpensAt: i.OpensAt, ClosesAt: i.ClosesAt}
}

// Opening returns an item that is on sale, or will be.
func (c *Catalogue) Opening(id int64) (seckillevent.Opening, bool) {
	i, ok := c.Item(id)
	if !ok || !i.OnSale {
		return seckillevent.Opening{}, false
	}
	return i.opening(), true
}

// Openings returns the items with reservations that open after a moment, and at most until.
func (c *Catalogue) Openings(after, until time.Time) (open []seckillevent.Opening) {
	for _, i := range c.Items() {
		if i.OnSale && !i.ReserveUntil.IsZero() && i.OpensAt.After(after) && !i.OpensAt.After(until) {
			open = append(open, i.opening())
		}
	}
	return open
}
