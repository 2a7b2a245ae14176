package payment

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"stampede/payment/provider"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

// paymentMethod is a way to pay as a shopper's page offers it.
type paymentMethod struct {
	Provider   string          `json:"provider" example:"wechat"`
	Method     provider.Method `json:"method" example:"native"`
	Kind       provider.Kind   `json:"kind" enum:"redirect,qr_code,in_app" doc:"What the answer to a payment request has: pay_url, qr_code, or jsapi, which needs a login with the provider's app"`
	Currencies []string        `json:"currencies,omitempty" doc:"Those that it takes; any when left out"`
	// A shopper may begin to pay until so long before the order's deadline.
	LeastSeconds int `json:"least_seconds" doc:"How much of an order's time to pay has to be left"`
}

// methodRoutes registers the list of the shop's ways to pay.
func (s *Service) methodRoutes(rt *httpx.Router) {
	list := paymentMethods{Methods: []paymentMethod{}}
	for _, p := range s.deps.Providers {
		profile := p.Profile()
		for _, m := range profile.Methods {
			list.Methods = append(list.Methods, paymentMethod{
				Provider: profile.Name, Method: m, Kind: profile.Kind(m), Currencies: profile.Currencies, LeastSeconds: int((profile.MinWindow + time.Second - 1) / time.Second),
			})
		}
	}
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/payment-methods", ID: "list-payment-methods", Tag: "shopper",
		Summary:     "The shop's ways to pay",
		Description: "It changes only when the server restarts. Free orders need none.",
	}, func(context.Context, *struct{}) (*httpx.Output[paymentMethods], error) {
		return httpx.Answer(list), nil
	})
}

// paymentMethods is the list of the shop's ways to pay.
type paymentMethods struct {
	Methods []paymentMethod `json:"methods" nullable:"false" doc:"The preferred first"`
}

// offer is one way to pay that the shop has.
type offer struct {
	provider.Profile
	provider.Method
}

// offers returns the shop's ways to pay that a shopper's choice leaves, the preferred
// first.
func (s *Service) offers(by way) ([]offer, error) {
	var all []offer
	for _, p := range s.deps.Providers {
		profile := p.Profile()
		if by.Provider != "" && by.Provider != profile.Name {
			continue
		}
		if by.Method == "" {
			all = append(all, offer{profile, profile.Methods[0]})
		} else if slices.Contains(profile.Methods, by.Method) {
			all = append(all, offer{profile, by.Method})
		}
	}
	switch {
	case len(all) > 0 || by.Provider == "" && by.Method == "":
		return all, nil
	case s.named[by.Provider] == nil && by.Provider != "":
		return nil, s.errNoSuchWay("There is no payment provider %q here.", by.Provider)
	default:
		return nil, s.errNoSuchWay("There is no way %q to pay here.", by.Method)
	}
}

// errNoSuchWay refuses a choice and lists those that there are.
func (s *Service) errNoSuchWay(format string, choice any) error {
	var have []string
	for _, p := range s.deps.Providers {
		profile := p.Profile()
		methods := make([]string, len(profile.Methods))
		for i, m := range profile.Methods {
			methods[i] = string(m)
		}
		have = append(have, profile.Name+" ("+strings.Join(methods, ", ")+")")
	}
	if len(have) == 0 {
		return fault.Plainf(fault.Invalid, format+" There is none.", choice)
	}
	return fault.Plainf(fault.Invalid, format+" Choose one of %s.", choice, strings.Join(have, "; "))
}
