// Package identity wires the layers that a request passes before it reaches a
// module: the router, tokens, limits, human checks, revocations, accounts, QR logins
// and the blacklist. Each is a separate package that knows the others only through
// the dependencies of its New; they are connected here.
//
// # Order
//
// New reads nothing. Load reads the revocations and the blacklist; without it an
// instance would admit, for half a second, users whom the other instances keep out.
// Call it before serving. Stop drops idle connections to the parts' providers.
package identity

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/tracing"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/edge/sms"
	"stampede/platform/edge/sms/aliyun"
	"stampede/platform/edge/sms/sandbox"
	"stampede/platform/edge/sms/tencent"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/code"
	"stampede/platform/identity/account/credential"
	"stampede/platform/identity/account/exchange"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/qrlogin"
	"stampede/platform/identity/account/staff"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/identity/blacklist"
	"stampede/platform/identity/humancheck"
	"stampede/platform/identity/keys"
	"stampede/platform/identity/revoke"
	"stampede/platform/identity/wechatmsg"
	"stampede/platform/store/bus"
	"stampede/platform/store/pulse"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/audit"
)

// Settings are the settings of the parts.
type Settings struct {
	Accounts  account.Settings    `embed:"" group:"Accounts and logins:"`
	SMS       sms.Settings        `embed:"" group:"SMS:"`
	WeChat    wechat.Settings     `embed:"" group:"WeChat:"`
	Exchange  exchange.Settings   `embed:"" group:"Own users:"`
	Human     humancheck.Settings `embed:"" group:"Human checks:"`
	Requests  httpx.Settings      `embed:"" group:"Limits and proxies:"`
	Blacklist blacklist.Settings  `embed:"" group:"Blacklist and risk rules:"`
}

// Check validates rules that span several parts.
func (s Settings) Check() error {
	var err error
	if s.SMS.Check() == nil { // else the mistake is reported with the SMS settings
		_, err = account.NewConfig(s.Accounts, s.SMS, nil)
	}
	return err
}

// Deps are the parts' dependencies; all but Trace are required.
type Deps struct {
	Addresses    httpx.Addresses
	ShopName     string
	Keep         time.Duration // of records
	PreviousKeys [][]byte      // signing keys that are accepted beside Key

	DB             *pgxpool.Pool // the accounts' budget of connections
	Pulse          *pulse.Pulse  // what the loops wait for; nil for none
	Redis          redis.UniversalClient
	Bus            *bus.Bus
	Clock          clock.Clock
	Key            []byte // the process's signing key
	SingleInstance bool   // no other instance works on these stores
	Log            *slog.Logger
	Metrics        prometheus.Registerer
	Trace          *tracing.Tracer // nil is off
}

// Service is the parts, wired.
type Service struct {
	Tokens    *auth.Tokens
	Router    *httpx.Router
	Limits    *ratelimit.Limiter
	Human     *humancheck.Service
	Accounts  *account.Store
	Staff     *staff.Service
	Blacklist *blacklist.Service
	Keys      *keys.Service
	SMS       sms.Sender // nil unless the shop sends SMS
	// BulkSMS is SMS with connections and a breaker of its own, so that no login waits behind messages to many.
	BulkSMS sms.Sender
	WeChat  *wechatmsg.Client // nil unless the shop has an app

	revoked     *revoke.Service
	codes       *code.Service
	logins      *login.Service
	credentials *credential.Service
	exchange    *exchange.Service
	qr          *qrlogin.Service
	sandbox     *sandbox.Gateway // nil unless the sandbox is on
	hangUp      []func()         // the clients' idle connections
}

// New builds the parts from the process's settings.
func New(set Settings, deps Deps) (*Service, error) {
	set.SMS.SMSSignature = cmp.Or(set.SMS.SMSSignature, deps.ShopName)
	proxies, err := set.Requests.Proxies()
	if err != nil {
		return nil, err
	}
	e := &Service{
		Limits: ratelimit.New(deps.Redis, deps.Log, deps.Metrics),
		revoked: revoke.New(revoke.Deps{
			DB: deps.DB, Pulse: deps.Pulse, Log: deps.Log, Metrics: deps.Metrics, Clock: deps.Clock,
		}),
	}
	e.Limits.SingleInstance = deps.SingleInstance
	cfg, err := account.NewConfig(set.Accounts, set.SMS, deps.Key, deps.PreviousKeys...)
	if err != nil {
		return nil, err
	}
	cfg.LoginURL = set.Exchange.LoginURL
	cfg.OverTLS = strings.HasPrefix(deps.Addresses.PublicURL, "https://")
	e.Accounts = &account.Store{
		DB: deps.DB, Pulse: deps.Pulse, Revoke: e.revoked, SendsSMS: set.SMS.Sends(), Config: cfg, Log: deps.Log, Metrics: deps.Metrics,
	}
	e.Tokens = auth.NewTokens(deps.Key, deps.Clock.Now, auth.Previous(deps.PreviousKeys...), auth.RevokedBy(e.revoked))
	signing := append([][]byte{deps.Key}, deps.PreviousKeys...)
	e.Keys = keys.New(keys.Deps{DB: deps.DB, Pulse: deps.Pulse, Bus: deps.Bus, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics})
	e.Router = httpx.Options{
		Trace: deps.Trace, PublicURL: deps.Addresses.PublicURL, Origins: deps.Addresses.Origins(), RushURL: deps.Addresses.RushURL,
		Proxies: proxies, Bounds: set.Requests.Bounds(), Shoppers: set.Requests.ShoppersPerAddress,
		Limiter: e.Limits, DeviceKeys: signing, Keys: e.Keys.Admit, Refused: audit.NewRefusals(deps.DB, deps.Log).Record, Barred: e.barred,
	}.NewRouter(e.Tokens, deps.Log, httpx.Version, deps.Metrics)
	e.Human = humancheck.New(humancheck.NewConfig(set.Human, deps.Addresses.PublicURL), humancheck.Deps{
		Redis: deps.Redis, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics,
		SigningKeys: signing,
	})
	e.Blacklist = blacklist.New(set.Blacklist, blacklist.Deps{
		DB: deps.DB, Pulse: deps.Pulse, Bus: deps.Bus, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics, Accounts: e.Accounts, Keep: deps.Keep,
	})
	for _, sender := range []*sms.Sender{&e.SMS, &e.BulkSMS} {
		if *sender, err = e.openSMS(set.SMS, deps); err != nil {
			return nil, err
		}
	}
	if e.SMS == nil {
		deps.Log.Warn("nothing sends SMS: registration and login by code are off", "settings", "--sms-provider or --sms-gateway-url")
	}
	e.openAccounts(set, deps)
	return e, nil
}

// barred reports whether a caller, whose token is valid, may not act as staff: a minted
// token belongs to no login that could be ended by the listing. Addresses are not
// looked up, because a listed range may cover the shop's own office.
func (e *Service) barred(p auth.Principal) bool {
	_, listed := e.Blacklist.Listed(p.UserID, "", p.Device, netip.Addr{})
	return listed || e.Blacklist.User(p.UserID) // a key's user has no login that disabling it ends
}

// openAccounts builds the ways into the accounts, with their outside providers.
func (e *Service) openAccounts(set Settings, deps Deps) {
	g := guard.New(guard.Deps{Store: e.Accounts, Redis: deps.Redis, Limits: e.Limits, Human: e.Human, Blacklist: e.Blacklist})
	factors := factor.New(e.Accounts, g)
	e.codes, e.logins = code.New(e.Accounts, g, e.SMS), login.New(e.Accounts, g, factors, e.Tokens)
	e.exchange = exchange.New(set.Exchange, exchange.Deps{Store: e.Accounts, Guard: g, Logins: e.logins})
	parts := credential.Deps{Store: e.Accounts, Guard: g, Codes: e.codes, Factors: factors, Logins: e.logins, Exchange: e.exchange}
	if apps := set.WeChat.Apps(); len(apps) > 0 {
		app := wechat.DefaultConfig()
		app.BaseURL, app.Apps = strings.TrimSuffix(set.WeChat.WechatURL, "/"), apps
		app.ReturnURL = deps.Addresses.BaseURL() + "/?wechat"
		if strings.HasPrefix(app.BaseURL, "http://") { // a stand-in on this machine has its own page
			app.PageURL = app.BaseURL
		}
		app.Metrics = deps.Metrics
		client := wechat.New(app)
		parts.WeChat = client
		e.WeChat = wechatmsg.New(wechatmsg.Config{BaseURL: app.BaseURL, Apps: apps, Log: deps.Log, Metrics: deps.Metrics})
		e.hangUp = append(e.hangUp, client.CloseIdleConnections, e.WeChat.CloseIdleConnections)
	}
	e.credentials = credential.New(parts)
	e.Staff = staff.New(e.credentials)
	e.qr = qrlogin.New(qrlogin.DefaultConfig(deps.Addresses.BaseURL()), qrlogin.Deps{
		Store: e.Accounts, Guard: g, Logins: e.logins, Revocations: e.revoked,
	})
}

// openSMS returns a sender of its own that the settings name, the sandbox, a provider or a gateway,
// and nil when none is set.
func (e *Service) openSMS(set sms.Settings, deps Deps) (sms.Sender, error) {
	gateway, provider := sms.DefaultGatewayConfig(), set.Provider()
	gateway.Metrics, provider.Metrics = deps.Metrics, deps.Metrics
	var sender interface {
		sms.Sender
		CloseIdleConnections()
	}
	var err error
	switch {
	case set.SandboxSMS:
		if e.sandbox == nil {
			e.sandbox = sandbox.New(deps.Clock.Now, e.Accounts.StaffPhones)
		}
		return e.sandbox, nil
	case set.SMSProvider == sms.Tencent:
		sender, err = tencent.New(provider, deps.Clock.Now, deps.Log)
	case set.SMSProvider == sms.Aliyun:
		sender, err = aliyun.New(provider, deps.Clock.Now, deps.Log)
	case set.SMSGatewayURL != "":
		gateway.URL, gateway.Secret = set.SMSGatewayURL, []byte(set.SMSGatewaySecret)
		sender = sms.NewGateway(gateway, deps.Clock.Now, deps.Log)
	default:
		return nil, nil //nolint:nilnil // the accounts answer with a fault
	}
	if err != nil {
		return nil, err
	}
	e.hangUp = append(e.hangUp, sender.CloseIdleConnections)
	return sender, nil
}

// Load reads the revocations, the blacklist and the API keys.
func (e *Service) Load(ctx context.Context) error {
	return errors.Join(e.revoked.Load(ctx), e.Blacklist.Refresh(ctx), e.Keys.Refresh(ctx))
}

// Routes registers the parts' routes. also erase what other modules know about a user, in
// the transaction that erases the account.
func (e *Service) Routes(also ...func(ctx context.Context, tx pgx.Tx, user int64) error) {
	rt := e.Router
	for _, part := range []interface{ Routes(rt *httpx.Router) }{
		e.Human, e.codes, e.logins, e.credentials, credential.NewErasure(e.credentials, also...), e.exchange, e.Staff, e.qr, e.Blacklist, e.Keys,
	} {
		part.Routes(rt)
	}
	if e.sandbox != nil {
		e.sandbox.Routes(rt.Mux)
	}
}

// Workers are the parts' loops.
func (e *Service) Workers() []app.Worker {
	return slices.Concat(e.Human.Workers(), e.revoked.Workers(), e.Accounts.Workers(), e.codes.Workers(), e.qr.Workers(), e.Blacklist.Workers(), e.Keys.Workers())
}

// Probes are the parts' checks for problems that make no call fail.
func (e *Service) Probes() []alarm.Probe {
	return slices.Concat(e.codes.Probes(), e.exchange.Probes())
}

// Stop drops idle connections.
func (e *Service) Stop(context.Context) error {
	for _, hangUp := range e.hangUp {
		hangUp()
	}
	return nil
}

// RedisKeys are the prefixes of the wing's keys.
var RedisKeys = slices.Concat(ratelimit.RedisKeys, guard.RedisKeys, humancheck.RedisKeys)
