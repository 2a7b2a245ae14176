package login

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/guard"
)

// How a login was opened.
const (
	ByPassword = "password"
	BySMS      = "sms"
	ByWeChat   = "wechat"
	ByRegister = "register"
	ByExchange = "exchange"
	ByRefresh  = "refresh" // not a login, but counted as one
)

// Service keeps logins. Safe for concurrent use.
type Service struct {
	store    *account.Store
	guard    *guard.Guard
	factors  *factor.Service
	tokens   *auth.Tokens
	keys     auth.Ring
	attempts *prometheus.CounterVec
	reused   prometheus.Counter
}

// New returns a Service.
func New(store *account.Store, g *guard.Guard, factors *factor.Service, tokens *auth.Tokens) *Service {
	auto := promauto.With(store.Metrics)
	s := &Service{
		store: store, guard: g, factors: factors, tokens: tokens, keys: store.Config.Keys("account-refresh-token"),
		reused: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_account_refresh_reused_total", Help: "Logins ended because a refresh token was used twice.",
		}),
		attempts: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_account_logins_total", Help: "Login attempts, by method and by result: ok, or the code of the refusal.",
		}, []string{"how", "result"}),
	}
	for _, how := range []string{ByPassword, BySMS, ByWeChat, ByRegister, ByExchange, ByRefresh} { // each starts at 0, so that a dashboard can draw it
		s.attempts.WithLabelValues(how, "ok")
	}
	return s
}

// Answer counts a login attempt by its result and wraps its tokens. Fault codes are a
// small fixed set; an error without one counts as internal.
func (s *Service) Answer(how string, out Tokens, err error) (*httpx.Output[Tokens], error) {
	if err == nil {
		s.attempts.WithLabelValues(how, "ok").Inc()
		return httpx.Answer(out), nil
	}
	result := "internal"
	if f, coded := errors.AsType[*fault.Error](err); coded {
		result = f.Code
	}
	s.attempts.WithLabelValues(how, result).Inc()
	return nil, err
}
