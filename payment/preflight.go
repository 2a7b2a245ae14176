package payment

import (
	"context"
	"slices"
	"sync"

	"stampede/payment/provider"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/watch/preflight"
)

// Preflight returns the checks of the providers: each is asked for a payment that
// does not exist, which proves address, keys and clock without moving money.
func (s *Service) Preflight() []preflight.Check {
	return []preflight.Check{{
		Code: "provider-ready", Titles: fault.Text{"Payment provider", "支付渠道"},
		Next: fault.Text{
			"Check the provider's keys and the network; shoppers are offered the others meanwhile.",
			"检查该渠道的密钥和网络；期间顾客可用其他渠道。",
		},
		Look: s.askProviders,
	}, {
		Code: "practice", Titles: fault.Text{"Real money", "真实收款"},
		Next: fault.Text{
			"Start the server without --sandbox-bank and --pay, and with a provider's keys.",
			"去掉 --sandbox-bank 和 --pay，并配置真实支付渠道后重启。",
		},
		Look: s.practised,
	}}
}

// practised finds ways to pay for practice.
func (s *Service) practised(context.Context, preflight.Need) ([]preflight.Finding, error) {
	if !s.deps.Practice {
		return nil, nil
	}
	return []preflight.Finding{{Level: preflight.Warning, Found: fault.T(
		"Payment methods for practice are on: they take no real money, and anyone pays there for nothing.",
		"付款方式中有演练渠道，不会真实收款，任何人都能不花钱完成付款。",
	)}}, nil
}

func (s *Service) askProviders(ctx context.Context, _ preflight.Need) ([]preflight.Finding, error) {
	found := make([]preflight.Finding, len(s.deps.Providers))
	var wg sync.WaitGroup
	for i, p := range s.deps.Providers {
		wg.Go(func() { found[i] = ask(ctx, p) })
	}
	wg.Wait()
	if !slices.ContainsFunc(found, func(f preflight.Finding) bool { return f.Level == preflight.OK }) {
		for i := range found {
			found[i].Level = preflight.Stop // nothing else takes money
		}
	}
	return found, nil
}

func ask(ctx context.Context, p provider.Provider) preflight.Finding {
	profile := p.Profile()
	f := preflight.Finding{Level: preflight.OK, Subject: profile.Name}
	_, err := p.Query(ctx, provider.Payment{No: ids.New()})
	if err != nil {
		f.Level, f.Found = preflight.Warning, fault.T("No usable answer: {why}.", "没有可用的响应：{why}。", "why", err)
	} else {
		f.Found = fault.T("Ready, for payment windows from {least}.", "可用，付款时限至少 {least}。", "least", profile.MinWindow)
	}
	return f
}
