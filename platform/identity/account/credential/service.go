package credential

import (
	"context"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/identity/account"
	"stampede/platform/identity/account/code"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/password"
	"stampede/platform/identity/account/wechat"
)

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

// Deps are the parts that credentials work with.
type Deps struct {
	Store   *account.Store
	Guard   *guard.Guard
	Codes   *code.Service
	Factors *factor.Service
	Logins  *login.Service
	WeChat  WeChat // nil: no WeChat login
}

// Service logs users in and keeps their credentials. Safe for concurrent use.
type Service struct {
	Deps
	Hasher *password.Hasher
	states [][]byte // the keys of WeChat states
}

// New returns a Service.
func New(deps Deps) (*Service, error) {
	cfg := deps.Store.Config
	if cfg.PasswordParallel == 0 {
		cfg.PasswordParallel = runtime.GOMAXPROCS(0) // more in parallel take memory and finish no sooner
	}
	hashes := promauto.With(deps.Store.Metrics).NewCounter(prometheus.CounterOpts{
		Name: "stampede_account_password_hashes_total", Help: "Password hashes computed, each at its full cost.",
	})
	hasher, err := password.New(cfg.Password, cfg.PasswordParallel, hashes.Inc)
	return &Service{Deps: deps, Hasher: hasher, states: cfg.Keys("account-wechat-state")}, err
}
