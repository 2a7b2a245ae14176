package seckilltest

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/seckill/seckillevent"
)

// Orders is a minimal order module.
type Orders struct {
	mu      sync.Mutex
	all     map[ids.ID]orderevent.Order
	granted map[ids.ID]seckillevent.Grant // what the orders were made from
	// Twice counts numbers that a second message tried to create.
	Twice int
}

func newOrders() *Orders {
	return &Orders{all: map[ids.ID]orderevent.Order{}, granted: map[ids.ID]seckillevent.Grant{}}
}

func (o *Orders) create(b *seckillevent.Batch, g seckillevent.Grant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.all[g.No]; ok {
		o.Twice++
		return
	}
	o.granted[g.No] = g
	o.all[g.No] = orderevent.Order{
		No: g.No, UserID: g.User, ItemID: b.ItemID, ActivityID: b.ActivityID, Shard: b.Shard, PerActivity: b.PerActivity, Epoch: b.Epoch, Quantity: g.Quantity,
		Status: orderevent.StatusPending, UpdatedAt: time.Now(),
	}
}

// Granted is the grant that an order was made from.
func (o *Orders) Granted(no ids.ID) seckillevent.Grant {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.granted[no]
}

// Set gives an order a status, as the order module does by itself, and returns
// the order.
func (o *Orders) Set(no ids.ID, status string) orderevent.Order {
	o.mu.Lock()
	defer o.mu.Unlock()
	row := o.all[no]
	row.Status, row.UpdatedAt = status, time.Now()
	o.all[no] = row
	return row
}

// Count is how many orders there are.
func (o *Orders) Count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}

// Statuses returns the status of each number that has an order.
func (o *Orders) Statuses(_ context.Context, nos []ids.ID) (map[ids.ID]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := map[ids.ID]string{}
	for _, no := range nos {
		if row, ok := o.all[no]; ok {
			known[no] = row.Status
		}
	}
	return known, nil
}

// ChangedWithin returns none: what compares items does not run here.
func (o *Orders) ChangedWithin(context.Context, time.Duration) (map[int64][]int64, error) {
	return nil, nil
}

// EndedWithin returns none: units of ended orders return at once here.
func (o *Orders) EndedWithin(context.Context, []ids.ID, time.Duration) (map[ids.ID]bool, error) {
	return nil, nil
}

// Get returns an order.
func (o *Orders) Get(_ context.Context, no ids.ID) (orderevent.Order, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	row, ok := o.all[no]
	return row, ok, nil
}

// Live is what a Load queries: who holds units of an item.
func (o *Orders) Live(_ context.Context, _ pgx.Tx, itemID int64, each func([]inventory.Held) error) error {
	var live []inventory.Held
	for _, row := range o.of(itemID) {
		if row.Status == orderevent.StatusPending || row.Status == orderevent.StatusPaid {
			live = append(live, inventory.Held{No: row.No, User: row.UserID, Quantity: row.Quantity, Paid: row.Status == orderevent.StatusPaid})
		}
	}
	return each(live)
}

// Rehome is what a Load asks that gives an item more shards.
func (o *Orders) Rehome(_ context.Context, _ pgx.Tx, itemID int64, shards int16) (map[int16]int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	units := map[int16]int64{}
	for no, row := range o.all {
		if row.ItemID != itemID {
			continue
		}
		row.Shard = inventory.HomeOf(no.Bucket(), int(shards))
		if o.all[no] = row; row.Status == orderevent.StatusPending || row.Status == orderevent.StatusPaid {
			units[row.Shard] += int64(row.Quantity)
		}
	}
	return units, nil
}

// Ended are the numbers of an item that held units a moment ago.
func (o *Orders) Ended(_ context.Context, _ pgx.Tx, itemID int64, each func([]inventory.Tombstone) error) error {
	var ended []inventory.Tombstone
	for _, row := range o.of(itemID) {
		if row.Status != orderevent.StatusPending && row.Status != orderevent.StatusPaid {
			ended = append(ended, inventory.Tombstone{No: row.No, Until: row.UpdatedAt.Add(4 * time.Minute)})
		}
	}
	return each(ended)
}

// Closed are the orders of an item that were closed unpaid.
func (o *Orders) Closed(_ context.Context, _ pgx.Tx, itemID int64, each func([]inventory.Held) error) error {
	var closed []inventory.Held
	for _, row := range o.of(itemID) {
		if row.Status == orderevent.StatusClosed {
			closed = append(closed, inventory.Held{No: row.No, User: row.UserID, Closed: true})
		}
	}
	return each(closed)
}

// of returns the item's orders.
func (o *Orders) of(itemID int64) (rows []orderevent.Order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, row := range o.all {
		if row.ItemID == itemID {
			rows = append(rows, row)
		}
	}
	return rows
}

// LiveUnits is what inventory's books query: the units of live orders by item.
func (o *Orders) LiveUnits(context.Context) (map[int64]inventory.Units, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	units := map[int64]inventory.Units{}
	for _, row := range o.all {
		u := units[row.ItemID]
		switch row.Status {
		case orderevent.StatusPending:
			u.Held += int64(row.Quantity)
		case orderevent.StatusPaid:
			u.Sold += int64(row.Quantity)
		}
		units[row.ItemID] = u
	}
	return units, nil
}

// Write runs a minimal order writer until the returned function is called.
func (y *Bundle) Write() (stop func()) {
	return y.Run(func(ctx context.Context) error {
		return y.Queue().Consume(ctx, func(ctx context.Context, batch []bus.Msg) {
			for _, m := range batch {
				y.settle(ctx, m)
			}
		})
	})
}

// SettleAll runs the order writer until there are so many orders and nothing is
// left to write.
func (y *Bundle) SettleAll(orders int) {
	y.T.Helper()
	stop := y.Write()
	pgtest.Eventually(y.T, 5*time.Second, func() bool {
		queue, err := y.Queue().State(y.T.Context())
		return err == nil && queue.Messages == 0 && y.Orders.Count() == orders
	}, "all grants written")
	stop()
}

func (y *Bundle) settle(ctx context.Context, m bus.Msg) {
	var b seckillevent.Batch
	if err := b.Decode(m.Data); err != nil {
		y.T.Errorf("grant message: %v", err)
		return
	}
	var nos []ids.ID
	units := int32(0)
	for _, g := range b.Grants {
		if _, twice, _ := y.Orders.Get(ctx, g.No); !twice {
			units += g.Quantity
		}
		nos = append(nos, g.No)
	}
	y.move(ctx, y.Stock.Deduct, inventory.Key{ItemID: b.ItemID, Shard: b.Shard}, units)
	for _, g := range b.Grants {
		y.Orders.create(&b, g)
	}
	item := inventory.Item{ID: b.ItemID, ActivityID: b.ActivityID, Shard: b.Shard, PerActivity: b.PerActivity}
	if err := y.Stock.Persisted(ctx, inventory.Written{Item: item, Epoch: b.Epoch, Nos: nos}); err != nil {
		y.T.Errorf("mark persisted: %v", err)
	}
	if err := m.Ack(); err != nil {
		y.T.Errorf("ack: %v", err)
	}
}

func (y *Bundle) move(ctx context.Context, how func(context.Context, pgx.Tx, []inventory.Movement) error, of inventory.Key, units int32) {
	if units == 0 {
		return
	}
	err := pg.InTx(ctx, y.DB, func(tx pgx.Tx) error {
		return how(ctx, tx, []inventory.Movement{{Key: of, Quantity: units}})
	})
	if err != nil {
		y.T.Errorf("move %d units of %+v: %v", units, of, err)
	}
}
