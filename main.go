// Stampede is a flash-sale system: one process that shoppers reach over HTTP and
// WebSocket, next to Postgres and Redis. This file is the command table and the
// wiring; what a command does lives in the modules and in platform.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/notify"
	"stampede/order"
	"stampede/payment"
	"stampede/payment/provider"
	"stampede/payment/providers"
	"stampede/payment/refund"
	"stampede/payment/statement"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/telemetry"
	"stampede/platform/base/tracing"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity"
	"stampede/platform/identity/humancheck"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/store/redisx"
	"stampede/platform/store/rollback"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/deadletters"
	"stampede/platform/watch/messages"
	"stampede/platform/watch/preflight"
	"stampede/platform/watch/proof"
	"stampede/platform/watch/proof/runs"
	"stampede/platform/watch/tally"
	"stampede/platform/workshop/cli"
	"stampede/platform/workshop/demo"
	"stampede/seckill"
	"stampede/seckill/door"
	"stampede/seckill/rush"
)

// release is this program's version, defined only here: a test checks
// CHANGELOG.md and the READMEs against it, and a release checks its tag.
const release = "v0.9.0"

// version is the release, with the commit if the go command built it in a repository.
var version = cli.Built(release)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the settings of run and serve, each declared by the package that
// uses it. The groups are the headings of --help.
type settings struct {
	cli.Base `embed:""`
	Trace    tracing.Settings   `embed:"" group:"Logs and traces:"`
	Sale     seckill.Settings   `embed:"" group:"Sales:"`
	Rush     rush.Settings      `embed:"" group:"Sales:"`
	Bus      bus.Settings       `embed:"" group:"Sales:"`
	Order    order.Settings     `embed:"" group:"Sales:"`
	Stock    inventory.Settings `embed:"" group:"Sales:"`
	Push     notify.Settings    `embed:"" group:"WebSockets:"`
	Postgres pg.Settings        `embed:"" group:"Postgres connections:"`
	Records  outbox.Settings    `embed:"" group:"Disk and records:"`
	Alarms   alarm.Webhook      `embed:"" group:"Alarms:"`
	Identity identity.Settings  `embed:""`
	Door     door.Settings      `embed:""`
	Pay      providers.Settings `embed:""`
	Refunds  refund.Settings    `embed:"" group:"Payments:"`
	Money    payment.Settings   `embed:"" group:"Payments:"`
	Stop     app.Settings       `embed:"" group:"Stopping:"`
}

// Check validates settings that involve two packages.
func (s *settings) Check() error {
	_, _, err := s.Identity.Requests.Connections(httpx.OpenFiles(), "--max-sockets", s.Push.MaxSockets)
	return errors.Join(err, s.Identity.Human.CheckPages(s.Addresses.PublicURL))
}

// practice sets the additions of run: its shop has no contract with a payment
// provider, and none with an SMS gateway unless one is configured.
func (s *settings) practice() {
	s.Pay.Sandbox.SandboxBank, s.Identity.Accounts.AdminWithoutTOTP = true, true
	s.Identity.SMS.SandboxSMS = s.Identity.SMS.SandboxSMS || s.Identity.SMS.SMSGatewayURL == ""
}

// poolWeights divide the connections; their sum is the default budget. Payments
// must answer however busy the rush is; one of the accounts' connections is for
// revocations.
var poolWeights = map[string]int32{"seckill": 6, "inventory": 4, "order": 10, "payment": 8, "platform": 6, "account": 5}

// redisKeys are the prefixes of our keys in Redis.
var redisKeys = slices.Concat(inventory.RedisKeys, order.RedisKeys, seckill.RedisKeys, identity.RedisKeys)

// run runs one command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	set := new(settings)
	return cli.Main(ctx, set.program(), args, cli.Streams{Out: stdout, Err: stderr})
}

// program returns what the commands work with.
func (s *settings) program() cli.Program {
	return cli.Program{
		Settings: cli.Settings{Base: &s.Base, Plugins: []any{s}, Practice: s.practice}, Version: cli.Version(version),
		Serve: s.serve, Prove: s.proveStores, Reconcile: s.reconcile,
		Statement: func(ctx context.Context, server, token, date, provider string, apply bool) (cli.Differences, error) {
			return statement.Ask(ctx, server, token, date, provider, apply)
		},
	}
}

// server is the wired process.
type server struct {
	end            context.CancelCauseFunc // shuts the process down, with a reason
	set            *settings
	log            *slog.Logger
	app            *app.App
	registry       *prometheus.Registry
	trace          *tracing.Tracer // nil unless traces are on
	singleInstance bool            // no other process publishes: the instance lock is ours and NATS is embedded
	natsDir        string          // where the embedded NATS keeps its streams
	connections    int             // that this instance holds at most

	pools     map[string]*pgxpool.Pool
	redis     redis.UniversalClient
	locks     *redisx.Locks
	bus       *bus.Bus
	relay     *outbox.Relay
	clock     *clock.Server
	tally     *tally.Board // nil where nothing is served
	identity  *identity.Service
	inventory *inventory.Service
	order     *order.Service
	payment   *payment.Service
	seckill   *seckill.Service
	door      *door.Service
	notify    *notify.Service
}

// server returns a server with these settings; nothing of it is open yet.
func (s *settings) server(log *slog.Logger) *server {
	return &server{set: s, log: log, app: app.New(log), registry: telemetry.Registry()}
}

// checks are every module's.
func (s *server) checks() []proof.Check {
	return slices.Concat(s.inventory.Checks(), seckill.Checks(s.pools["seckill"], s.inventory), s.order.Checks(), s.payment.Checks())
}

// prove runs every module's checks.
func (s *server) prove(ctx context.Context) []proof.Outcome { return proof.Run(ctx, s.checks()) }

// book is one item's account for the live page.
func (s *server) book(ctx context.Context, itemID int64) (demo.Books, error) {
	r, _, err := s.inventory.Book(ctx, itemID)
	return demo.Books{Total: r.Total, Remaining: r.Available, Held: r.Held, Sold: r.Sold, Difference: r.Difference}, err
}

// proveStores is verify: it reads the stores without serving, proves the books
// and checks them against the client log.
func (s *settings) proveStores(
	ctx context.Context, stores cli.Stores, item int64, told []proof.ClientRecord,
) (found cli.Evidence, err error) {
	err = s.onStores(ctx, stores, func(srv *server) (err error) {
		found.Checks = srv.prove(ctx)
		if told != nil {
			found.Checks = append(found.Checks, proof.Run(ctx, srv.order.CheckClientLog(srv.inventory, order.FromLog(told)))...)
		}
		found.Books, found.WriteBooks, err = srv.inventory.PrintableBooks(ctx, item)
		return err
	})
	return found, err
}

// reconcile compares Redis with the books without serving.
func (s *settings) reconcile(ctx context.Context, stores cli.Stores, item int64, repair bool) (found cli.Differences, err error) {
	err = s.onStores(ctx, stores, func(srv *server) (err error) {
		found, err = srv.inventory.Reconcile(ctx, item, repair)
		return err
	})
	return found, err
}

// onStores runs work on the modules that keep the books.
func (s *settings) onStores(ctx context.Context, stores cli.Stores, work func(*server) error) (err error) {
	srv := s.server(telemetry.Logger("error", "text", os.Stderr, nil))
	defer func() { err = errors.Join(err, srv.app.Stop(context.WithoutCancel(ctx))) }()
	if err := srv.openPools(ctx, stores); err != nil {
		return err
	}
	if err := srv.openBooks(nil); err != nil {
		return err
	}
	return work(srv)
}

// open connects to the stores and builds the modules; nothing runs yet.
// app.Stop closes what it opened, even if it fails halfway.
func (s *server) open(ctx context.Context, stores cli.Stores, key string) error {
	var err error
	if s.trace, err = tracing.Open(ctx, tracing.Config{Settings: s.set.Trace, Version: version, Log: s.log}); err != nil {
		return err
	}
	s.app.OnStop("traces", s.trace.Stop)
	if err := s.openStores(ctx, stores); err != nil {
		return err
	}
	s.natsDir = stores.NATSDir
	busCfg := bus.Config{URL: stores.NATSURL, StoreDir: s.natsDir, Settings: s.set.Bus, Log: s.log, Metrics: s.registry, Trace: s.trace}
	if s.bus, err = bus.Open(ctx, busCfg); err != nil {
		return err
	}
	s.app.OnStop("bus", s.bus.Close)
	s.app.OnReady("nats", s.bus.Healthy)
	s.app.OnReady("orders", s.bus.GrantsMoving)
	s.relay = outbox.New(s.pools["platform"], s.bus, alarm.OutboxRefused.Raise, s.log, s.registry,
		outbox.GiveUpAfter(s.set.Records.RetryRefused, alarm.OutboxFailed.Raise))
	s.clock = clock.NewServer(s.redis, s.log)
	s.registry.MustRegister(telemetry.NewPools(s.pools, s.redis), s.clock)
	if err := s.clock.Sample(ctx); err != nil {
		return fmt.Errorf("read the Redis server's time: %w", err)
	}
	s.tally = tally.New(s.pools["platform"], s.clock, s.log)
	s.identity, err = identity.New(s.set.Identity, identity.Deps{
		Addresses: s.set.Addresses, Keep: s.set.Records.KeepRecords,
		Key: []byte(key), PreviousKeys: s.set.Keys.Previous(), SingleInstance: s.singleInstance, Version: version,
		DB: s.pools["account"], Redis: s.redis, Bus: s.bus, Clock: s.clock, Log: s.log,
		Metrics: s.registry, Trace: s.trace,
	})
	if err != nil {
		return err
	}
	ways, err := providers.Open(s.set.Pay, providers.Deps{
		Secret: auth.Derive([]byte(key), "sandbox-bank"), PublicURL: s.set.Addresses.BaseURL(), LocalURL: s.set.Addresses.LocalURL(),
		DB: s.pools["payment"], Clock: s.clock, Log: s.log, Metrics: s.registry,
	})
	if err != nil {
		return err
	}
	ways.Routes(s.identity.Router.Mux)
	s.app.Go("payment companies for practice", ways.Workers()...)
	if err := s.openBooks(ways.Providers); err != nil {
		return err
	}
	return s.openDoors([]byte(key))
}

func (s *server) openStores(ctx context.Context, stores cli.Stores) error {
	if _, _, err := pg.Migrate(ctx, stores.DatabaseURL); err != nil {
		return err
	}
	if err := s.openPools(ctx, stores); err != nil {
		return err
	}
	warn := func(w string) { s.log.WarnContext(ctx, "redis setting", "warning", w) }
	if err := redisx.Check(ctx, s.redis, warn); err != nil {
		return err
	}
	var err error
	if s.locks, err = redisx.OpenLocks(ctx, s.log, s.redis, stores.LockRedisURLs...); err != nil {
		return err
	}
	s.app.OnStop("lock nodes", func(context.Context) error { return s.locks.Close() })
	if stores.NATSURL == "" {
		if err := pg.HoldInstanceLock(ctx, stores.DatabaseURL, s.log, s.app, s.end); err != nil {
			return err
		}
		s.singleInstance = true
	}
	return rollback.Start(ctx, s.app, s.pools["platform"], s.redis, redisKeys, alarm.DatabaseWentBack.Raise, s.log)
}

func (s *server) openPools(ctx context.Context, stores cli.Stores) error {
	var err error
	if s.pools, err = pg.OpenPools(ctx, s.app, stores.DatabaseURL, pg.Share(s.set.Postgres.MaxConns, poolWeights)); err != nil {
		return err
	}
	s.app.OnReady("postgres", func(ctx context.Context) error { return pg.Writable(ctx, s.pools["platform"]) })
	s.redis, err = redisx.OpenFor(ctx, s.app, stores.RedisURL)
	return err
}

// openBooks builds the modules that keep the books. Without a bus, as in verify
// and reconcile, they serve nothing.
func (s *server) openBooks(providers []provider.Provider) error {
	var err error
	stockCfg := inventory.NewConfig(s.set.Stock, s.set.Bus.PublishDeadline)
	stockCfg.SingleInstance = s.singleInstance
	orders := order.Reader{DB: s.pools["order"]}
	stockDeps := inventory.Deps{
		DB: s.pools["inventory"], Redis: s.redis, Holds: orders, Books: orders, Log: s.log, Metrics: s.registry,
	}
	if s.bus != nil {
		stockDeps.Bus = s.bus
	}
	s.inventory, err = inventory.New(stockCfg, stockDeps)
	if err != nil {
		return err
	}
	orderDeps := order.Deps{
		DB: s.pools["order"], Redis: s.redis, Bus: s.bus, Stock: s.inventory, Outbox: s.relay,
		Log: s.log, Metrics: s.registry, Trace: s.trace, Tally: s.tally,
	}
	if s.identity != nil {
		orderDeps.Blocked, orderDeps.Accounts = s.identity.Blacklist.User, s.identity.Accounts
	}
	orderCfg := order.NewConfig(s.set.Order)
	orderCfg.KeepDetails = s.set.Records.KeepRecords
	s.order, err = order.New(orderCfg, orderDeps)
	if err != nil {
		return err
	}
	payCfg := payment.DefaultConfig()
	payCfg.Refunds, payCfg.Settings = s.set.Refunds, s.set.Money
	payCfg.ReturnURL, payCfg.Zone = s.set.Addresses.BaseURL()+"/", s.set.Sale.Zone()
	payDeps := payment.Deps{
		DB: s.pools["payment"], Orders: s.order, Outbox: s.relay, Providers: providers,
		BaseURL: s.set.Addresses.BaseURL(), Log: s.log, Metrics: s.registry, Trace: s.trace, Tally: s.tally,
	}
	if s.identity != nil {
		payDeps.OpenID = s.identity.Accounts.OpenIDOf
	}
	s.payment, err = payment.New(payCfg, payDeps)
	return err
}

// openDoors builds the modules that shoppers interact with.
func (s *server) openDoors(key []byte) error {
	saleCfg := seckill.NewConfig(s.set.Sale, rush.NewConfig(s.set.Rush, s.set.Bus.PublishDeadline, s.set.Keys.Previous()...))
	window, canPay := s.payment.Window()
	saleCfg.ShortestPayWindow, saleCfg.CanPay = max(saleCfg.ShortestPayWindow, window), canPay
	saleCfg.Verifier = s.identity.Human.Offers(humancheck.Verifier)
	items, err := seckill.NewCatalogue(saleCfg, s.pools["seckill"], s.log, s.registry)
	if err != nil {
		return err
	}
	s.door, err = door.New(door.Config{
		Settings: s.set.Door, Keep: s.set.Records.KeepRecords, PathLead: saleCfg.Rush.PathLead,
	}, door.Deps{
		Catalogue: items, DB: s.pools["seckill"], Redis: s.redis, Bus: s.bus, Clock: s.clock, Orders: s.order,
		Human: s.identity.Human, Limits: s.identity.Limits, Blacklist: s.identity.Blacklist, Locks: s.locks,
		SigningKey: key, Log: s.log, Metrics: s.registry,
	})
	if err != nil {
		return err
	}
	servers := preflight.Servers{DB: s.pools["platform"], Redis: s.redis, Clock: s.clock.Offset, NATS: s.bus.Healthy, Connections: s.connections}
	if s.singleInstance {
		servers.Disk = s.natsDir
	}
	s.seckill, err = seckill.New(saleCfg, seckill.Deps{
		Catalogue: items, DB: s.pools["seckill"], Redis: s.redis, Bus: s.bus, Stock: s.inventory, Orders: s.order,
		Admit: s.door.Admit, OverLimit: s.door.OverLimit, Paused: s.door.Paused, Servers: slices.Concat(s.payment.Preflight(), servers.Checks()), Outbox: s.relay, Clock: s.clock, SigningKey: key,
		Log: s.log, Metrics: s.registry, Trace: s.trace, Tally: s.tally,
	})
	if err != nil {
		return err
	}
	s.app.OnReady("items", s.seckill.Preheat.Deciding)
	s.identity.Accounts.AlsoErase(s.order.Forget, s.payment.Forget)
	s.inventory.Bind(inventory.Peers{Grants: s.seckill.Rush})
	s.order.Bind(order.Peers{Queue: s.seckill.Rush, Payments: s.payment, Sales: s.seckill})
	s.notify, err = notify.New(notify.NewConfig(s.set.Push), notify.Deps{Tokens: s.identity.Tokens, Broadcasts: s.bus, Announced: s.order.Announced, Log: s.log, Metrics: s.registry, Tally: s.tally})
	return err
}

// start starts the modules. The last one registered stops first: HTTP drains,
// sockets close, lanes finish, consumers and workers end, the relay sends the
// remaining events; app.Stop then closes bus, Redis and pools.
func (s *server) start(ctx context.Context, probes []alarm.Probe) error {
	s.app.Go("clock", app.Worker{Name: "clock", Run: s.clock.Run})
	s.app.Go("tally", s.tally.Workers()...)
	s.app.Go("relay", s.relay.Workers(s.set.Records.KeepRecords)...)
	subs := slices.Concat(
		s.seckill.Subscriptions(), s.door.Subscriptions(), s.order.Subscriptions(),
		s.inventory.Subscriptions(), s.notify.Subscriptions(),
	)
	stop, err := s.bus.Subscribe(ctx, subs, deadletters.Keeper(s.pools["platform"]))
	if err != nil {
		return err
	}
	s.app.OnStop("consumers", func(ctx context.Context) error { stop(ctx); return nil })
	if err := errors.Join(s.seckill.Catalogue.Refresh(ctx), s.identity.Load(ctx), s.door.Load(ctx)); err != nil {
		return err
	}
	s.app.Go("workers", slices.Concat(
		s.identity.Workers(), s.seckill.Workers(), s.door.Workers(), s.inventory.Workers(),
		s.order.Workers(), s.payment.Workers(), s.notify.Workers(),
	)...)
	s.app.OnStop("sockets", s.notify.Stop)

	s.identity.Routes()
	for _, module := range []interface{ Routes(rt *httpx.Router) }{s.seckill, s.door, s.inventory, s.order, s.payment, s.notify} {
		module.Routes(s.identity.Router)
	}
	if err := s.watchOver(probes); err != nil {
		return err
	}
	return s.identity.Router.ServeDocs()
}

// watchOver starts the server's self-monitoring and its alarms; probes are the stack's.
func (s *server) watchOver(probes []alarm.Probe) error {
	pool := s.pools["platform"]
	parts := alarm.Parts{
		Listen: s.set.Addresses.Listen, Bus: s.bus,
		Redis: func(ctx context.Context) error { return s.redis.Ping(ctx).Err() },
	}
	if s.singleInstance {
		parts.StreamDir, parts.StreamBytes = s.natsDir, (s.set.Bus.GrantsMaxMiB+s.set.Bus.EventsMaxMiB)<<20
	}
	samples := slices.Concat(s.inventory.Samples(), seckill.Samples(s.pools["seckill"], s.inventory))
	probes = slices.Concat(probes, s.identity.Probes(), s.payment.Probes(), s.order.Probes(), []alarm.Probe{
		cli.ProxyProbe(s.identity.Router, s.log), s.seckill.Preheat.FencedProbe(), s.inventory.BooksProbe(), alarm.Sampled(alarm.SampleEvery, samples),
	})
	workers, err := alarm.Workers(pool, s.set.Alarms, parts, s.log, s.registry, probes...)
	if err != nil {
		return err
	}
	s.app.Go("watch", workers...)
	alarm.Routes(s.identity.Router, pool)
	deadletters.Routes(s.identity.Router, pool, s.bus)
	messages.Routes(s.identity.Router, pool, s.relay)
	proofs := runs.New(pool, s.checks(), s.log)
	proofs.Routes(s.identity.Router)
	s.app.Go("proof", proofs.Workers()...)
	return nil
}

// serve binds the addresses, builds the server, serves until ctx ends or a store
// of the stack cannot be started again, and shuts down in order within the stop
// timeout.
func (s *settings) serve(ctx context.Context, io cli.Streams, start cli.Stack, show func(cli.Parts) error) error {
	srv := s.server(s.Logs.Logger(io.Err, httpx.RequestID))
	ctx, srv.end = context.WithCancelCause(ctx)
	defer srv.end(nil)
	died, err := srv.up(ctx, start, show)
	if err == nil {
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, pg.ErrInstanceLocked) {
				err = cause
			}
		case err = <-died:
		}
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Stop.StopTimeout)
	defer cancel()
	return errors.Join(err, srv.app.Stop(stopCtx))
}

// up binds first, so that a port in use is reported before anything is started,
// and begins to answer last, when everything is ready.
func (s *server) up(ctx context.Context, start cli.Stack, show func(cli.Parts) error) (<-chan error, error) {
	bounds, sockets, err := s.set.Identity.Requests.Connections(httpx.OpenFiles(), "--max-sockets", s.set.Push.MaxSockets)
	if err != nil {
		return nil, err
	}
	bounds.Metrics, s.set.Push.MaxSockets, s.connections = s.registry, sockets, bounds.Total
	public, err := cli.Listen(ctx, s.app, "--listen", &s.set.Addresses.Listen, bounds, s.log)
	if err != nil {
		return nil, err
	}
	ops, err := cli.Listen(ctx, s.app, "--ops-listen", &s.set.Addresses.OpsListen, httpx.OpsConnections(), s.log)
	if err != nil {
		return nil, err
	}
	parts, err := start(ctx, s.app)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx, parts.Stores, parts.Key); err != nil {
		return nil, err
	}
	if err := s.start(ctx, parts.Probes); err != nil {
		return nil, err
	}
	s.app.OnStop("requests", public.Drain(s.set.Stop.DrainTimeout))
	s.app.OnStop("waiting logins", s.identity.Stop)
	s.app.OnStop("followed funnels", s.seckill.EndStreams)
	if err := show(cli.Parts{App: s.app, Router: s.identity.Router, Tokens: s.identity.Tokens, Log: s.log, Book: s.book, Prove: s.prove}); err != nil {
		return nil, err
	}
	s.app.OnStop("readiness", s.set.Stop.Notice)
	ops.Serve(httpx.Ops(ops.Host(), s.registry, s.app.Readiness))
	public.Serve(s.identity.Router)
	return parts.Died, nil
}
