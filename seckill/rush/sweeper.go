package rush

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/ids"
	"stampede/platform/lease"
	"stampede/seckill/catalogue"
)

// sweeper settles holds whose order row did not come: a lane died between Redis
// and the bus, a publication's outcome stayed unknown, or a stream was lost. It
// asks Postgres, waits until the stream has nothing older for the item, asks
// again, and only then publishes once more. So a backlog is never amplified, and
// since the writer takes each number once, a mistake here costs a message and
// not a unit.
//
// One instance sweeps at a time, under a lease. What a sweeper has noted is lost
// with its lease; its successor begins with asking again.
type sweeper struct {
	cfg       Config
	db        *pgxpool.Pool
	orders    Orders
	catalogue *catalogue.Catalogue
	stock     stock
	bus       grantStream
	metrics   *metrics
	log       *slog.Logger
	holder    string

	notes map[int64]map[ids.ID]*note // by item and number
	quiet quiet
}

// note is what a sweeper remembers about a hold from round to round.
type note struct {
	upTo        uint64 // the stream's last message when the hold was seen unknown
	republished bool
	round       uint64 // in which it was last seen
}

// sweepLease names the lease; sweepLeaseLife is ten rounds, so that one slow
// round does not lose it and a dead instance is replaced within half a minute.
const (
	sweepLease     = "seckill:hold-sweeper"
	sweepLeaseLife = 20 * time.Second
)

func newSweeper(cfg Config, deps Deps, st stock, stream grantStream, m *metrics) *sweeper {
	return &sweeper{
		cfg: cfg, db: deps.DB, orders: deps.Orders, catalogue: deps.Catalogue, stock: st, bus: stream,
		metrics: m, log: deps.Log, holder: ids.New().String(),
	}
}

// Run sweeps while this instance has the lease, and waits for it otherwise.
func (s *sweeper) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.SweepEvery)
	defer tick.Stop()
	for {
		l, ok, err := lease.Acquire(ctx, s.db, sweepLease, s.holder, sweepLeaseLife)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("seckill: hold sweeper: %w", err)
		}
		if ok {
			err := s.lead(ctx, l, tick.C)
			// The end of ctx must not keep the lease from others.
			if released := lease.Release(context.WithoutCancel(ctx), s.db, l); err == nil && ctx.Err() == nil {
				err = released
			}
			if err != nil {
				return fmt.Errorf("seckill: hold sweeper: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// lead makes rounds until ctx ends or the lease is somebody else's.
func (s *sweeper) lead(ctx context.Context, l lease.Lease, tick <-chan time.Time) error {
	s.notes = make(map[int64]map[ids.ID]*note)
	for round := uint64(1); ; round++ {
		s.sweep(ctx, round)
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		held, err := lease.Renew(ctx, s.db, l, sweepLeaseLife)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is how it ends
		}
		if err != nil || !held {
			return err
		}
	}
}
