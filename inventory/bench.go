package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/bench"
	"stampede/platform/ids"
	"stampede/platform/pg"
)

const (
	// benchBatch is how many attempts one decision takes in the benchmark: what a
	// busy lane gathers.
	benchBatch = 256
	// benchLanes is how many batches are under way at once: a lane's workers.
	benchLanes = 2
	// benchMost bounds a round: its marks and holds take some 300 bytes of Redis
	// each.
	benchMost = 1_000_000
)

// DecisionStage measures Reserve, each attempt granted: the dearest answer there
// is. Its floor is one pipelined round trip for each batch that makes Redis
// write down as many marks, HSETNX user → number, and count them off one
// counter: the same facts stored and synced, by plain commands. It checks no
// window, no epoch, no limit and no stock, keeps no log of open holds, and can
// oversell; nothing that decides can do less.
func DecisionStage() bench.Stage {
	return bench.Stage{
		Name: "decision", Unit: "decisions", Probe: 20 * benchBatch, Most: benchMost, Step: benchBatch,
		Ours:  "batches of 256 attempts decided by the reserve script",
		Floor: "pipelines of 256 HSETNX and a DECRBY",
		Remark: "Redis with the append-only file synced always on both sides. The floor decides nothing: no window, epoch, limit or stock, " +
			"one mark per attempt where ours keeps the mark and the open hold.",
		Open: openDecisions,
	}
}

// decisions is the stage under way.
type decisions struct {
	stock *Service
	db    *pgxpool.Pool
	rdb   redis.UniversalClient
	rig   *bench.Rig

	item     Item
	epoch    int64
	attempts []Attempt
}

func openDecisions(ctx context.Context, rig *bench.Rig) (floor, ours bench.Side, closeSides func(context.Context) error, err error) {
	d := &decisions{rig: rig}
	if d.db, err = rig.Database(ctx, 4); err != nil {
		return floor, ours, nil, err
	}
	if d.rdb, err = rig.Redis(ctx); err != nil {
		return floor, ours, nil, err
	}
	cfg := DefaultConfig()
	cfg.Alone = true // so that a Load waits for nobody
	d.stock, err = New(cfg, Deps{
		DB: d.db, Redis: d.rdb, Bus: noGrants{}, Holds: noHolds{}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return floor, ours, nil, err
	}
	floor = bench.Side{Prepare: d.prepare, Work: d.overLanes(d.record)}
	ours = bench.Side{Prepare: d.prepare, Work: d.overLanes(d.decide)}
	return floor, ours, nil, nil
}

// prepare empties Redis, puts a new item on sale and mints n attempts.
func (d *decisions) prepare(ctx context.Context, n int) error {
	if err := d.rdb.FlushDB(ctx).Err(); err != nil {
		return fmt.Errorf("inventory: empty Redis: %w", err)
	}
	d.item = Item{ID: d.item.ID + 1, ActivityID: 1}
	now := time.Now()
	err := pg.InTx(ctx, d.db, func(tx pgx.Tx) error {
		return d.stock.Create(ctx, tx, NewStock{
			Item: d.item, Total: MaxUnits, UserLimit: 1, Rebuy: true, OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(24 * time.Hour),
		})
	})
	if err == nil {
		err = d.stock.Load(ctx, d.item.ID)
	}
	if err != nil {
		return err
	}
	state, ok, err := d.stock.State(ctx, d.item)
	if err != nil || !ok {
		return errors.Join(err, fmt.Errorf("inventory: item %d is loaded: %v", d.item.ID, ok))
	}
	d.epoch = state.Epoch
	first := d.rig.Users(n)
	d.attempts = d.attempts[:0]
	for i := range int64(n) {
		d.attempts = append(d.attempts, Attempt{User: first + i, No: ids.NewFor(first + i), Quantity: 1})
	}
	return nil
}

// overLanes lets as many goroutines as a lane has workers take the attempts,
// a batch each time.
func (d *decisions) overLanes(batch func(ctx context.Context, attempts []Attempt, into *Decision) error) func(context.Context, int) (bench.Sample, error) {
	return func(ctx context.Context, n int) (bench.Sample, error) {
		var next atomic.Int64
		var group sync.WaitGroup
		errs := make([]error, benchLanes)
		for lane := range errs {
			group.Go(func() {
				var into Decision
				for errs[lane] == nil {
					end := int(next.Add(benchBatch))
					if end > n {
						return
					}
					errs[lane] = batch(ctx, d.attempts[end-benchBatch:end], &into)
				}
			})
		}
		group.Wait()
		return bench.Sample{}, errors.Join(errs...)
	}
}

func (d *decisions) decide(ctx context.Context, attempts []Attempt, into *Decision) error {
	if err := d.stock.Reserve(ctx, d.item, d.epoch, attempts, into); err != nil {
		return err
	}
	if into.Gate != Open || into.Results[len(attempts)-1].Verdict != Granted {
		return fmt.Errorf("inventory: the gate is %s", into.Gate)
	}
	return nil
}

// record is the floor's batch.
func (d *decisions) record(ctx context.Context, attempts []Attempt, _ *Decision) error {
	_, err := d.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range attempts {
			pipe.HSetNX(ctx, "floor:users", strconv.FormatInt(attempts[i].User, 10), attempts[i].No.String())
		}
		pipe.DecrBy(ctx, "floor:remaining", int64(len(attempts)))
		return nil
	})
	if err != nil {
		return fmt.Errorf("inventory: pipeline: %w", err)
	}
	return nil
}

// noGrants is a bus on which nothing waits.
type noGrants struct{}

func (noGrants) Broadcast(string, []byte) error                          { return nil }
func (noGrants) GrantsLast(context.Context) (uint64, error)              { return 0, nil }
func (noGrants) GrantsDone(context.Context, int64, uint64) (bool, error) { return true, nil }

// noHolds is a shop without orders.
type noHolds struct{}

func (noHolds) Holds(context.Context, pgx.Tx, int64) ([]Held, []Gone, error) { return nil, nil, nil }
func (noHolds) Closed(context.Context, pgx.Tx, int64) ([]Closed, error)      { return nil, nil }
