// Package stock is what the rooms of inventory share: the stock rows in Postgres, the keys of an item in Redis and
// what their values mean, and readers of both that hold up no sale.
package stock

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/inventoryevent"
	"stampede/platform/base/failpoint"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/proof"
)

// Bus is what Load and the returns need of platform/store/bus.
type Bus interface {
	Broadcast(subject string, data []byte) error
}

// Grants are the messages under way to the order writer; seckill/queue implements it.
type Grants interface {
	State(ctx context.Context) (bus.QueueState, error)
	// Done reports whether every message of an item up to a sequence is written.
	Done(ctx context.Context, itemID int64, upTo uint64) (bool, error)
	// Republish publishes grants once more whose messages may be lost. It returns when they are stored; an error says
	// that some may not be.
	Republish(ctx context.Context, itemID int64, holds []StaleHold) error
}

// Deps are the module's dependencies.
type Deps struct {
	DB      *pgxpool.Pool // inventory's own connection budget
	Redis   redis.UniversalClient
	Bus     Bus    // nil in a command that neither loads nor settles
	Grants  Grants // as Bus
	Holds   Holds
	Books   Books
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Store is what every room of the module works with: its dependencies and settings, and the readers of both counts.
// It is safe for concurrent use.
type Store struct {
	Deps
	Config
	Holder string // this instance's name on leases
	// Epochs remembers the last epoch seen per Item (int64), as the first guess of calls that get none. A wrong guess
	// costs one more call.
	Epochs sync.Map
	shards sync.Map // item id → layout, see Shards
	Seams
}

// Seams are what only tests change.
type Seams struct {
	Recheck time.Duration // proof.Recheck
	// Stall is for how long a Load may make no progress before it is ended, to be started over: longer than any
	// single step, and at least twice the publish deadline. A Load that goes on takes the time that it needs.
	Stall time.Duration
	// RetakeAgain is how long a number waits whose user holds another one, which is about to be refused or released.
	RetakeAgain time.Duration
	// AlarmAfter is how long an item's keeper has failed when the alarm is raised, and AlarmEvery how often it is
	// raised again.
	AlarmAfter, AlarmEvery time.Duration
	// DiffersFor is how long every comparison must find a difference before the item's books are read: longer than a
	// release waits behind a full batch, or an operator's change for the next instance.
	DiffersFor time.Duration
	// CompareTick is how often an instance looks for items that are due for a comparison, and CompareEvery how often
	// one instance of all compares an item with the orders that have changed. Together with the walk itself that is
	// less than a minute. CompareWhole is how often it looks at every holder: what no order's change can tell is a
	// Redis or a Postgres that has lost writes without a restart, and 300,000 holders cost some seconds of a core.
	CompareTick, CompareEvery, CompareWhole time.Duration
	// Failpoint replaces the fail points between the steps of a Load and of Borrow, for tests that end one of several
	// Services in a process.
	Failpoint func(step string) error
}

// Reached ends a procedure between two steps, if a test asks for that. The fail point may be nil.
func (s *Store) Reached(step string, p *failpoint.ErrPoint) error {
	if s.Failpoint != nil {
		return s.Failpoint(step)
	}
	if p == nil {
		return nil
	}
	return p.Err() //nolint:wrapcheck // it says all
}

// NewStore returns the store of one process.
func NewStore(cfg Config, deps Deps) *Store {
	return &Store{Deps: deps, Config: cfg, Holder: ids.New().String(), Seams: Seams{
		Recheck: proof.Recheck, Stall: max(30*time.Second, 2*cfg.PublishDeadline), RetakeAgain: time.Second,
		AlarmAfter: 90 * time.Second, AlarmEvery: 5 * time.Minute, DiffersFor: 5*time.Second + cfg.UnitsReturnWithin,
		CompareTick: 10 * time.Second, CompareEvery: 40 * time.Second, CompareWhole: time.Hour,
	}}
}

// ErrNoStock means that the item has no stock row: it was never published or has been deleted.
var ErrNoStock = fault.Plain(fault.NotFound, fault.T("There is no such item on sale.", "没有该在售商品。"))

// ErrFenced means that the item cannot answer now because it is not loaded or is being loaded. A retry after a Load
// succeeds.
var ErrFenced = fault.New(fault.Unavailable, "fenced", fault.T("The item is being prepared", "商品准备中，请稍后再试"),
	fault.T("The item is being loaded. Ask again in a moment.", "商品正在准备，请稍后再查。"),
	fault.T("Try again in a moment; the item is loaded within seconds.", "请稍后重试，商品将在数秒内就绪。"))

// EpochTurns bounds how often a call follows an item to a newer epoch. Loads of one item take seconds, so two within
// one call are already rare.
const EpochTurns = 3

// Announce broadcasts without waiting. A lost broadcast costs a sold-out flag's lifetime of 2 s, so a failure is only
// logged.
func (s *Store) Announce(ctx context.Context, subject string, payload any) {
	if s.Bus == nil { // a command that serves no requests
		return
	}
	data, err := json.Marshal(payload)
	if err == nil {
		err = s.Bus.Broadcast(subject, data)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "broadcast failed", "subject", subject, "error", err)
	}
}

// AnnounceReturned tells every instance that units of a shard are available again.
func (s *Store) AnnounceReturned(ctx context.Context, of Key, epoch, rel int64) {
	s.Announce(ctx, inventoryevent.SubjectReturned, inventoryevent.Returned{ItemID: of.ItemID, Shard: of.Shard, Epoch: epoch, Rel: rel})
}

// ErrBusy means that another instance is loading the item, or has just done so.
var ErrBusy = fault.New(fault.Conflict, "load-busy", fault.T("The item is being loaded already", "商品正在预热，请稍后再试"),
	fault.T("Another instance is loading this item.", "其他实例正在预热该商品。"),
	fault.T("Wait until the item is loaded, then try again.", "请等待商品预热完成后再试。"))

// LoadLease is the lease on writing an item into Redis, or removing it there.
func LoadLease(itemID int64) string { return "load:" + strconv.FormatInt(itemID, 10) }

// FreeBuyers removes the list of the buyers of an item's activity, unless an item other than the one with the id done
// still needs it.
func (s *Store) FreeBuyers(ctx context.Context, item Item, done int64) error {
	needed, err := inventorydb.New(s.DB).OtherItemsUnsettled(ctx, inventorydb.OtherItemsUnsettledParams{ActivityID: item.ActivityID, ItemID: done})
	if err == nil && !needed {
		err = s.Redis.Unlink(ctx, item.BuyersKey()).Err()
	}
	if err != nil {
		return fmt.Errorf("inventory: free the buyers of activity %d: %w", item.ActivityID, err)
	}
	return nil
}
