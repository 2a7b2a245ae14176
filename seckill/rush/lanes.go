package rush

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/inventory/inventoryevent"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/base/tracing"
	"stampede/platform/store/bus"
	"stampede/seckill/catalogue"
	"stampede/seckill/seckillevent"
)

// stock is what the lanes and Places use of inventory.
type stock interface {
	Reserve(ctx context.Context, item inventory.Item, epoch int64, attempts []inventory.Attempt, into *inventory.Decision) error
	Users(ctx context.Context, item inventory.Item, epoch int64, limit int) ([]int64, error)
	Ended(ctx context.Context, item inventory.Item, epoch int64, limit int) ([]ids.ID, error)
	Borrow(ctx context.Context, item inventory.Item, shards int16, wanted int64) (inventory.Whole, error)
	Hold(ctx context.Context, item inventory.Item, user int64) (no ids.ID, quantity int32, seq, persisted int64, ok bool, err error)
}

// grants is what the lanes and Places use of the queue.
type grants interface {
	Healthy(ctx context.Context) error
	Publish(ctx context.Context, b *seckillevent.Batch, data []byte) error
	State(ctx context.Context) (bus.QueueState, error)
	Done(ctx context.Context, itemID int64, upTo uint64) (bool, error)
}

// lanes are all lanes of this instance and their shared state. A lane begins
// with the first attempt for an item on sale and ends when the item has left
// the catalogue, or when the process stops.
type lanes struct {
	cfg       Config
	catalogue *catalogue.Catalogue
	stock     stock
	grants    grants
	redis     redis.UniversalClient // for turns
	numbers   *numbers
	metrics   *metrics
	clock     clock.Clock
	log       *slog.Logger
	trace     *tracing.Tracer

	all      itemIndex[lane]
	workers  sync.WaitGroup
	draining atomic.Bool
}

// open returns an item's lane, starting it if needed; nil while draining.
func (ls *lanes) open(item int64) *lane {
	return ls.all.findOrAdd(item, func() *lane {
		if ls.draining.Load() {
			return nil
		}
		l := newLane(item, ls)
		l.begin()
		return l
	})
}

// endGone ends the lanes of items that can no longer be bought.
func (ls *lanes) endGone(onSale func(item int64) bool) {
	for _, l := range ls.all.drop(func(item int64) bool { return !onSale(item) }) {
		l.end()
	}
}

// drain ends every lane and returns when all waiting attempts are answered and
// the batches in progress are finished.
func (ls *lanes) drain() {
	ls.draining.Store(true)
	ls.endGone(func(int64) bool { return false })
	ls.workers.Wait()
}

// depths yields what is waiting of each item, in its lanes and before them.
func (ls *lanes) depths(yield func(item int64, d depth)) {
	for item, l := range ls.all.items() {
		var d depth
		for _, each := range *l.shards.lanes.Load() {
			d.waiting += len(each.queue)
			d.line = max(d.line, each.pace.ahead.Load()) // the same line for all of them
			d.passed += each.pace.passed.Load()
		}
		yield(item, d)
	}
}

// decided notes the moment of a batch's grants, and that of an item's last unit.
func (ls *lanes) decided(item *catalogue.Item, d *inventory.Decision, granted bool) {
	now := ls.clock.Now()
	if granted {
		ls.metrics.board.Mark(item.ID, MomentGranted, now)
	}
	if d.Remaining == 0 && !item.Unlimited && (granted && d.Shards < 2 || d.Parts != nil) {
		ls.metrics.board.Mark(item.ID, MomentEmptied, now)
	}
}

// onReturned clears the flag of an item whose units came back or that was loaded: a
// Loaded reads as no returns in a new epoch, which ends flags of the previous one.
func (ls *lanes) onReturned(subject string, data []byte) {
	var e inventoryevent.Returned
	if err := json.Unmarshal(data, &e); err != nil {
		ls.log.Warn("decoding broadcast failed", "subject", subject, "error", err)
		return
	}
	if l := ls.all.find(e.ItemID); l != nil && e.Shard >= 0 && e.Shard < inventory.MostShards {
		l.flag.seeShard(e.Shard, e.Epoch, e.Rel)
		l.returned(e.Epoch, 0)
	}
}
