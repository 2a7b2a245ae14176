// Package exchange logs in the shop's own users, who have accounts in the shop's system
// and none here: with a token of its issuer (OpenID Connect), or by its backend, which
// has an API key.
//
// A foreign token is exchanged for a login of ours, and accepted nowhere else: the
// requests of a sale verify one kind of token, logins end here as all do, and the issuer
// is needed for a login and not for a rush (platform/adr/0048).
//
// With LoginURL shoppers log in at the shop's own login and nowhere else
// (platform/adr/0050); account.Store.ShoppersLogInHere refuses the ways in of this server.
//
// Who logs out there is logged out here too, if the issuer says so (logout.go).
//
// A subject is mapped to a user once, for ever. The user has no password and no other
// way in. Phone, e-mail address and name are taken from the claims that the settings name; a phone that
// another account has is not taken: a claim opens no account that exists. An address opens none, so two users may have
// the same.
package exchange

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/login"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
)

var (
	errNoIssuer = fault.New(fault.NotFound, "no-issuer", fault.T("This shop has no login of its own", "未配置外部登录"),
		fault.T("No issuer of tokens is set here (--oidc-issuer).", "未设置令牌签发方（--oidc-issuer）。"),
		fault.T("Log in by phone, or set the issuer.", "请使用手机号登录，或配置签发方。"))
	// ErrToken refuses a token that is not the issuer's for this shop, or has expired.
	ErrToken = fault.New(fault.Unauthenticated, "bad-external-token", fault.T("Please log in at the shop again", "请在商城重新登录"),
		fault.T("The token is not a valid one of the shop's issuer for this sale.", "令牌不是商城签发方为本活动签发的有效令牌。"),
		fault.T("Get a new token from the shop's login, and exchange that.", "请通过商城登录获取新的令牌后重试。"))
	// ErrAway refuses a token that cannot be verified now.
	ErrAway = fault.New(fault.Unavailable, "issuer-away", fault.T("Logging in takes a moment longer", "登录服务繁忙，请稍后再试"),
		fault.T("The shop's issuer of tokens cannot be reached right now.", "暂时无法访问商城的令牌签发方。"),
		fault.T("Try again in a moment.", "请稍后重试。")).After(fetchPause)
	// ErrOther refuses a token as the proof of another user.
	ErrOther = fault.New(fault.Forbidden, "other-user", fault.T("You logged in at the shop as another user", "您在商城登录的是其他用户"),
		fault.T("The token is of another user of the shop.", "该令牌属于商城的其他用户。"),
		fault.T("Log in there as the user of this account.", "请用本账号对应的用户登录商城。"))
	errNoKey = fault.Plain(fault.Forbidden, fault.T("Only an API key with the scope users:exchange may name a user.", "仅具有 users:exchange 权限的 API 密钥可指定用户。"))
)

// Deps are the package's dependencies.
type Deps struct {
	Store  *account.Store
	Guard  *guard.Guard
	Logins *login.Service
}

// Service exchanges. Safe for concurrent use.
type Service struct {
	deps   Deps
	issuer *issuer // nil without one
}

// New returns a service; it asks the issuer nothing.
func New(set Settings, deps Deps) *Service {
	s := &Service{deps: deps}
	keys := func() float64 { return 0 }
	if set.Issuer != "" {
		s.issuer = &issuer{set: set, now: time.Now, client: outbound.New(outbound.Config{
			Peer: "oidc-issuer", Timeout: issuerTimeout, Attempts: 1, Conns: 1, MaxBytes: keysBytes, Metrics: deps.Store.Metrics,
		})}
		keys = s.issuer.count
	}
	promauto.With(deps.Store.Metrics).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_account_issuer_keys", Help: "Keys of --oidc-issuer that this instance knows; with 0 no token can be exchanged.",
	}, keys)
	return s
}

// IssuerAway is about logins with tokens of the issuer.
var IssuerAway = alarm.Define("issuer-away", alarm.Critical,
	fault.T("For a minute no keys could be had from --oidc-issuer: users of the shop's own system cannot log in. Shoppers who are logged in buy as before.",
		"已有一分钟无法从 --oidc-issuer 取得密钥：商家自有系统的用户无法登录。已登录的顾客不受影响。"),
	fault.T("Open the issuer's /.well-known/openid-configuration from this server, or --oidc-jwks-url if that is set, and see what its owners say. Logins go through again within twenty seconds after it answers.",
		"请从本服务器访问签发方的 /.well-known/openid-configuration（配置了 --oidc-jwks-url 时访问该地址），并联系其负责人。签发方恢复后二十秒内即可正常登录。"))

// Probes watch the issuer as this instance reaches it. The first look also reads the
// keys, before the first user needs them.
func (s *Service) Probes() []alarm.Probe {
	if s.issuer == nil {
		return nil
	}
	return []alarm.Probe{{Alarm: IssuerAway, Every: fetchPause, For: time.Minute, Look: func(ctx context.Context) ([]alarm.Finding, error) {
		why := s.issuer.away(ctx)
		if why == nil {
			return nil, nil
		}
		return []alarm.Finding{{Subject: s.issuer.set.Issuer, Detail: why.Error()}}, nil
	}}}
}

// Routes registers the two ways.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/auth/exchange", ID: "exchange-token", Load: httpx.Costly, Tag: "shopper",
		Summary: "Log in with a token of the shop's own login", NoKey: "the token is checked again, and a second login is harmless",
		Description: "Takes an ID token of the issuer in the settings, for their audience. Its subject gets an account here at the first time, and the same one later.",
		Refuses:     []*fault.Error{errNoIssuer, ErrToken, ErrAway, login.ErrStaff, account.ErrDisabled, factor.ErrRequired, factor.ErrWrong},
	}, s.byToken)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/auth/exchange-user", ID: "exchange-user", Tag: "operator",
		Role: auth.Viewer, Scope: auth.UsersExchange,
		Summary: "Open a login for a user of the shop's own system, by its backend", NoKey: "a second login is harmless, and expires",
		Description: "For API keys only. Give the access token to the user's page or app, and keep the refresh token, or exchange again. The subject is whatever the system " +
			"calls its user; it gets an account here at the first time, and the same one later, by each key of the same `namespace`.",
		Refuses: []*fault.Error{login.ErrStaff, account.ErrDisabled, factor.ErrRequired, factor.ErrWrong},
	}, s.byBackend)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/auth/backchannel-logout", ID: "backchannel-logout", Load: httpx.Costly, Tag: "provider", Status: http.StatusOK,
		Summary: "Log out a user who has logged out at the shop's own login", NoKey: "the token's jti counts once",
		Description: "For the issuer in the settings (OpenID Connect Back-Channel Logout 1.0): the form's `logout_token` is the credential. All logins of its `sub` here end; " +
			"a token with a `sid` alone is refused. One that comes again changes nothing.",
		Refuses: []*fault.Error{errNoIssuer, errLogout, ErrAway},
	}, s.logout)
}

type tokenInput struct {
	Body struct {
		Token  string             `json:"token" minLength:"1" maxLength:"8192" doc:"The issuer's ID token" example:"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ1LTcifQ.5hYk"`
		Device *login.DeviceInput `json:"device,omitempty"`
		login.SecondFactor
	} `nameHint:"TokenExchange"`
}

func (s *Service) byToken(ctx context.Context, in *tokenInput) (*httpx.Output[login.Tokens], error) {
	d, err := in.Body.Device.Proved(ctx, in.Body.TOTP)
	if err != nil {
		return nil, err
	}
	if err := s.deps.Guard.KeepOut(login.ByExchange, 0, "", d.ID, d.Address); err != nil {
		return nil, err
	}
	who, err := s.verify(ctx, in.Body.Token)
	if err != nil {
		return nil, err
	}
	out, err := s.open(ctx, s.issuer.set.Issuer, who, d)
	return s.deps.Logins.Answer(login.ByExchange, out, err)
}

// verify returns whom a token of the issuer names. Its error is a fault.
func (s *Service) verify(ctx context.Context, token string) (who identity, err error) {
	if s.issuer == nil {
		return who, errNoIssuer
	}
	who, err = s.issuer.verify(ctx, token)
	return who, s.refused(ctx, err, ErrToken)
}

// refused is the refusal of a token for a reason, nil without one.
func (s *Service) refused(ctx context.Context, err error, as *fault.Error) error {
	switch {
	case errors.Is(err, errIssuer):
		s.deps.Store.Log.WarnContext(ctx, "the issuer's keys cannot be read", "error", err)
		return ErrAway
	case err != nil:
		return as.Because(err)
	}
	return nil
}

// Prove returns nil if a token of the issuer names a user: so one who has no other way in
// proves who asks. It returns ErrOther if the token names another user.
func (s *Service) Prove(ctx context.Context, user int64, token string) error {
	who, err := s.verify(ctx, token)
	if err != nil {
		return err
	}
	named, err := accountdb.New(s.deps.Store.DB).UserOfSubject(ctx, accountdb.UserOfSubjectParams{Issuer: s.issuer.set.Issuer, Subject: who.subject})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && named != user {
		return ErrOther
	}
	if err != nil {
		return account.Failed("user of a subject", err)
	}
	return s.current(ctx, s.deps.Store.DB, user, who.issued)
}

type userInput struct {
	Body struct {
		Subject  string             `json:"subject" minLength:"1" maxLength:"255" doc:"What the shop's system calls its user; it never names another one" example:"u-20931"`
		Phone    string             `json:"phone,omitempty" maxLength:"32" doc:"One that the system has verified: who logs in by SMS to it shares the account. Taken at the first exchange, unless another account has it" example:"13800138000"`
		Email    *string            `json:"email,omitempty" maxLength:"254" doc:"One that the system has verified: messages go to it. Taken at each exchange; what is no address, such as an empty text, removes the last one" example:"li@shop.example"`
		Nickname string             `json:"nickname,omitempty" maxLength:"64"`
		Device   *login.DeviceInput `json:"device,omitempty"`
		login.SecondFactor
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
	d.TOTP = in.Body.TOTP
	out, err := s.open(ctx, auth.From(ctx).Namespace, identity{
		subject: in.Body.Subject, phone: in.Body.Phone, email: in.Body.Email, nickname: in.Body.Nickname,
	}, d)
	return s.deps.Logins.Answer(login.ByExchange, out, err)
}

// open opens a login of the user whom an issuer's subject is, who is created at the first
// time.
func (s *Service) open(ctx context.Context, issuer string, who identity, d login.Device) (out login.Tokens, err error) {
	if who.subject == "" || len(who.subject) > 255 || account.Clean(who.subject) != who.subject {
		return out, ErrToken
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
		} else if err == nil {
			if _, err = account.LockActive(ctx, tx, user); err == nil { // what ends all logins has ended them, or sees this one
				err = s.current(ctx, tx, user, who.issued)
			}
		}
		if err != nil {
			return err
		}
		if name != "" {
			if err := q.SetName(ctx, accountdb.SetNameParams{ID: user, Name: name}); err != nil {
				return err
			}
		}
		if who.email != nil {
			if err := q.SetEmail(ctx, accountdb.SetEmailParams{ID: user, Email: pg.Null(account.Email(*who.email))}); err != nil {
				return err
			}
		}
		out, err = s.deps.Logins.Open(ctx, tx, user, d, login.ByExchange)
		return err
	})
	return out, err
}

// current refuses a token that was issued before all logins of its user were ended, by a
// logout at the shop or by staff: whoever has kept it must not begin another one. issued is
// zero for a backend, which names its user at this moment, and for an issuer whose tokens
// do not tell.
func (s *Service) current(ctx context.Context, db pg.DB, user int64, issued time.Time) error {
	if issued.IsZero() {
		return nil
	}
	if now := s.issuer.now(); issued.Add(issuedBefore).Before(now) {
		issued = issued.Add(issuedBefore)
	} else {
		issued = now
	}
	ended, err := s.deps.Store.Revoke.UserEnded(ctx, db, user, issued)
	if ended {
		err = ErrToken.Because(errors.New("exchange: the token is older than the end of the user's logins"))
	}
	return err
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
