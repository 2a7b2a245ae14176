package catalogue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
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
