// Package watch wires what watches over an instance: alarms, proofs of the books, dead
// letters, the message table and the funnel. Each is a separate package.
package watch

import (
	"context"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
	"stampede/platform/edge/httpx"
	"stampede/platform/store"
	"stampede/platform/store/redisx"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/audit"
	"stampede/platform/watch/backups"
	"stampede/platform/watch/deadletters"
	"stampede/platform/watch/instances"
	"stampede/platform/watch/messages"
	"stampede/platform/watch/preflight"
	"stampede/platform/watch/proof"
	"stampede/platform/watch/proof/runs"
	"stampede/platform/watch/tally"
)

// Watch watches over one instance.
type Watch struct {
	Tally     *tally.Board // what the modules count in
	backups   *backups.Service
	instances *instances.Registry
	stores    *store.Stores
	log       *slog.Logger
	metrics   prometheus.Registerer
}

// New returns the watch over these stores.
func New(stores *store.Stores, log *slog.Logger, metrics prometheus.Registerer) *Watch {
	return &Watch{Tally: tally.New(stores.Pools["platform"], stores.Clock, log), stores: stores, log: log, metrics: metrics}
}

// Backups makes backups from now on; call it before Preflight and Open.
func (w *Watch) Backups(set backups.Settings, deps backups.Deps) (err error) {
	deps.DB, deps.Log = w.stores.Pools["platform"], w.log
	w.backups, err = backups.New(set, deps)
	return err
}

// Join reports this instance to the others until a stops, and refuses one that does not fit
// them. Call it before Preflight and Open.
func (w *Watch) Join(ctx context.Context, a *app.App, cfg instances.Config) (err error) {
	cfg.Alone = w.stores.SingleInstance()
	w.instances, err = instances.Join(ctx, a, cfg, instances.Deps{
		DB: w.stores.Pools["platform"], Redis: w.stores.Redis, NATS: w.stores.Bus.Identity, Log: w.log,
	})
	return err
}

// Preflight returns the checks of the stores and of the instances; this one sends its alarms
// somewhere or not.
func (w *Watch) Preflight(alarmed bool) []preflight.Check {
	s := w.stores
	return append(preflight.Servers{
		DB: s.Pools["platform"], Standby: s.Standby, Redis: s.Redis, Clock: s.Clock.Offset, NATS: s.Bus.Healthy, Disk: s.StreamDir,
		Running: w.instances.Sum, Alarmed: alarmed,
	}.Checks(), w.backups.Preflight())
}

// Config is what there is to watch besides the stores.
type Config struct {
	Alarms      *alarm.Notifier
	Listen      string // the public address
	StreamBytes int64  // what the embedded NATS may keep
	Probes      []alarm.Probe
	Checks      []proof.Check
}

// Open registers the operators' routes and returns the loops. Call it once, after the
// modules are built.
func (w *Watch) Open(cfg Config, rt *httpx.Router) ([]app.Worker, error) {
	pool := w.stores.Pools["platform"]
	parts := alarm.Parts{
		Listen: cfg.Listen, Bus: w.stores.Bus, Postgres: w.stores.Pulse.Ping,
		Redis: func(ctx context.Context) error { return redisx.Writable(ctx, w.stores.Redis) },
	}
	if w.stores.SingleInstance() {
		parts.StreamDir, parts.StreamBytes = w.stores.StreamDir, cfg.StreamBytes
	}
	workers, err := alarm.Workers(pool, w.stores.Pulse, cfg.Alarms, parts, w.log, w.metrics, append(cfg.Probes, w.instances.Probe())...)
	if err != nil {
		return nil, err
	}
	proofs := runs.New(pool, cfg.Checks, w.log)
	alarm.Routes(rt, pool, cfg.Alarms)
	audit.Routes(rt, pool, w.stores.Standby)
	deadletters.Routes(rt, pool, w.stores.Bus)
	messages.Routes(rt, pool, w.stores.Relay)
	proofs.Routes(rt)
	w.backups.Routes(rt)
	return slices.Concat(workers, proofs.Workers(), w.backups.Workers()), nil
}
