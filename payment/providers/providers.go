// Package providers opens the ways to pay that the shop's settings name, in the order
// in which shoppers are offered them: the real companies, those that are practised
// with, the sandbox bank.
//
// A company's settings are complete, or it is absent. For another company, write a
// folder beside payment/wechatpay that implements provider.Provider and passes
// payment/providertest, give it Settings, and add it to Open.
package providers

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/payment/alipay"
	alipaystandin "stampede/payment/alipay/standin"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/payment/stripe"
	stripestandin "stampede/payment/stripe/standin"
	"stampede/payment/wechatpay"
	wechatstandin "stampede/payment/wechatpay/standin"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/store/pulse"
)

// Settings are the settings of all ways to pay.
type Settings struct {
	WeChat  wechatpay.Settings `embed:"" group:"Payments:"`
	Alipay  alipay.Settings    `embed:"" group:"Payments:"`
	Stripe  stripe.Settings    `embed:"" group:"Payments:"`
	Sandbox sandbox.Settings   `embed:"" group:"Practice:"`
	PayWith []string           `group:"Practice:" name:"pay" env:"STAMPEDE_PAY" enum:"wechat,alipay,stripe" help:"Also serve stand-ins of these payment companies and pay through them, comma-separated: wechat, alipay, stripe. Like the sandbox bank, never on a real shop." practice:"" rare:""`
}

// Practice reports whether some of the ways take no real money.
func (s Settings) Practice() bool { return s.Sandbox.SandboxBank || len(s.PayWith) > 0 }

// Check refuses to practise with a company that the shop has an account with. The
// companies' settings check themselves.
func (s Settings) Check() error {
	for i, company := range s.PayWith {
		if slices.Contains(s.PayWith[:i], company) {
			return fmt.Errorf("--pay names %s twice", company)
		}
		if on := map[string]bool{wechat: s.WeChat.On(), ali: s.Alipay.On(), card: s.Stripe.On()}; on[company] {
			return fmt.Errorf("--pay practises with %s, whose real account is configured: remove one of them", company)
		}
	}
	return nil
}

// The companies of --pay, which are also the providers' names.
const (
	wechat = "wechat"
	ali    = "alipay"
	card   = "stripe"
)

// Deps are what the providers need; all are required.
type Deps struct {
	Secret []byte // the sandbox bank's
	// PublicURL is where shoppers and companies reach this process, LocalURL where it
	// reaches itself.
	PublicURL, LocalURL string
	DB                  *pgxpool.Pool
	Pulse               *pulse.Pulse // of the sandbox bank
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
	add := func(p provider.Provider) { w.Providers = append(w.Providers, p) }
	addWeChat := func(cfg wechatpay.Config) {
		cfg.Metrics = deps.Metrics
		add(wechatpay.New(cfg, deps.Clock))
	}
	addAlipay := func(cfg alipay.Config) {
		cfg.Metrics = deps.Metrics
		add(alipay.New(cfg, deps.Clock))
	}
	addStripe := func(cfg stripe.Config) {
		cfg.Metrics = deps.Metrics
		add(stripe.New(cfg))
	}
	if set.WeChat.On() {
		cfg, err := set.WeChat.Config()
		if err != nil {
			return nil, err
		}
		addWeChat(cfg)
	}
	if set.Alipay.On() {
		cfg, err := set.Alipay.Config()
		if err != nil {
			return nil, err
		}
		addAlipay(cfg)
	}
	if set.Stripe.On() {
		addStripe(set.Stripe.Config())
	}
	practice := sandbox.Deps{DB: deps.DB, Pulse: deps.Pulse, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics}
	if !set.Practice() {
		return w, nil
	}
	var own *sandbox.Client
	w.bank, own = sandbox.Open(deps.Secret, deps.PublicURL, deps.LocalURL, practice)
	// The keys are new at each start, so that a practice has one instance.
	for _, company := range set.PayWith {
		switch company {
		case wechat:
			standIn, cfg := wechatstandin.Pair(deps.LocalURL, deps.Clock.Now, deps.Log)
			w.bank.Speak(standIn)
			addWeChat(cfg)
		case ali: // shoppers' browsers go to the gateway too
			standIn, cfg := alipaystandin.Pair(deps.PublicURL, deps.Clock.Now, deps.Log)
			w.bank.Speak(standIn)
			addAlipay(cfg)
		case card:
			standIn, cfg := stripestandin.Pair(deps.LocalURL, deps.Clock.Now, deps.Log)
			w.bank.Speak(standIn)
			addStripe(cfg)
		}
	}
	if set.Sandbox.SandboxBank {
		add(own)
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
