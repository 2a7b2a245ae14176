package rush

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/time/rate"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/lease"
	"stampede/platform/watch/alarm"
	"stampede/seckill/catalogue"
)

// sweeper settles holds whose order row did not appear: a lane died between
// Redis and the bus, a publication's outcome stayed unknown, or a stream was
// lost. It queries Postgres, waits until the stream has nothing older for the
// item, queries again, and only then publishes once more. So a backlog is never
// amplified, and since the writer accepts each number once, a mistake here costs
// a message and not a unit.
//
// One instance sweeps at a time, under a lease. A sweeper's notes are lost with
// its lease; its successor starts by querying again.
type sweeper struct {
	cfg       Config
	db        *pgxpool.Pool
	catalogue *catalogue.Catalogue
	stock     stock
	grants    grants
	metrics   *metrics
	log       *slog.Logger
	holder    string

	notes map[int64]map[ids.ID]*note // by item and number
	quiet rate.Sometimes             // rate limit, so that a fault does not fill the log
}

// note is the sweeper's record of a hold from round to round.
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

func newSweeper(cfg Config, deps Deps, st stock, queue grants, m *metrics) *sweeper {
	return &sweeper{
		cfg: cfg, db: deps.DB, catalogue: deps.Catalogue, stock: st, grants: queue, metrics: m, log: deps.Log, holder: ids.New().String(), quiet: rate.Sometimes{Interval: time.Second},
	}
}

// Run sweeps while this instance holds the lease, and waits for the lease
// otherwise.
func (s *sweeper) Run(ctx context.Context) error {
	elector := lease.Elector{DB: s.db, Name: sweepLease, Holder: s.holder, TTL: sweepLeaseLife}
	round := uint64(0)
	err := app.Loop{Every: s.cfg.SweepEvery, Log: s.log, Failed: "sweeper's lease cannot be read, stale holds wait", Do: func(ctx context.Context) error {
		leads, err := elector.IsLeader(ctx)
		if !leads {
			s.notes, round = nil, 0
			return err
		}
		if round++; round == 1 {
			s.notes = make(map[int64]map[ids.ID]*note)
		}
		s.sweep(ctx, round)
		return nil
	}}.Run(ctx)
	return errors.Join(err, elector.Resign(ctx))
}

var alarmHoldStuck = alarm.Define("hold-stuck", alarm.Critical,
	"A granted order number became neither an order nor a refusal, although its grant was published again and consumed.",
	fault.T("Find the number among the dead letters of order-writer, fix the error shown there, and redrive them.",
		"在 order-writer 的死信中找到该订单号，处理其中的错误后重新投递。"))
