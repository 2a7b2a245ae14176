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
	"stampede/payment/sandbox"
	"stampede/platform/alarm"
	"stampede/platform/app"
	"stampede/platform/auth"
	"stampede/platform/bench"
	"stampede/platform/bus"
	"stampede/platform/cli"
	"stampede/platform/clock"
	"stampede/platform/config"
	"stampede/platform/demo"
	"stampede/platform/embedded"
	"stampede/platform/entrance"
	"stampede/platform/httpx"
	"stampede/platform/humancheck"
	"stampede/platform/inbox"
	"stampede/platform/lineage"
	"stampede/platform/outbox"
	"stampede/platform/pg"
	"stampede/platform/proof"
	"stampede/platform/redisx"
	"stampede/platform/telemetry"
	"stampede/platform/telemetry/tracing"
	"stampede/seckill"
	"stampede/seckill/guard"
	"stampede/seckill/rush"
)

// version is set by the build with -ldflags "-X main.version=…".
var version = "dev"

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// commands is the command table.
type commands struct {
	Run       cli.Run          `cmd:"" help:"Start everything on this machine: Postgres, Redis and NATS as private parts, a demo sale, the server."`
	Serve     cli.Serve        `cmd:"" help:"Serve with your own Postgres and Redis."`
	Migrate   cli.Migrate      `cmd:"" help:"Bring the database to this version's schema."`
	Config    cli.Config       `cmd:"" help:"Print the effective settings of serve, secrets hidden."`
	Token     cli.Token        `cmd:"" help:"Mint access tokens with the signing key."`
	Rush      cli.Rush         `cmd:"" help:"Play shoppers against a running server and report."`
	Verify    cli.Verify       `cmd:"" help:"Prove the books; exits 1 naming each violation, 3 when it could not look."`
	Bench     cli.Bench        `cmd:"" help:"Measure each stage beside its bare floor on this machine, in some minutes."`
	Version   cli.PrintVersion `cmd:"" help:"Print the version."`
	BenchPart cli.BenchPart    `cmd:"" hidden:"" help:"A child that bench starts."`
}

// table is the command table with what its commands are made of.
func table() *commands {
	return &commands{
		Bench: cli.Bench{All: []bench.Stage{
			// Those without a server first, so that none runs beside them.
			inventory.DecisionStage(), rush.PublishStage(), order.WriterStage(),
			bench.Refusal(), bench.Paths(), bench.Whole(), notify.PushStage(),
		}},
		BenchPart: cli.BenchPart{Parts: notify.PushParts()},
	}
}

// run carries out one command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Main(ctx, table(), args, cli.Streams{Out: stdout, Err: stderr}, serve, proveStores, cli.Version(version))
}

// server is the wired process.
type server struct {
	end      context.CancelCauseFunc // ends the process in order, with a reason
	set      *config.Server
	log      *slog.Logger
	app      *app.App
	registry *prometheus.Registry
	trace    *tracing.Tracer // nil unless traces are on
	tokens   *auth.Tokens
	router   *httpx.Router

	alone   bool   // no other process publishes: the instance lock is ours and NATS is embedded
	natsDir string // where the embedded NATS keeps its streams

	pools     map[string]*pgxpool.Pool
	redis     redis.UniversalClient
	bus       *bus.Bus
	relay     *outbox.Relay
	clock     *clock.Server
	entrance  *entrance.Entrance
	inventory *inventory.Service
	order     *order.Service
	payment   *payment.Service
	seckill   *seckill.Service
	guard     *guard.Guard
	notify    *notify.Service
}

// prove makes every module's checks.
func (s *server) prove(ctx context.Context) []proof.Outcome {
	return proof.Run(ctx, slices.Concat(s.inventory.Checks(), seckill.Checks(s.pools["seckill"], s.inventory), s.order.Checks(), s.payment.Checks()))
}

// book is one item's account for the live page.
func (s *server) book(ctx context.Context, itemID int64) (demo.Books, error) {
	r, _, err := s.inventory.Book(ctx, itemID)
	return demo.Books{Total: r.Total, Remaining: r.Available, Held: r.Held, Sold: r.Sold, Difference: r.Difference}, err
}

// proveStores is verify: it reads the stores without serving, proves the books
// and holds them against what shoppers were told.
func proveStores(ctx context.Context, stores config.Stores, item int64, told []proof.Told) (found cli.Evidence, err error) {
	set, err := config.Defaults()
	if err != nil {
		return found, err
	}
	log := telemetry.Logger("error", "text", os.Stderr)
	s := &server{set: &set, log: log, app: app.New(log), registry: telemetry.Registry()}
	defer func() { err = errors.Join(err, s.app.Stop(context.WithoutCancel(ctx))) }()
	if err := s.openPools(ctx, stores); err != nil {
		return found, err
	}
	if err := s.openBooks(nil); err != nil {
		return found, err
	}
	found.Checks = s.prove(ctx)
	if told != nil {
		found.Checks = append(found.Checks, proof.Run(ctx, s.order.CheckClientLog(s.inventory, order.FromLog(told)))...)
	}
	rows, err := s.inventory.Books(ctx)
	if item != 0 {
		rows = slices.DeleteFunc(rows, func(r inventory.BookRow) bool { return r.ItemID != item })
	}
	found.Books, found.WriteBooks = append([]inventory.BookRow{}, rows...), func(out io.Writer) error {
		if item != 0 && len(rows) == 0 {
			_, err := fmt.Fprintf(out, "Item %d has no books: no item of that number was published.\n\n", item)
			return err
		}
		return inventory.WriteBooks(out, rows)
	}
	return found, err
}

// open connects to the stores and builds the modules; nothing runs yet. What it
// opened is closed by app.Stop, also when it fails half way.
func (s *server) open(ctx context.Context, stores config.Stores, key string) error {
	var err error
	if s.trace, err = tracing.Open(ctx, tracing.Config{Endpoint: s.set.TraceEndpoint, Share: s.set.TraceSample, Version: version, Log: s.log}); err != nil {
		return err
	}
	s.app.OnStop("traces", s.trace.Stop)
	if err := s.openStores(ctx, stores); err != nil {
		return err
	}
	s.natsDir = stores.NATSDir
	s.bus, err = bus.Open(ctx, bus.Config{
		URL: stores.NATSURL, StoreDir: s.natsDir, MaxGrantsBytes: s.set.GrantsMaxMiB << 20, MaxEventsBytes: s.set.EventsMaxMiB << 20,
		PublishDeadline: s.set.PublishDeadline, Log: s.log, Metrics: s.registry, Trace: s.trace,
	})
	if err != nil {
		return err
	}
	s.app.OnStop("bus", s.bus.Close)
	s.app.OnReady("nats", s.bus.Healthy)
	s.relay = outbox.New(s.pools["platform"], s.bus, s.log, s.registry)
	s.clock = clock.NewServer(s.redis)
	s.clock.Log = s.log
	s.registry.MustRegister(telemetry.NewPools(s.pools, s.redis), s.clock)
	if err := s.clock.Sample(ctx); err != nil {
		return fmt.Errorf("read the Redis server's time: %w", err)
	}
	s.entrance, err = entrance.New(s.set, entrance.Deps{
		DB: s.pools["account"], Redis: s.redis, Bus: s.bus, Clock: s.clock, Key: []byte(key), Alone: s.alone, Version: version,
		Log: s.log, Metrics: s.registry, Trace: s.trace,
	})
	if err != nil {
		return err
	}
	s.router, s.tokens = s.entrance.Router, s.entrance.Tokens
	var providers []provider.Provider
	if s.set.SandboxBank {
		bank, err := s.openBank(auth.Derive([]byte(key), "sandbox-bank"))
		if providers = append(providers, bank); err != nil {
			return err
		}
	}
	if err := s.openBooks(providers); err != nil {
		return err
	}
	return s.openDoors([]byte(key))
}

func (s *server) openStores(ctx context.Context, stores config.Stores) error {
	if _, _, err := pg.Migrate(ctx, stores.DatabaseURL); err != nil {
		return err
	}
	if err := s.openPools(ctx, stores); err != nil {
		return err
	}
	if err := redisx.Check(ctx, s.redis, func(w string) { s.log.WarnContext(ctx, "redis setting", "warning", w) }); err != nil {
		return err
	}
	if stores.NATSURL == "" {
		alone, err := pg.BeAlone(ctx, stores.DatabaseURL)
		if err != nil {
			return err
		}
		s.alone = true
		s.app.OnStop("instance lock", alone.Close)
		s.app.Go("instance lock watch", app.Worker{Name: "instance-lock", Run: alone.Keep(s.end)})
	}
	line, err := lineage.Open(ctx, s.pools["platform"], s.redis, s.log)
	if err == nil {
		s.app.Go("lineage", app.Worker{Name: "lineage", Run: line.Run})
	}
	return err
}

func (s *server) openPools(ctx context.Context, stores config.Stores) error {
	s.pools = map[string]*pgxpool.Pool{}
	for name, conns := range map[string]int32{
		"seckill": s.set.ConnsSeckill, "inventory": s.set.ConnsInventory, "order": s.set.ConnsOrder,
		"payment": s.set.ConnsPayment, "platform": s.set.ConnsPlatform, "account": s.set.ConnsAccount,
	} {
		pool, err := pg.Open(ctx, stores.DatabaseURL, name, conns)
		if err != nil {
			return err
		}
		s.pools[name] = pool
		s.app.OnStop("pool "+name, func(ctx context.Context) error { return pg.Close(ctx, pool) })
	}
	s.app.OnReady("postgres", s.pools["platform"].Ping)
	var err error
	if s.redis, err = redisx.Open(ctx, stores.RedisURL); err != nil {
		return err
	}
	s.app.OnStop("redis", func(context.Context) error { return s.redis.Close() })
	s.app.OnReady("redis", func(ctx context.Context) error { return s.redis.Ping(ctx).Err() })
	return nil
}

// openBooks builds the modules that keep the books. Without a bus, as verify
// has none, they only read.
func (s *server) openBooks(providers []provider.Provider) error {
	var err error
	stockCfg := inventory.DefaultConfig()
	stockCfg.PublishDeadline, stockCfg.Alone, stockCfg.SettleAfter = s.set.PublishDeadline, s.alone, s.set.SettleAfter
	s.inventory, err = inventory.New(stockCfg, inventory.Deps{
		DB: s.pools["inventory"], Redis: s.redis, Bus: s.bus, Holds: order.HoldReader{}, Log: s.log, Metrics: s.registry,
	})
	if err != nil {
		return err
	}
	orderCfg := order.DefaultConfig()
	orderCfg.CacheTTL = s.set.OrderCacheTTL
	orderDeps := order.Deps{
		DB: s.pools["order"], Redis: s.redis, Bus: s.bus, Stock: s.inventory, Outbox: s.relay, Log: s.log, Metrics: s.registry, Trace: s.trace,
	}
	if s.entrance != nil {
		orderDeps.Blocked = s.entrance.Blacklist.User
	}
	s.order, err = order.New(orderCfg, orderDeps)
	if err != nil {
		return err
	}
	s.inventory.AttachOrders(s.order)
	payCfg := payment.DefaultConfig()
	payCfg.ReturnURL = s.set.BaseURL() + "/"
	s.payment, err = payment.New(payCfg, payment.Deps{
		DB: s.pools["payment"], Orders: s.order, Outbox: s.relay, Providers: providers, BaseURL: s.set.BaseURL(), Log: s.log, Metrics: s.registry, Trace: s.trace,
	})
	return err
}

// openDoors builds the modules that shoppers meet.
func (s *server) openDoors(key []byte) error {
	saleCfg := seckill.DefaultConfig()
	saleCfg.PreheatLead, saleCfg.PreheatAtMidnight, saleCfg.TimeZone = s.set.PreheatLead, s.set.PreheatMidnight, s.set.TimeZone
	for _, p := range s.payment.Profiles() {
		saleCfg.ShortestPayWindow = max(saleCfg.ShortestPayWindow, p.MinWindow)
	}
	saleCfg.Rush.LaneCapacity, saleCfg.Rush.MaxWriterLag, saleCfg.Rush.PublishDeadline = s.set.LaneCapacity, s.set.WriterLagMax, s.set.PublishDeadline
	saleCfg.Rush.PreviousSigningKeys, saleCfg.Rush.PathLimits = s.set.PreviousKeys(), s.set.Paths()
	saleCfg.CanPay = len(s.payment.Profiles()) > 0
	saleCfg.Verifier = s.entrance.Human.Offers(humancheck.Verifier)
	deps := seckill.Deps{
		DB: s.pools["seckill"], Redis: s.redis, Bus: s.bus, Stock: s.inventory, Outbox: s.relay, Clock: s.clock,
		Log: s.log, Metrics: s.registry, Orders: s.order, SigningKey: key, Trace: s.trace, Repeats: s.set.Repeats(),
	}
	var err error
	if s.seckill, err = seckill.New(saleCfg, deps); err != nil {
		return err
	}
	if s.guard, err = guard.New(s.set, s.seckill, s.entrance, s.order, deps); err != nil {
		return err
	}
	pushCfg := notify.DefaultConfig()
	pushCfg.MaxSockets, pushCfg.MaxPerUser, pushCfg.OriginPatterns = s.set.MaxSockets, s.set.MaxUserSockets, s.set.OriginPatterns
	s.notify, err = notify.New(pushCfg, notify.Deps{Tokens: s.tokens, Log: s.log, Metrics: s.registry})
	return err
}

// openBank serves the sandbox bank and returns the shop's way to it.
func (s *server) openBank(secret []byte) (provider.Provider, error) {
	cfg := sandbox.DefaultConfig()
	cfg.Merchant, cfg.Secret, cfg.PublicURL = "stampede", secret, s.set.BaseURL()
	bank, err := sandbox.New(cfg, sandbox.Deps{DB: s.pools["payment"], Clock: s.clock, Log: s.log, Metrics: s.registry})
	if err != nil {
		return nil, err
	}
	bank.Routes(s.router.Mux)
	s.app.Go("sandbox bank", bank.Workers()...)
	client := sandbox.DefaultClientConfig()
	client.Merchant, client.Secret, client.BankURL = cfg.Merchant, secret, s.set.LocalURL()
	return sandbox.NewClient(client, s.clock)
}

// start sets the modules to work. What is registered last stops first: HTTP
// drains, sockets close, lanes finish, consumers and workers end, the relay
// sends what is left; app.Stop then closes bus, Redis and pools.
func (s *server) start(ctx context.Context) error {
	s.app.Go("clock", app.Worker{Name: "clock", Run: s.clock.Run})
	s.app.Go("relay", app.Worker{Name: "outbox-relay", Run: s.relay.Run},
		app.Worker{Name: "housekeeping", Run: outbox.NewHousekeeper(s.pools["platform"], s.log).Keep(s.set.KeepRecords).Run})
	subs := slices.Concat(s.seckill.Subscriptions(), s.guard.Subscriptions(), s.order.Subscriptions(), s.inventory.Subscriptions(), s.notify.Subscriptions())
	workers := slices.Concat(s.entrance.Workers(), s.seckill.Workers(), s.guard.Workers(), s.inventory.Workers(), s.order.Workers(), s.payment.Workers(), s.notify.Workers())
	workers = append(workers, app.Worker{Name: "order-expiry", Run: order.NewExpiry(s.order, s.payment).Run})
	stop, err := s.bus.Subscribe(ctx, subs, inbox.DeadLetters(s.pools["platform"]))
	if err != nil {
		return err
	}
	s.app.OnStop("consumers", func(ctx context.Context) error { stop(ctx); return nil })
	if err := errors.Join(s.seckill.Catalogue.Refresh(ctx), s.entrance.Load(ctx), s.guard.Load(ctx)); err != nil {
		return err
	}
	s.app.Go("workers", workers...)
	s.app.OnStop("sockets", s.notify.Stop)

	s.entrance.Routes()
	s.seckill.Routes(s.router)
	s.guard.Routes(s.router)
	s.order.Routes(s.router, s.seckill.Rush, s.payment, s.seckill)
	s.payment.Routes(s.router)
	s.notify.Routes(s.router)
	if err := s.watchOver(); err != nil {
		return err
	}
	return s.router.ServeDocs()
}

// watchOver starts what looks after the server itself and calls people.
func (s *server) watchOver() error {
	pool := s.pools["platform"]
	parts := alarm.Parts{Listen: s.set.Listen, Bus: s.bus, Redis: func(ctx context.Context) error { return s.redis.Ping(ctx).Err() }}
	if s.alone {
		parts.StreamDir, parts.StreamBytes = s.natsDir, (s.set.GrantsMaxMiB+s.set.EventsMaxMiB)<<20
	}
	samples := slices.Concat(s.inventory.Samples(), seckill.Checks(s.pools["seckill"], s.inventory))
	workers, err := alarm.Workers(pool, alarm.Webhook{URL: s.set.AlarmWebhookURL, Secret: s.set.AlarmWebhookSecret}, parts, s.log, s.registry,
		outbox.Behind(pool), s.seckill.Rush.FencedProbe(), alarm.Sampled(alarm.SampleEvery, samples))
	if err != nil {
		return err
	}
	s.app.Go("watch", workers...)
	alarm.Routes(s.router, pool)
	inbox.Routes(s.router, pool, s.bus)
	return nil
}

// serve binds the addresses, builds the server, serves until ctx ends or a part
// of the stack dies, and stops in order within the stop time-out.
func serve(ctx context.Context, io cli.Streams, set *config.Server, start cli.Stack, show func(cli.Parts) error) error {
	log := telemetry.Logger(set.LogLevel, set.LogFormat, io.Err)
	s := &server{set: set, log: log, app: app.New(log), registry: telemetry.Registry()}
	ctx, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)
	died, err := s.up(ctx, start, show)
	if err == nil {
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, pg.ErrNotAlone) {
				err = cause
			}
		case err = <-died:
		}
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), set.StopTimeout)
	defer cancel()
	return errors.Join(err, s.app.Stop(stopCtx))
}

// up binds first, so that a taken port is told before anything was started, and
// answers last, when everything is there.
func (s *server) up(ctx context.Context, start cli.Stack, show func(cli.Parts) error) (<-chan error, error) {
	public, err := httpx.Listen(ctx, s.set.Listen, s.log)
	if err != nil {
		return nil, embedded.PortError("--listen", s.set.Listen, err)
	}
	s.app.OnStop("public address", public.Shutdown)
	ops, err := httpx.Listen(ctx, s.set.OpsListen, s.log)
	if err != nil {
		return nil, embedded.PortError("--ops-listen", s.set.OpsListen, err)
	}
	s.app.OnStop("ops address", ops.Shutdown)
	s.set.Listen, s.set.OpsListen = public.Addr(), ops.Addr() // port 0 has become a real one
	stores, key, died, err := start(ctx, s.app)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx, stores, key); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	s.app.OnStop("requests", func(ctx context.Context) error {
		drain, cancel := context.WithTimeout(ctx, s.set.DrainTimeout)
		defer cancel()
		return public.Shutdown(drain)
	})
	s.app.OnStop("waiting logins", s.entrance.Stop)
	if err := show(cli.Parts{App: s.app, Router: s.router, Tokens: s.tokens, Log: s.log, Book: s.book, Prove: s.prove}); err != nil {
		return nil, err
	}
	ops.Serve(httpx.Ops(s.registry, s.app.Readiness))
	public.Serve(s.router)
	return died, nil
}
