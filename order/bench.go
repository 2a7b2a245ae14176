package order

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/bench"
	"stampede/platform/ids"
	"stampede/platform/pg"
	"stampede/seckill/seckillevent"
)

const (
	// benchGrants is how many grants a message carries in the benchmarks: what a
	// busy lane takes at once.
	benchGrants = 256
	// benchFetch is how many such messages wait for a writer that is busy with the
	// ones before: a thousand orders, at which the cost of one no longer falls
	// much.
	benchFetch = 4
	// benchMost bounds what a round keeps ready in memory.
	benchMost = 600_000
)

// WriterStage measures the order writer's transaction: stock rows locked,
// messages noted in the inbox, a thousand orders, units deducted, events packed
// into the outbox, commit synced. Its floor is COPY of rows that are encoded
// already into the same table, with its partitions and indexes, one transaction
// per thousand: the least by which Postgres can be made to hold these orders. It
// does not lock or deduct, cannot be repeated, and tells nobody.
func WriterStage() bench.Stage {
	return bench.Stage{
		Name: "writer", Unit: "orders", Target: 0.6, Probe: 10 * benchFetch * benchGrants, Most: benchMost, Step: benchFetch * benchGrants,
		Ours:   "the order writer's transaction, 1024 orders each",
		Floor:  "raw COPY of 1024 rows into the same table",
		Remark: "Both sides fill one table in turns, so that both meet indexes of the same size.",
		Open:   openWriter,
	}
}

// writing is the stage under way.
type writing struct {
	*Service
	db   *pgxpool.Pool
	rig  *bench.Rig
	head seckillevent.Batch

	txs  [][]message // of ours, by transaction
	rows [][]byte    // of the floor, by transaction
}

func openWriter(ctx context.Context, rig *bench.Rig) (floor, ours bench.Side, closeSides func(context.Context) error, err error) {
	w := &writing{rig: rig}
	if w.db, err = rig.Database(ctx, 4); err != nil {
		return floor, ours, nil, err
	}
	rdb, err := rig.Redis(ctx)
	if err != nil {
		return floor, ours, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	stock, err := inventory.New(inventory.DefaultConfig(), inventory.Deps{
		DB: w.db, Redis: rdb, Holds: HoldReader{}, Log: log, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return floor, ours, nil, err
	}
	w.Service, err = New(DefaultConfig(), Deps{DB: w.db, Redis: rdb, Stock: stock, Outbox: asleep{}, Log: log, Metrics: prometheus.NewRegistry()})
	if err != nil {
		return floor, ours, nil, err
	}
	now := time.Now()
	item := inventory.NewStock{
		Item: inventory.Item{ID: 1, ActivityID: 1}, Total: inventory.MaxUnits, UserLimit: 1, OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(24 * time.Hour),
	}
	if err := pg.InTx(ctx, w.db, func(tx pgx.Tx) error { return stock.Create(ctx, tx, item) }); err != nil {
		return floor, ours, nil, err
	}
	w.head = seckillevent.Batch{
		ItemID: item.ID, ActivityID: item.ActivityID, SessionID: 1, UnitPrice: 9900, Currency: "CNY", Title: "限量版跑鞋", PayWindow: 15 * time.Minute,
	}
	floor = bench.Side{Prepare: w.encode, Work: w.copyRows}
	ours = bench.Side{Prepare: w.gather, Work: w.writeAll}
	return floor, ours, nil, nil
}

// grants returns a message of benchGrants grants for users nobody has seen.
func (w *writing) grants() *seckillevent.Batch {
	b := w.head
	b.ID, b.Grants = ids.New(), make([]seckillevent.Grant, benchGrants)
	first := w.rig.Users(benchGrants)
	for i := range b.Grants {
		user := first + int64(i)
		b.Grants[i] = seckillevent.Grant{No: ids.NewFor(user), User: user, Quantity: 1, Seq: user}
	}
	return &b
}

// gather makes n orders' messages.
func (w *writing) gather(_ context.Context, n int) error {
	w.txs = w.txs[:0]
	for range n / (benchFetch * benchGrants) {
		messages := make([]message, benchFetch)
		for i := range messages {
			messages[i].batch = w.grants()
		}
		w.txs = append(w.txs, messages)
	}
	return nil
}

func (w *writing) writeAll(ctx context.Context, _ int) (bench.Sample, error) {
	for _, messages := range w.txs {
		out, err := w.attempt(ctx, messages, hopeful)
		if err != nil {
			return bench.Sample{}, err
		}
		if len(out.created) != benchFetch*benchGrants {
			return bench.Sample{}, fmt.Errorf("order: %d orders of %d grants", len(out.created), benchFetch*benchGrants)
		}
	}
	return bench.Sample{}, nil
}

// encode makes n rows in COPY's format.
func (w *writing) encode(_ context.Context, n int) error {
	w.rows = w.rows[:0]
	at := time.Now().UTC().Truncate(time.Microsecond)
	for range n / (benchFetch * benchGrants) {
		data := []byte(copyHead)
		for range benchFetch {
			b := w.grants()
			for i := range b.Grants {
				o := orderOf(b, entry{grant: &b.Grants[i]}, orderevent.StatusPending, at)
				data = appendRow(data, &o)
			}
		}
		w.rows = append(w.rows, append(data, copyTail...))
	}
	return nil
}

func (w *writing) copyRows(ctx context.Context, _ int) (bench.Sample, error) {
	for _, data := range w.rows {
		err := pg.InTx(ctx, w.db, func(tx pgx.Tx) error {
			_, err := tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(data), copyPending)
			return err
		})
		if err != nil {
			return bench.Sample{}, fmt.Errorf("order: copy: %w", err)
		}
	}
	return bench.Sample{}, nil
}

// asleep is an outbox relay that nobody started.
type asleep struct{}

func (asleep) Wake() {}
