package seckill

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/inventory"
)

// Item is what the rush needs to know about an item, read-only: one instance
// is shared by every request until the next refresh replaces it.
type Item struct {
	ID, SessionID, ActivityID  int64
	SKU, Title, Spec, ImageURL string
	ListPrice, SalePrice       int64 // minor units
	Currency                   string
	Total                      int32 // units put on sale so far, with what is oversold by agreement; Stock() is what inventory calls the item
	Unlimited                  bool
	UserLimit                  int32 // units per user, from 1
	PerActivity                bool  // one item of the activity per user
	OpensAt, ClosesAt          time.Time
	PayWindow                  time.Duration
	Paused                     bool
	OnSale                     bool // published, and neither ended nor terminated
	PreheatAt                  time.Time
	Rebuy                      bool // a user may buy again after the unpaid order closed

	HumanCheck                string    // none, pow, slide or verifier
	HumanCheckRate            int32     // paths a minute above which a second check is asked for; 0 never
	OnePerUser                bool      // the activity is exclusive: a user takes part in one such at a time
	ReserveFrom, ReserveUntil time.Time // when it can be reserved; both zero when no reservation is asked for
	ReserveCap                float64   // the most reservations, as a multiple of the stock; 0 is no cap
}

// Stock names the item's keys for inventory.
func (i *Item) Stock() inventory.Item {
	return inventory.Item{ID: i.ID, ActivityID: i.ActivityID, PerActivity: i.PerActivity}
}

// Catalogue is this instance's picture of what is published and not long over.
// A refresh replaces the picture as a whole, so readers never wait and never
// see half a change. Safe for concurrent use.
type Catalogue struct {
	deps Deps
	cfg  Config
	zone *time.Location

	picture atomic.Pointer[picture]
	// reading lets one refresh run at a time: what a later one read is newer, so
	// it may always replace what an earlier one has put there.
	reading sync.Mutex
	kicked  chan struct{} // capacity 1: one waiting refresh answers every kick
	heal    chan int64

	failures prometheus.Counter
}

// picture is one immutable state of the catalogue.
type picture struct {
	byID        map[int64]*Item
	items       []*Item         // ordered by id
	sessions    map[int64]int64 // session → activity
	fingerprint string
}

// maxHealRequests bounds the items that wait for a look; more than that many
// fenced items at once are found by the preheat worker's own round a second
// later.
const maxHealRequests = 256

// newCatalogue makes an empty catalogue; Refresh fills it.
func newCatalogue(cfg Config, deps Deps) *Catalogue {
	c := &Catalogue{
		deps: deps, cfg: cfg, zone: cfg.zone(), kicked: make(chan struct{}, 1), heal: make(chan int64, maxHealRequests),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_seckill_catalogue_refresh_failures_total", Help: "Times the catalogue could not be read from Postgres.",
		}),
	}
	c.show(&picture{})
	items := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_seckill_catalogue_items", Help: "Published items that this instance knows.",
	}, func() float64 { return float64(len(c.Items())) })
	if deps.Metrics != nil {
		deps.Metrics.MustRegister(items, c.failures)
	}
	return c
}

// show replaces the picture.
func (c *Catalogue) show(p *picture) { c.picture.Store(p) }

// Item returns a published item; false for anything else. It allocates
// nothing.
func (c *Catalogue) Item(id int64) (*Item, bool) {
	i, ok := c.picture.Load().byID[id]
	return i, ok
}

// Items are all published items, ordered by id. The slice is shared: do not
// change it.
func (c *Catalogue) Items() []*Item { return c.picture.Load().items }

// activityOf returns the activity of a published session.
func (c *Catalogue) activityOf(sessionID int64) (int64, bool) {
	id, ok := c.picture.Load().sessions[sessionID]
	return id, ok
}

// Heal asks this instance to look at an item that answered fenced and to load
// it if that is needed. It never blocks; requests for one item are coalesced.
func (c *Catalogue) Heal(itemID int64) {
	select {
	case c.heal <- itemID:
	default: // full: the preheat worker's own round finds the item within a second
	}
}
