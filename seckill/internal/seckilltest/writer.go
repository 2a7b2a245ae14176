package seckilltest

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/seckill/seckillevent"
)

// Write runs a minimal order writer until the returned function is called.
func (y *Bundle) Write() (stop func()) {
	return y.Run(func(ctx context.Context) error {
		err := y.Queue().Consume(ctx, func(ctx context.Context, batch []bus.Msg) {
			for _, m := range batch {
				y.settle(ctx, m)
			}
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
		return nil
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
	y.move(ctx, y.Stock.Deduct, b.ItemID, units)
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

func (y *Bundle) move(ctx context.Context, how func(context.Context, pgx.Tx, []inventory.Movement) error, item int64, units int32) {
	if units == 0 {
		return
	}
	err := pg.InTx(ctx, y.DB, func(tx pgx.Tx) error {
		return how(ctx, tx, []inventory.Movement{{Key: inventory.Key{ItemID: item}, Quantity: units}})
	})
	if err != nil {
		y.T.Errorf("move %d units of item %d: %v", units, item, err)
	}
}
