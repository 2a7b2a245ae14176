package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/password"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/identity/humancheck"
	"stampede/platform/identity/sms"
)

// Revoker ends access tokens before they expire; platform/identity/revoke implements
// it. A revocation made in a transaction takes effect when that commits.
type Revoker interface {
	Logins(ctx context.Context, tx pgx.Tx, why string, logins ...int64) error
	User(ctx context.Context, tx pgx.Tx, why string, user int64) error
	// Tell puts committed revocations into force on this instance.
	Tell(ctx context.Context)
}

// HumanChecker checks solutions; platform/identity/humancheck implements it.
type HumanChecker interface {
	// Public is the kind of check that logins require; None requires none.
	Public() humancheck.Kind
	Check(ctx context.Context, kind humancheck.Kind, sub humancheck.Subject, solution string) error
}

// WeChat exchanges a WeChat code for an identity; platform/identity/account/wechat
// implements it.
type WeChat interface {
	Exchange(ctx context.Context, code string) (wechat.Identity, error)
	// Redirects reports whether codes reach the client in a URL, which an attacker
	// can send to a user.
	Redirects() bool
	// AuthorizeURL is where a page inside WeChat sends its shopper for a code; "" if the
	// app has no such page.
	AuthorizeURL(state string) string
}

// Blacklist refuses listed users; platform/identity/blacklist implements it.
type Blacklist interface {
	// Refuse returns the refusal if any of the given values is listed, else nil;
	// zero values are not looked up. way names the attempted operation. It reads
	// memory only.
	Refuse(way string, user int64, phone, device string, from netip.Addr) error
	// Change runs fn in a transaction that disables or enables an account, and
	// announces it to every instance after the commit.
	Change(ctx context.Context, fn func(tx pgx.Tx) error) error
	// KeepPhone keeps a listed user whose account is erased in tx from coming back with
	// the same phone.
	KeepPhone(ctx context.Context, tx pgx.Tx, user int64, phone string) error
}

// Deps are the accounts' dependencies.
type Deps struct {
	DB        *pgxpool.Pool
	Redis     redis.UniversalClient // for counts of failures
	Tokens    *auth.Tokens
	Limits    *ratelimit.Limiter
	Revoke    Revoker
	SMS       sms.Sender   // nil: codes cannot be sent
	Human     HumanChecker // nil: no human checks
	WeChat    WeChat       // nil: no WeChat login
	Blacklist Blacklist    // nil: no blacklist
	Log       *slog.Logger
	Metrics   prometheus.Registerer
}

// Service keeps accounts and logins. Safe for concurrent use.
type Service struct {
	cfg     Config
	deps    Deps
	keys    ring
	hasher  *password.Hasher
	metrics metrics
	// ceilingHit is when a code was last refused at the SMS ceiling, Unix ns; 0 never.
	ceilingHit atomic.Int64
	// alsoErase erases what other modules know about a user.
	alsoErase []func(ctx context.Context, tx pgx.Tx, user int64) error
}

// New opens the accounts in deps.DB, schema account.
func New(cfg Config, deps Deps) (*Service, error) {
	if cfg.PasswordParallel == 0 {
		cfg.PasswordParallel = runtime.GOMAXPROCS(0) // more in parallel take memory and finish no sooner
	}
	m := newMetrics(deps.Metrics)
	hasher, err := password.New(cfg.Password, cfg.PasswordParallel, m.hashes.Inc)
	if err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, deps: deps, keys: newRing(cfg.SigningKey, cfg.PreviousKeys), hasher: hasher, metrics: m}, nil
}

// keepOut refuses a caller who is listed by user, phone, device or address.
func (s *Service) keepOut(way string, user int64, phone Phone, d Device) error {
	if s.deps.Blacklist == nil {
		return nil
	}
	return s.deps.Blacklist.Refuse(way, user, string(phone), d.ID, d.Address)
}

// The states of an account.
const (
	statusActive   = "active"
	statusDisabled = "disabled"
	statusErased   = "erased"
)

var errNoAccount = fault.New(fault.NotFound, "no-account", fault.T("There is no account for this login", "账号不存在"),
	fault.T("This user has no account here; a token can be minted without one.", "该用户在此没有账号；令牌可以不对应账号签发。"),
	fault.T("Ask the operator for an account, or register.", "请注册账号，或联系运营人员。"))

// PhonesOf returns the phones of those of the users who have one, in E.164.
func (s *Service) PhonesOf(ctx context.Context, users []int64) (map[int64]string, error) {
	rows, err := accountdb.New(s.deps.DB).PhonesOf(ctx, users)
	if err != nil {
		return nil, fmt.Errorf("account: read phones: %w", err)
	}
	phones := make(map[int64]string, len(rows))
	for _, r := range rows {
		phones[r.ID] = r.Phone
	}
	return phones, nil
}

// Unknown returns those of the users who have no account here.
func (s *Service) Unknown(ctx context.Context, users []int64) ([]int64, error) {
	rows, err := accountdb.New(s.deps.DB).KnownUsers(ctx, users)
	if err != nil {
		return nil, fmt.Errorf("account: look up users: %w", err)
	}
	known := make(map[int64]bool, len(rows))
	for _, id := range rows {
		known[id] = true
	}
	return slices.DeleteFunc(slices.Clone(users), func(user int64) bool { return known[user] }), nil
}

// Searched returns the user with a phone, 0 for none, for an operator's search, which
// it counts and records. Its error is a fault.
func (s *Service) Searched(ctx context.Context, raw string) (int64, error) {
	phone, err := s.searched(ctx, raw)
	if err != nil {
		return 0, err
	}
	u, err := accountdb.New(s.deps.DB).UserByPhone(ctx, (*string)(&phone))
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return u.ID, asFault("search by phone", err)
}

// OpenIDOf returns a user's openid in a WeChat app, which WeChat payments need; ""
// when the user has none there.
func (s *Service) OpenIDOf(ctx context.Context, user int64, appID string) (string, error) {
	id, err := accountdb.New(s.deps.DB).IdentityOfUser(ctx, accountdb.IdentityOfUserParams{UserID: user, AppID: appID})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("account: openid of a user: %w", err)
	}
	return id, nil
}

// phoneIn is a row's phone; the zero Phone for NULL.
func phoneIn(u accountdb.AccountUser) Phone {
	if u.Phone == nil {
		return ""
	}
	return Phone(*u.Phone)
}

// passwordIn is a row's PHC string; empty for NULL.
func passwordIn(u accountdb.AccountUser) string {
	if u.Password == nil {
		return ""
	}
	return *u.Password
}
