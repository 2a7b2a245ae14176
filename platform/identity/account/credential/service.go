package credential

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/code"
	"stampede/platform/identity/account/exchange"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/password"
	"stampede/platform/identity/account/wechat"
)

// Deps are the parts that credentials work with.
type Deps struct {
	Store   *account.Store
	Guard   *guard.Guard
	Codes   *code.Service
	Factors *factor.Service
	Logins  *login.Service
	WeChat  *wechat.Client // nil: no WeChat login
	// Exchange knows the users of the shop's own system; nil: there are none.
	Exchange *exchange.Service
}

// Service logs users in and keeps their credentials. Safe for concurrent use.
type Service struct {
	Deps
	Hasher *password.Hasher
	states auth.Ring // the keys of WeChat states
}

// New returns a Service.
func New(deps Deps) *Service {
	cfg := deps.Store.Config
	if cfg.PasswordParallel == 0 {
		cfg.PasswordParallel = runtime.GOMAXPROCS(0) // more in parallel take memory and finish no sooner
	}
	hashes := promauto.With(deps.Store.Metrics).NewCounter(prometheus.CounterOpts{
		Name: "stampede_account_password_hashes_total", Help: "Password hashes computed, each at its full cost.",
	})
	return &Service{Deps: deps, Hasher: password.New(cfg.Password, cfg.PasswordParallel, hashes.Inc), states: cfg.Keys("account-wechat-state")}
}
