// Package entrance opens what a request meets before it meets a module: the
// router, tokens, limits, human checks, revocations, accounts, QR logins and the
// blacklist. Each is a package of its own, and knows the others through what its
// New is given; only here they meet.
//
// # Order
//
// New reads nothing. Load takes the first look at the revocations and the list,
// without which an instance would let in for half a second whom others keep out;
// call it before serving. Stop answers the polls that wait for a QR code, for
// which a drain of the requests under way would otherwise wait.
package entrance

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/account"
	"stampede/platform/account/qrlogin"
	"stampede/platform/account/wechat"
	"stampede/platform/app"
	"stampede/platform/audit"
	"stampede/platform/auth"
	"stampede/platform/auth/revoke"
	"stampede/platform/blacklist"
	"stampede/platform/bus"
	"stampede/platform/clock"
	"stampede/platform/config"
	"stampede/platform/httpx"
	"stampede/platform/humancheck"
	"stampede/platform/ratelimit"
	"stampede/platform/sms"
	"stampede/platform/sms/sandbox"
	"stampede/platform/telemetry/tracing"
)

// Deps are what the parts work with; all but Trace are required.
type Deps struct {
	DB      *pgxpool.Pool // the accounts' budget of connections
	Redis   redis.UniversalClient
	Bus     *bus.Bus
	Clock   clock.Clock
	Key     []byte // the process's signing key
	Alone   bool   // no other instance works on these stores
	Version string // of the program, for the API's document
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Trace   *tracing.Tracer // nil is off
}

// Entrance is the parts, wired.
type Entrance struct {
	Tokens    *auth.Tokens
	Router    *httpx.Router
	Limits    *ratelimit.Limiter
	Human     *humancheck.Service
	Accounts  *account.Service
	Blacklist *blacklist.Service

	revoked *revoke.Service
	qr      *qrlogin.Service
	sandbox *sandbox.Gateway // nil unless it is served
	hangUp  []func()         // the clients' idle connections
}

// New builds the parts from the process's settings.
func New(set *config.Server, deps Deps) (*Entrance, error) {
	e := &Entrance{
		Tokens: auth.NewTokens(deps.Key, deps.Clock.Now, set.PreviousKeys()...),
		Limits: ratelimit.New(deps.Redis, deps.Log, deps.Metrics),
		revoked: revoke.New(revoke.Deps{
			DB: deps.DB, Redis: deps.Redis, Bus: deps.Bus, Log: deps.Log, Metrics: deps.Metrics, Clock: deps.Clock,
		}),
	}
	e.Limits.Alone = deps.Alone
	e.Tokens.Heed(e.revoked)
	e.Router = httpx.NewRouter(e.Tokens, deps.Log, deps.Version, deps.Metrics)
	e.Router.Trace, e.Router.API.Limiter = deps.Trace, e.Limits
	e.Router.API.Refused = audit.NewRefusals(deps.DB, deps.Log).Record
	e.Router.Bound(set.Bounds())
	var err error
	if e.Router.Proxies, err = set.Proxies(); err != nil {
		return nil, err
	}
	e.Human, err = humancheck.New(set.Human(), humancheck.Deps{
		Redis: deps.Redis, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics,
		SigningKeys: append([][]byte{deps.Key}, set.PreviousKeys()...),
	})
	if err != nil {
		return nil, err
	}
	if err := e.openAccounts(set, deps); err != nil {
		return nil, err
	}
	list := blacklist.DefaultConfig()
	list.MaxEntries, list.KeepEnded = set.BlacklistMax, set.BlacklistKeep
	e.Blacklist, err = blacklist.New(list, blacklist.Deps{
		DB: deps.DB, Bus: deps.Bus, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics, Phones: e.Accounts,
	})
	if err != nil {
		return nil, err
	}
	e.Accounts.Heed(e.Blacklist)
	e.qr, err = qrlogin.New(qrlogin.DefaultConfig(set.BaseURL()), qrlogin.Deps{
		DB: deps.DB, Bus: deps.Bus, Accounts: e.Accounts, Blacklist: e.Blacklist, Revocations: e.revoked, Limits: e.Limits,
		Log: deps.Log, Metrics: deps.Metrics,
	})
	return e, err
}

// openAccounts builds the accounts with their outside providers.
func (e *Entrance) openAccounts(set *config.Server, deps Deps) error {
	cfg, err := account.FromSettings(set.Accounts, deps.Key, set.PreviousKeys()...)
	if err != nil {
		return err
	}
	parts := account.Deps{
		DB: deps.DB, Redis: deps.Redis, Tokens: e.Tokens, Limits: e.Limits, Revoke: e.revoked, Human: e.Human,
		Log: deps.Log, Metrics: deps.Metrics,
	}
	if parts.SMS, err = e.openSMS(set, deps); err != nil {
		return err
	}
	if set.WechatAppID != "" {
		app := wechat.DefaultConfig()
		app.BaseURL, app.AppID, app.Secret = strings.TrimSuffix(set.WechatURL, "/"), set.WechatAppID, set.WechatAppSecret
		app.Kind = wechat.Kind(set.WechatKind)
		client, err := wechat.New(app)
		if err != nil {
			return err
		}
		parts.WeChat = client
		e.hangUp = append(e.hangUp, client.HangUp)
	}
	e.Accounts, err = account.New(cfg, parts)
	return err
}

// openSMS returns the way to the gateway that the settings name, the sandbox's or
// a real one's, and nil when there is none.
func (e *Entrance) openSMS(set *config.Server, deps Deps) (sms.Sender, error) {
	gateway := sms.DefaultGatewayConfig()
	switch {
	case set.SandboxSMS:
		gateway.URL, gateway.Secret = set.LocalURL()+sandbox.SendPath, auth.Derive(deps.Key, "sandbox-sms")
		var err error
		if e.sandbox, err = sandbox.New(gateway.Secret, deps.Clock.Now); err != nil {
			return nil, err
		}
	case set.SMSGatewayURL != "":
		gateway.URL, gateway.Secret = set.SMSGatewayURL, []byte(set.SMSGatewaySecret)
	default:
		deps.Log.Warn("no SMS gateway is set, so nobody can register or log in by code", "setting", "--sms-gateway-url")
		return nil, nil //nolint:nilnil // no gateway is no sender, which the accounts know how to say
	}
	sender, err := sms.NewGateway(gateway, deps.Clock.Now, deps.Log)
	if err != nil {
		return nil, err
	}
	e.hangUp = append(e.hangUp, sender.HangUp)
	return sender, nil
}

// Load takes the first look at what keeps people out.
func (e *Entrance) Load(ctx context.Context) error {
	return errors.Join(e.revoked.Load(ctx), e.Blacklist.Refresh(ctx))
}

// Routes registers the parts' routes.
func (e *Entrance) Routes() {
	rt := e.Router
	e.Human.Routes(rt)
	e.Accounts.Routes(rt)
	e.qr.Routes(rt)
	e.Blacklist.Routes(rt)
	if e.sandbox != nil {
		e.sandbox.Routes(rt.Mux)
	}
}

// Workers are the parts' loops.
func (e *Entrance) Workers() []app.Worker {
	return slices.Concat(e.Human.Workers(), e.revoked.Workers(), e.Accounts.Workers(), e.qr.Workers(), e.Blacklist.Workers())
}

// Stop answers whoever waits, and drops idle connections.
func (e *Entrance) Stop(ctx context.Context) error {
	err := e.qr.Stop(ctx)
	for _, hangUp := range e.hangUp {
		hangUp()
	}
	return err
}
