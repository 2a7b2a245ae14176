// Package exchange logs in the shop's own users, who have accounts in the shop's system
// and none here: with a token of its issuer (OpenID Connect), or by its backend, which
// has an API key.
//
// A foreign token is exchanged for a login of ours, and accepted nowhere else: the
// requests of a sale verify one kind of token, logins end here as all do, and the issuer
// is needed for a login and not for a rush (platform/adr/0048).
//
// A subject is mapped to a user once, for ever. The user has no password and no other
// way in. Phone and name are taken from the claims that the settings name; a phone that
// another account has is not taken: a claim opens no account that exists.
package exchange

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/login"
)

// byBackend is the issuer of users whom a backend with an API key names.
const byBackend = "backend"

var (
	errNoIssuer = fault.New(fault.NotFound, "no-issuer", fault.T("This shop has no login of its own", "未配置外部登录"),
		fault.T("No issuer of tokens is set here (--oidc-issuer).", "未设置令牌签发方（--oidc-issuer）。"),
		fault.T("Log in by phone, or set the issuer.", "请使用手机号登录，或配置签发方。"))
	errToken = fault.New(fault.Unauthenticated, "bad-external-token", fault.T("Please log in at the shop again", "请在商城重新登录"),
		fault.T("The token is not a valid one of the shop's issuer for this sale.", "令牌不是商城签发方为本活动签发的有效令牌。"),
		fault.T("Get a new token from the shop's login, and exchange that.", "请通过商城登录获取新的令牌后重试。"))
	errAway = fault.New(fault.Unavailable, "issuer-away", fault.T("Logging in takes a moment longer", "登录服务繁忙，请稍后再试"),
		fault.T("The shop's issuer of tokens cannot be reached right now.", "暂时无法访问商城的令牌签发方。"),
		fault.T("Try again in a moment.", "请稍后重试。")).After(fetchPause)
	errNoKey = fault.Plain(fault.Forbidden, fault.T("Only an API key with the scope users:exchange may name a user.", "仅具有 users:exchange 权限的 API 密钥可指定用户。"))
)

// Deps are the package's dependencies.
type Deps struct {
	Store   *account.Store
	Guard   *guard.Guard
	Logins  *login.Service
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Service exchanges. Safe for concurrent use.
type Service struct {
	deps   Deps
	issuer *issuer // nil without one
}

// New returns a service; it asks the issuer nothing.
func New(set Settings, deps Deps) *Service {
	s := &Service{deps: deps}
	if set.Issuer != "" {
		s.issuer = &issuer{set: set, now: time.Now, client: outbound.New(outbound.Config{
			Peer: "oidc-issuer", Timeout: issuerTimeout, Attempts: 1, Conns: 1, MaxBytes: keysBytes, Metrics: deps.Metrics,
		})}
	}
	return s
}

// Routes registers the two ways.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/auth/exchange", ID: "exchange-token", Load: httpx.Costly, Tag: "shopper",
		Summary: "Log in with a token of the shop's own login", NoKey: "the token is checked again, and a second login is harmless",
		Description: "Takes an ID token of the issuer in the settings, for their audience. Its subject gets an account here at the first time, and the same one later.",
		Refuses:     []*fault.Error{errNoIssuer, errToken, errAway, login.ErrStaff, account.ErrDisabled},
	}, s.byToken)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/auth/exchange-user", ID: "exchange-user", Tag: "operator",
		Role: auth.Viewer, Scope: auth.UsersExchange,
		Summary: "Open a login for a user of the shop's own system, by its backend", NoKey: "a second login is harmless, and expires",
		Description: "For API keys only. Give the access token to the user's page or app, and keep the refresh token, or exchange again. The subject is whatever the system " +
			"calls its user; it gets an account here at the first time, and the same one later.",
		Refuses: []*fault.Error{login.ErrStaff, account.ErrDisabled},
	}, s.byBackend)
}

type tokenInput struct {
	Body struct {
		Token  string             `json:"token" minLength:"1" maxLength:"8192" doc:"The issuer's ID token"`
		Device *login.DeviceInput `json:"device,omitempty"`
	} `nameHint:"TokenExchange"`
}

func (s *Service) byToken(ctx context.Context, in *tokenInput) (*httpx.Output[login.Tokens], error) {
	if s.issuer == nil {
		return nil, errNoIssuer
	}
	d, err := in.Body.Device.Proved(ctx, "")
	if err != nil {
		return nil, err
	}
	if err := s.deps.Guard.KeepOut(login.ByExchange, 0, "", d.ID, d.Address); err != nil {
		return nil, err
	}
	who, err := s.issuer.verify(ctx, in.Body.Token)
	switch {
	case errors.Is(err, errIssuer):
		s.deps.Log.WarnContext(ctx, "the issuer's keys cannot be read", "error", err)
		return nil, errAway
	case err != nil:
		return nil, errToken.Because(err)
	}
	out, err := s.open(ctx, s.issuer.set.Issuer, who, d)
	return s.deps.Logins.Answer(login.ByExchange, out, err)
}

type userInput struct {
	Body struct {
		Subject  string             `json:"subject" minLength:"1" maxLength:"255" doc:"What the shop's system calls its user; it never names another one" example:"u-20931"`
		Phone    string             `json:"phone,omitempty" maxLength:"32" doc:"One that the system has verified: who logs in by SMS to it shares the account. Taken at the first exchange, unless another account has it" example:"13800138000"`
		Nickname string             `json:"nickname,omitempty" maxLength:"64"`
		Device   *login.DeviceInput `json:"device,omitempty"`
	} `nameHint:"UserExchange"`
}

func (s *Service) byBackend(ctx context.Context, in *userInput) (*httpx.Output[login.Tokens], error) {
	if !auth.From(ctx).Has(auth.UsersExchange) {
		return nil, errNoKey // also an admin: who may do everything may not be everyone
	}
	d, err := in.Body.Device.Device(ctx)
	if err != nil {
		return nil, err
	}
	out, err := s.open(ctx, byBackend, identity{in.Body.Subject, in.Body.Phone, in.Body.Nickname}, d)
	return s.deps.Logins.Answer(login.ByExchange, out, err)
}

// open opens a login of the user whom an issuer's subject is, who is created at the first
// time.
func (s *Service) open(ctx context.Context, issuer string, who identity, d login.Device) (out login.Tokens, err error) {
	if who.subject == "" || len(who.subject) > 255 || account.Clean(who.subject) != who.subject {
		return out, errToken
	}
	name := account.Clean(who.nickname)
	if runes := []rune(name); len(runes) > 64 {
		name = string(runes[:64])
	}
	err = s.deps.Store.InTx(ctx, "exchange", func(tx pgx.Tx) error {
		q := accountdb.New(tx)
		if err := q.LockSubject(ctx, accountdb.LockSubjectParams{Issuer: issuer, Subject: who.subject}); err != nil {
			return err
		}
		user, err := q.UserOfSubject(ctx, accountdb.UserOfSubjectParams{Issuer: issuer, Subject: who.subject})
		if errors.Is(err, pgx.ErrNoRows) {
			user, err = s.create(ctx, tx, issuer, who, name)
		}
		if err != nil {
			return err
		}
		if name != "" {
			if err := q.SetName(ctx, accountdb.SetNameParams{ID: user, Name: name}); err != nil {
				return err
			}
		}
		out, err = s.deps.Logins.Open(ctx, tx, user, d, login.ByExchange)
		return err
	})
	return out, err
}

// create creates the user of a subject.
func (s *Service) create(ctx context.Context, tx pgx.Tx, issuer string, who identity, name string) (int64, error) {
	phone, err := account.ParsePhone(who.phone)
	if err != nil {
		phone = "" // not a phone that this shop knows how to call
	}
	u, err := account.Create(ctx, tx, phone, name, "")
	if err == nil && u.ID == 0 { // another account has the phone
		u, err = account.Create(ctx, tx, "", name, "")
	}
	if err != nil {
		return 0, err
	}
	return u.ID, accountdb.New(tx).PutSubject(ctx, accountdb.PutSubjectParams{Issuer: issuer, Subject: who.subject, UserID: u.ID})
}
