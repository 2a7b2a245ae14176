// Package providers opens the ways to pay that the shop's settings name, in the order
// in which shoppers are offered them: the real companies, those that are practised
// with, the sandbox bank.
//
// A company's settings are complete, or it is absent. For another company, write a
// folder beside payment/wechatpay that implements provider.Provider and passes
// payment/providertest, give it Settings, and add it to Open.
package providers

import (
	"errors"
	"log/slog"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/payment/wechatpay"
	"stampede/payment/wechatpay/standin"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
)

// Settings are the settings of all ways to pay.
type Settings struct {
	WeChat  wechatpay.Settings `embed:"" group:"Payments:"`
	Sandbox sandbox.Settings   `embed:"" group:"Practice:"`
	PayWith []string           `group:"Practice:" name:"pay" env:"STAMPEDE_PAY" enum:"wechat" help:"Also serve a stand-in of these payment companies and pay through it, comma-separated: wechat. Like the sandbox bank, never on a real shop." practice:""`
}

// Check returns an error that names the wrong setting.
func (s Settings) Check() error {
	if s.WeChat.On() && len(s.PayWith) > 0 {
		return errors.New("--pay practises with WeChat Pay, and --wechat-pay-merchant names a real account: remove one of them")
	}
	return s.WeChat.Check()
}

// Deps are what the providers need; all are required.
type Deps struct {
	Secret []byte // the sandbox bank's
	// PublicURL is where shoppers and companies reach this process, LocalURL where it
	// reaches itself.
	PublicURL, LocalURL string
	DB                  *pgxpool.Pool
	Clock               clock.Clock
	Log                 *slog.Logger
	Metrics             prometheus.Registerer
}

// Ways are the ways to pay, and the bank behind those that are practised with.
type Ways struct {
	Providers []provider.Provider
	bank      *sandbox.Bank // nil without practice
}

// Open opens the ways to pay. It makes no call.
func Open(set Settings, deps Deps) (*Ways, error) {
	w := new(Ways)
	add := func(p provider.Provider, err error) error {
		if err == nil {
			w.Providers = append(w.Providers, p)
		}
		return err
	}
	if set.WeChat.On() {
		cfg, err := set.WeChat.Config()
		if err != nil {
			return nil, err
		}
		cfg.Metrics = deps.Metrics
		if err := add(wechatpay.New(cfg, deps.Clock)); err != nil {
			return nil, err
		}
	}
	if !set.Sandbox.SandboxBank && len(set.PayWith) == 0 {
		return w, nil
	}
	bank, own, err := sandbox.Open(deps.Secret, deps.PublicURL, deps.LocalURL, sandbox.Deps{DB: deps.DB, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics})
	if err != nil {
		return nil, err
	}
	w.bank = bank
	for range set.PayWith {
		company, cfg, err := standin.Pair(deps.LocalURL, deps.Clock.Now, deps.Log)
		if err != nil {
			return nil, err
		}
		cfg.Metrics = deps.Metrics
		bank.Speak(company)
		if err := add(wechatpay.New(cfg, deps.Clock)); err != nil {
			return nil, err
		}
	}
	if set.Sandbox.SandboxBank {
		w.Providers = append(w.Providers, own)
	}
	return w, nil
}

// Routes serves the bank, if there is one.
func (w *Ways) Routes(mux chi.Router) {
	if w.bank != nil {
		w.bank.Routes(mux)
	}
}

// Workers are the bank's loops.
func (w *Ways) Workers() []app.Worker {
	if w.bank == nil {
		return nil
	}
	return w.bank.Workers()
}
