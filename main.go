// Stampede is a flash-sale system: one process that shoppers reach over HTTP and
// WebSocket, next to Postgres and Redis. This file is the command table and the
// wiring; what a command does lives in the modules and in platform.
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/inventory"
	"stampede/inventory/stockoffice"
	"stampede/notify"
	"stampede/notify/message"
	"stampede/notify/notifyoffice"
	"stampede/notify/webhook"
	"stampede/order"
	"stampede/order/desk"
	"stampede/order/orderoffice"
	"stampede/order/points"
	"stampede/payment"
	"stampede/payment/paymentoffice"
	"stampede/payment/provider"
	"stampede/payment/providers"
	"stampede/payment/refund"
	"stampede/payment/statement"
	"stampede/platform/base/app"
	"stampede/platform/base/telemetry"
	"stampede/platform/base/tracing"
	"stampede/platform/base/tracing/export"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/mail"
	"stampede/platform/edge/office"
	"stampede/platform/identity"
	"stampede/platform/identity/humancheck"
	"stampede/platform/identity/peopleoffice"
	"stampede/platform/store"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/backups"
	"stampede/platform/watch/deadletters"
	"stampede/platform/watch/instances"
	"stampede/platform/watch/proof"
	"stampede/platform/watch/tally"
	"stampede/platform/watch/watchoffice"
	"stampede/platform/workshop/cli"
	"stampede/platform/workshop/quickstart"
	"stampede/seckill"
	"stampede/seckill/catalogue"
	"stampede/seckill/door"
	"stampede/seckill/plan"
	"stampede/seckill/queue"
	"stampede/seckill/rush"
	"stampede/seckill/saleoffice"
	"stampede/seckill/shop"
)

// release is this program's version, defined only here: a test checks
// CHANGELOG.md and the READMEs against it, and a release checks its tag.
const release = "v0.10.0"

// version is the release, with the commit if the go command built it in a repository.
var version = cli.Built(release)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the settings of run and serve, each declared by the package that
// uses it. The groups are the headings of --help.
type settings struct {
	cli.Base `embed:""`
	Shop     shop.Settings      `embed:"" group:"The shop:"`
	Trace    export.Settings    `embed:"" group:"Logs and traces:"`
	Sale     plan.Settings      `embed:"" group:"Sales:"`
	Rush     rush.Settings      `embed:"" group:"Sales:"`
	Bus      bus.Settings       `embed:"" group:"Sales:"`
	Queue    queue.Settings     `embed:"" group:"Sales:"`
	Order    order.Settings     `embed:"" group:"Sales:"`
	Stock    inventory.Settings `embed:"" group:"Sales:"`
	Push     notify.Settings    `embed:"" group:"WebSockets:"`
	Webhooks webhook.Settings   `embed:"" group:"Webhooks:"`
	Messages message.Settings   `embed:"" group:"SMS:"`
	Postgres pg.Settings        `embed:"" group:"Postgres connections:"`
	Records  outbox.Settings    `embed:"" group:"Disk and records:"`
	Alarms   alarm.Settings     `embed:"" group:"Alarms:"`
	Mail     mail.Settings      `embed:"" group:"E-mail:"`
	Backups  backups.Settings   `embed:"" group:"Backups:"`
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
	return errors.Join(
		err, s.Identity.Human.CheckPages(s.Addresses.PublicURL), s.Identity.SMS.CheckShop(s.Shop.ShopName),
	)
}

// practice sets the additions of run: its shop has no contract with a payment
// provider, and none with an SMS gateway unless one is configured.
func (s *settings) practice() {
	s.Shop.Demo = true
	s.Pay.Sandbox.SandboxBank, s.Identity.Accounts.AdminWithoutTOTP = true, true
	s.Identity.SMS.SandboxSMS = s.Identity.SMS.SandboxSMS || !s.Identity.SMS.Sends()
}

// poolWeights divide the connections; their sum is the default budget. Payments
// must answer however busy the rush is; one of the accounts' connections is for
// revocations.
var poolWeights = map[string]int32{
	"seckill": 6, "inventory": 4, "order": 10, "payment": 8, "platform": 6, "account": 5,
}

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
		Statement: func(
			ctx context.Context, server, token, date, provider string, apply bool,
		) (cli.Differences, error) {
			return statement.Ask(ctx, server, token, date, provider, apply)
		},
	}
}

// server is the wired process.
type server struct {
	end         context.CancelCauseFunc // shuts the process down, with a reason
	set         *settings
	log         *slog.Logger
	app         *app.App
	registry    *prometheus.Registry
	trace       *tracing.Tracer // nil unless traces are on
	connections int             // that this instance holds at most

	*store.Stores
	watch     *watch.Watch
	tally     *tally.Board // nil where nothing is served
	identity  *identity.Service
	mail      mail.Sender // nil without a mail server; bulkMail sends messages to many
	bulkMail  mail.Sender
	sale      seckill.Config
	catalogue *catalogue.Catalogue
	plan      *seckill.Plan
	grants    *queue.Queue // nil where nothing is served
	inventory *inventory.Service
	places    *rush.Places
	order     *order.Service
	payment   *payment.Service
	desk      *desk.Service
	points    *points.Service
	seckill   *seckill.Service
	door      *door.Service
	notify    *notify.Service
	webhooks  *webhook.Service
	messages  *message.Service
}

// server returns a server with these settings; nothing of it is open yet.
func (s *settings) server(log *slog.Logger) *server {
	return &server{set: s, log: log, app: app.New(log), registry: telemetry.Registry()}
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
	requests := s.set.Identity.Requests
	bounds, sockets, err := requests.Connections(httpx.OpenFiles(), "--max-sockets", s.set.Push.MaxSockets)
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
	s.app.OnStop("idle connections", s.identity.Stop)
	s.app.OnStop("followed funnels", s.seckill.Funnel.EndStreams)
	s.app.OnStop("streams of orders", s.notify.EndStreams)
	s.app.OnStop("readers of events", s.webhooks.EndWaits)
	if err := show(cli.Parts{
		App: s.app, Router: s.identity.Router, Tokens: s.identity.Tokens, Log: s.log, Zone: s.set.Sale.Zone(),
		Books: s.books, Prove: s.prove, Invite: s.identity.Staff.InviteFirstAdmin,
	}); err != nil {
		return nil, err
	}
	s.app.OnStop("readiness", s.set.Stop.Notice)
	ops.Serve(httpx.Ops(ops.Host(), s.registry, s.app.Readiness))
	public.Serve(s.identity.Router)
	return parts.Died, nil
}

// open connects to the stores and builds the modules; nothing runs yet.
// app.Stop closes what it opened, even if it fails halfway.
func (s *server) open(ctx context.Context, stores cli.Stores, key string) error {
	var err error
	s.trace, err = export.Open(ctx, export.Config{Settings: s.set.Trace, Version: version, Log: s.log})
	if err != nil {
		return err
	}
	s.app.OnStop("traces", s.trace.Stop)
	s.Stores, err = store.Open(ctx, s.app, s.set.stores(stores), store.Deps{
		Log: s.log, Metrics: s.registry, Trace: s.trace, End: s.end,
		WentBack: alarm.DatabaseWentBack.Raise, Refused: alarm.OutboxRefused.Raise, Failed: alarm.OutboxFailed.Raise,
	})
	if err != nil {
		return err
	}
	s.watch = watch.New(s.Stores, s.log, s.registry)
	if err := s.watch.Backups(s.set.Backups, backups.Deps{
		DatabaseURL: stores.DatabaseURL, SigningKey: key, Version: version, Zone: s.set.Sale.Zone(),
		Tool:    cli.PostgresTool,
		Selling: func(from, until time.Time) bool { return s.catalogue.Selling(from, until) },
	}); err != nil {
		return err
	}
	if err := s.watch.Join(ctx, s.app, instances.Config{
		Name: alarm.Instance(s.set.Addresses.Listen), Key: []byte(key), Previous: s.set.Keys.Previous(),
		Clients: s.connections, Connections: int(s.set.Postgres.MaxConns) + 1, // and the lock's
	}); err != nil {
		return err
	}
	s.tally = s.watch.Tally
	if err := s.openMail(); err != nil {
		return err
	}
	s.identity, err = identity.New(s.set.Identity, identity.Deps{
		Addresses: s.set.Addresses, ShopName: s.set.Shop.ShopName, Keep: s.set.Records.KeepRecords,
		Key: []byte(key), PreviousKeys: s.set.Keys.Previous(), SingleInstance: s.SingleInstance(),
		DB: s.Pools["account"], Pulse: s.Pulse, Redis: s.Redis, Bus: s.Bus, Clock: s.Clock, Log: s.log,
		Metrics: s.registry, Trace: s.trace,
	})
	if err != nil {
		return err
	}
	ways, err := providers.Open(s.set.Pay, providers.Deps{
		Secret:    auth.Derive([]byte(key), "sandbox-bank"),
		PublicURL: s.set.Addresses.BaseURL(), LocalURL: s.set.Addresses.LocalURL(),
		DB: s.Pools["payment"], Pulse: s.Pulse, Clock: s.Clock, Log: s.log, Metrics: s.registry,
	})
	if err != nil {
		return err
	}
	ways.Routes(s.identity.Router.Mux)
	s.app.Go("payment companies for practice", ways.Workers()...)
	if err := s.openBooks(ways.Providers); err != nil {
		return err
	}
	return s.openDoors([]byte(key)) //nolint:contextcheck // the office works in its requests' contexts
}

// openBooks builds the modules that keep the books. Without a bus, as in verify
// and reconcile, they serve nothing.
func (s *server) openBooks(providers []provider.Provider) error {
	var err error
	rushCfg := rush.NewConfig(s.set.Rush, s.set.Bus.PublishDeadline, s.set.Keys.Previous()...)
	rushCfg.RushURL = s.set.Addresses.RushURL
	s.sale = seckill.NewConfig(s.set.Sale, rushCfg)
	published := plan.NewPublished(s.sale.Config, s.Pools["seckill"])
	if s.catalogue, err = catalogue.New(published, s.log, s.registry); err != nil {
		return err
	}
	stockCfg := inventory.NewConfig(s.set.Stock, s.set.Bus.PublishDeadline)
	stockCfg.SingleInstance = s.SingleInstance()
	orders := order.Reader{DB: s.Pools["order"]}
	stockDeps := inventory.Deps{
		DB: s.Pools["inventory"], Redis: s.Redis, Holds: orders, Books: orders, Log: s.log, Metrics: s.registry,
	}
	if s.Bus != nil {
		s.grants = queue.New(s.Bus, s.catalogue, s.log, s.registry)
		s.app.OnReady("orders", s.grants.Moving)
		stockDeps.Bus, stockDeps.Grants = s.Bus, s.grants
	}
	s.inventory = inventory.New(stockCfg, stockDeps)
	s.places = rush.NewPlaces(s.sale.Rush, s.catalogue, s.inventory, s.grants, s.Clock)
	s.plan = seckill.NewPlan(s.Pools["seckill"])
	orderDeps := order.Deps{
		DB: s.Pools["order"], Redis: s.Redis, Bus: s.Bus, Grants: s.grants,
		Stock: s.inventory, Queue: s.places, Plan: s.plan,
		Outbox: s.Relay, Log: s.log, Metrics: s.registry, Trace: s.trace, Tally: s.tally,
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
	payCfg.ReturnURL, payCfg.Zone = cmp.Or(s.set.Addresses.OrderURL, s.set.Addresses.BaseURL()+"/"), s.set.Sale.Zone()
	payDeps := payment.Deps{
		DB: s.Pools["payment"], Standby: s.Standby, Pulse: s.Pulse, Orders: s.order, Plan: s.plan,
		Providers: providers, Practice: s.set.Pay.Practice(), BaseURL: s.set.Addresses.BaseURL(),
		Log: s.log, Metrics: s.registry, Trace: s.trace, Tally: s.tally,
	}
	if s.identity != nil {
		payDeps.OpenID, payDeps.MakerOf = s.identity.Accounts.OpenIDOf, s.identity.Keys.MakerOf
	}
	if s.payment, err = payment.New(payCfg, payDeps); err != nil {
		return err
	}
	s.points = points.New(points.Deps{
		DB: s.Pools["order"], Plan: s.plan, Returned: s.payment.Payments.Returned, Enter: s.order.EnterReading,
	})
	return nil
}

// openDoors builds the modules that shoppers interact with.
func (s *server) openDoors(key []byte) error {
	window, canPay := s.payment.Window()
	s.sale.ShortestPayWindow, s.sale.CanPay = max(s.sale.ShortestPayWindow, window), canPay
	s.sale.Verifier = s.identity.Human.Offers(humancheck.Verifier)
	s.door = door.New(door.Config{
		Settings: s.set.Door, Keep: s.set.Records.KeepRecords, PathLead: s.sale.Rush.PathLead,
	}, door.Deps{
		Catalogue: s.catalogue, DB: s.Pools["seckill"], Pulse: s.Pulse, Bus: s.Bus, Clock: s.Clock, Orders: s.order,
		Human: s.identity.Human, Limits: s.identity.Limits, Blacklist: s.identity.Blacklist, Locks: s.Locks,
		SigningKey: key, Log: s.log, Metrics: s.registry,
	})
	var err error
	s.seckill, err = seckill.New(s.sale, seckill.Deps{
		Catalogue: s.catalogue, Places: s.places, Grants: s.grants, Stock: s.inventory, Orders: s.order,
		Admit: s.door.Admit, Refuses: door.Refuses, Paused: s.door.Paused,
		Servers: slices.Concat(
			s.payment.Preflight(), s.inventory.Preflight(),
			s.watch.Preflight(s.set.Alarms.Anywhere()),
		),
		DB: s.Pools["seckill"], Standby: s.Standby, Pulse: s.Pulse, Redis: s.Redis, Bus: s.Bus, Outbox: s.Relay,
		Clock: s.Clock, SigningKey: key, Log: s.log, Metrics: s.registry, Trace: s.trace, Tally: s.tally,
	})
	if err != nil {
		return err
	}
	s.app.OnReady("items", s.seckill.Preheat.Deciding)
	s.desk = desk.New(desk.Deps{
		DB: s.Pools["order"], Standby: s.Standby, Orders: s.order,
		Payments: s.payment.Payments, Refunds: s.payment.Refunds,
		Cancel: s.payment.Cancel, CancelRefuses: payment.CancelRefuses,
		Plan: s.plan, Accounts: s.identity.Staff, Outbox: s.Relay, Zone: s.set.Sale.Zone(), Log: s.log,
	})
	s.notify = notify.New(notify.NewConfig(s.set.Push, s.set.Addresses.AllowedOrigins...), notify.Deps{
		Tokens: s.identity.Tokens, Broadcasts: s.Bus, Announced: s.order.BeforePush, Changed: s.order.ChangedOwn,
		Log: s.log, Metrics: s.registry, Tally: s.tally,
	})
	s.webhooks = webhook.New(s.set.Webhooks, webhook.Deps{
		DB: s.Pools["platform"], Pulse: s.Pulse, SigningKeys: append([][]byte{key}, s.set.Keys.Previous()...),
		Log: s.log, Metrics: s.registry,
	})
	s.messages = message.New(s.set.Messages, message.Deps{
		DB: s.Pools["platform"], Pulse: s.Pulse,
		Sender: s.identity.BulkSMS, Reach: s.identity.Accounts.Config.SMSReach, Mail: s.bulkMail,
		Contacts: s.identity.Accounts.ContactsOf, WeChat: s.identity.WeChat, OpenIDs: s.identity.Accounts.OpenIDsOf,
		Orders: s.order, Sale: s.catalogue, Reserved: s.plan, Signature: s.identity.Accounts.Config.SMSSignature,
		BaseURL: s.set.Addresses.BaseURL(), Zone: s.set.Sale.Zone(), Keep: s.set.Records.KeepRecords,
		SigningKeys: append([][]byte{key}, s.set.Keys.Previous()...), Log: s.log, Metrics: s.registry,
	})
	return s.openPages(key)
}

// openPages adds the shop, and the back office with the modules' pages in the order of its menu.
func (s *server) openPages(key []byte) error {
	if err := shop.Pages(s.identity.Router, shop.Config{
		Settings: s.set.Shop, BaseURL: s.set.Addresses.BaseURL(), LoginURL: s.set.Identity.Exchange.LoginURL,
		Zone: s.set.Sale.Zone(), Item: s.seckill.Browse.ItemDocument, Codes: s.set.Identity.SMS.Sends(),
		Widget: s.identity.Human.ThirdParty(),
	}); err != nil {
		return err
	}
	return office.Open(s.identity.Router, office.Deps{
		Tokens: s.identity.Tokens, SigningKeys: append([][]byte{key}, s.set.Keys.Previous()...),
		Zone: s.set.Sale.Zone(), PublicURL: s.set.Addresses.PublicURL, ShopName: s.set.Shop.ShopName, Log: s.log,
	},
		orderoffice.Section(), saleoffice.Section(), paymentoffice.Section(),
		watchoffice.Section(), stockoffice.Section(), peopleoffice.Section(), notifyoffice.Section(),
	)
}

// start starts the modules. The last one registered stops first: HTTP drains,
// sockets close, lanes finish, consumers and workers end, the relay sends the
// remaining events; app.Stop then closes bus, Redis and pools.
func (s *server) start(ctx context.Context, probes []alarm.Probe) error {
	s.app.Go("clock", app.Worker{Name: "clock", Run: s.Clock.Run})
	s.app.Go("pulse", s.Pulse.Worker())
	s.app.Go("tally", s.tally.Workers()...)
	s.app.Go("relay", s.Relay.Workers(s.set.Records.KeepRecords)...)
	subs := slices.Concat(
		s.seckill.Subscriptions(), s.door.Subscriptions(), s.order.Subscriptions(),
		s.inventory.Subscriptions(), s.notify.Subscriptions(), s.messages.Subscriptions(),
		s.points.Subscriptions(),
	)
	stop, err := s.Bus.Subscribe(ctx, subs, deadletters.Keeper(s.Pools["platform"]))
	if err != nil {
		return err
	}
	s.app.OnStop("consumers", func(ctx context.Context) error { stop(ctx); return nil })
	if err := errors.Join(s.seckill.Catalogue.Refresh(ctx), s.identity.Load(ctx), s.door.Load(ctx)); err != nil {
		return err
	}
	s.app.Go("workers", slices.Concat(
		s.identity.Workers(), s.seckill.Workers(), s.door.Workers(), s.inventory.Workers(),
		s.order.Workers(), s.payment.Workers(), s.notify.Workers(), s.webhooks.Workers(), s.messages.Workers(),
	)...)
	s.app.OnStop("sockets", s.notify.Stop)

	s.identity.Routes(s.order.Forget, s.payment.Forget, s.messages.Forget)
	for _, module := range []interface{ Routes(rt *httpx.Router) }{
		s.seckill, s.door, s.inventory, s.order, s.payment, s.desk, s.points, s.notify, s.webhooks, s.messages,
	} {
		module.Routes(s.identity.Router)
	}
	if err := s.watchOver(probes); err != nil {
		return err
	}
	quickstart.Pages(s.identity.Router, s.set.Addresses.BaseURL())
	return s.identity.Router.ServeDocs()
}

// openMail opens the senders of e-mails, if there is a mail server. Messages to many have
// connections and a breaker of their own, so that no alarm waits behind them.
func (s *server) openMail() error {
	if !s.set.Mail.Sends() {
		return nil
	}
	for _, sender := range []*mail.Sender{&s.mail, &s.bulkMail} {
		c, err := mail.New(s.set.Mail, mail.Deps{Log: s.log, Metrics: s.registry})
		if err != nil {
			return err
		}
		s.app.OnStop("e-mail", c.Stop)
		*sender = c
	}
	return nil
}

// watchOver starts the server's self-monitoring and its alarms; probes are the stack's.
func (s *server) watchOver(probes []alarm.Probe) error {
	samples := slices.Concat(s.inventory.Samples(), plan.Samples(s.Pools["seckill"], s.inventory))
	alarms, err := alarm.NewNotifier(s.Pools["platform"], s.set.Alarms, alarm.Deps{
		Mail: s.mail, SMS: s.identity.SMS, Zone: s.set.Sale.Zone(), BaseURL: s.set.Addresses.BaseURL(),
		Shop: cmp.Or(s.set.Identity.SMS.SMSSignature, s.set.Shop.ShopName), Log: s.log, Metrics: s.registry,
	})
	if err != nil {
		return err
	}
	workers, err := s.watch.Open(watch.Config{
		Alarms: alarms, Listen: s.set.Addresses.Listen,
		StreamBytes: (s.set.Queue.GrantsMaxMiB + s.set.Bus.EventsMaxMiB) << 20,
		Probes: slices.Concat(
			probes, s.identity.Probes(), s.payment.Probes(), s.order.Probes(), s.desk.Probes(), s.webhooks.Probes(),
			s.messages.Probes(),
			[]alarm.Probe{
				s.seckill.Preheat.FencedProbe(), s.inventory.BooksProbe(), alarm.Sampled(alarm.SampleEvery, samples),
			},
		),
		Checks: s.checks(),
	}, s.identity.Router)
	if err != nil {
		return err
	}
	s.app.Go("watch", workers...)
	return nil
}

// stores is what a process wants of the stores at these addresses.
func (s *settings) stores(at cli.Stores) store.Config {
	return store.Config{
		Addresses: store.Addresses(at), Postgres: s.Postgres, Bus: s.Bus, Queues: []bus.QueueConfig{s.Queue.Config()},
		Records: s.Records, Weights: poolWeights, RedisKeys: redisKeys,
	}
}

// checks are every module's.
func (s *server) checks() []proof.Check {
	sales := plan.Checks(s.Pools["seckill"], s.inventory)
	checks := slices.Concat(s.inventory.Checks(), sales, s.order.Checks(), s.payment.Checks())
	return append(checks, s.points.Check())
}

// prove runs every module's checks.
func (s *server) prove(ctx context.Context) []proof.Outcome { return proof.Run(ctx, s.checks()) }

// books is one item's account for the demo's page.
func (s *server) books(ctx context.Context, itemID int64) (any, error) {
	row, _, err := s.inventory.Book(ctx, itemID)
	return row, err
}

// proveStores is verify: it reads the stores without serving, proves the books
// and checks them against the client log.
func (s *settings) proveStores(
	ctx context.Context, stores cli.Stores, item int64, told []proof.ClientRecord,
) (found cli.Evidence, err error) {
	err = s.onStores(ctx, stores, func(srv *server) (err error) {
		found.Checks = srv.prove(ctx)
		if told != nil {
			client := srv.order.CheckClientLog(srv.inventory, told)
			found.Checks = append(found.Checks, proof.Run(ctx, client)...)
			slices.SortStableFunc(found.Checks, func(a, b proof.Outcome) int { return strings.Compare(a.ID, b.ID) })
		}
		found.Books, found.WriteBooks, err = srv.inventory.PrintableBooks(ctx, item)
		return err
	})
	return found, err
}

// reconcile compares Redis with the books without serving.
func (s *settings) reconcile(
	ctx context.Context, stores cli.Stores, item int64, repair bool,
) (found cli.Differences, err error) {
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
	if srv.Stores, err = store.OpenBooks(ctx, srv.app, s.stores(stores)); err != nil {
		return err
	}
	if err := srv.openBooks(nil); err != nil {
		return err
	}
	return work(srv)
}
