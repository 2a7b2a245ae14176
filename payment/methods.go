package payment

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
)

// paymentMethod is a way to pay as a shopper's page offers it.
type paymentMethod struct {
	Provider   string          `json:"provider" example:"wechat"`
	Method     provider.Method `json:"method" example:"native"`
	Kind       provider.Kind   `json:"kind" enum:"redirect,qr_code,in_app" doc:"What the answer to a payment request has: pay_url, qr_code, or jsapi, which needs a login with the provider's app"`
	Currencies []string        `json:"currencies,omitempty" doc:"Those that it takes; any when left out" example:"[\"CNY\"]"`
	// A shopper may begin to pay until so long before the order's deadline.
	LeastSeconds int `json:"least_seconds" doc:"How much of an order's time to pay has to be left"`
}

// routes registers the start of a payment and the list of the shop's ways to pay.
func (ck *checkout) routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/orders/{no}/payments", ID: "pay-order", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Class: httpx.Critical,
		Summary: "Start paying: where to pay, and until when",
		Description: "Send the shopper to `pay_url`, show `qr_code`, or pass `jsapi` to the provider's app, whichever the method gives. While the number is still in line the answer is `order-queued`: ask again after Retry-After. Repeating the request returns the same payment while it is open; naming another " +
			"provider, method or `coupon` closes it there first, and then `amount` is what the order costs with that coupon. An order that costs nothing is paid by this request: `status` is `captured` and there is no `pay_url`.",
		Refuses: []*fault.Error{
			order.ErrNotEntered, order.ErrQueued, order.ErrNotPayable, order.ErrDetailsMissing, order.ErrClosing,
			order.ErrCouponNotUsable, ErrUnavailable, bus.ErrUnknown,
		},
	}, ck.start)
	list := paymentMethods{Methods: []paymentMethod{}}
	for _, p := range ck.deps.Providers {
		profile := p.Profile()
		for _, m := range profile.Methods {
			list.Methods = append(list.Methods, paymentMethod{
				Provider: profile.Name, Method: m, Kind: profile.Kind(m), Currencies: profile.Currencies,
				LeastSeconds: int((profile.MinWindow + time.Second - 1) / time.Second),
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
func (ck *checkout) offers(by way) ([]offer, error) {
	var all []offer
	for _, p := range ck.deps.Providers {
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
	case ck.named[by.Provider] == nil && by.Provider != "":
		return nil, ck.errNoSuchWay("There is no payment provider %q here.", by.Provider)
	default:
		return nil, ck.errNoSuchWay("There is no way %q to pay here.", by.Method)
	}
}

// loggedIn leaves the offers that need no login with a provider's app, or one that the
// user has. It fails with errNoLogin if that leaves none.
func (ck *checkout) loggedIn(ctx context.Context, all []offer, user int64) (left []offer, err error) {
	for _, by := range all {
		if app := by.Logins[by.Method]; app != "" {
			id := ""
			if ck.deps.OpenID != nil {
				if id, err = ck.deps.OpenID(ctx, user, app); err != nil {
					return nil, err
				}
			}
			if id == "" {
				continue
			}
		}
		left = append(left, by)
	}
	if len(left) == 0 && len(all) > 0 {
		return nil, errNoLogin
	}
	return left, nil
}

// taking leaves the offers that take a currency.
func (ck *checkout) taking(all []offer, currency string) ([]offer, error) {
	left := slices.DeleteFunc(slices.Clone(all), func(by offer) bool { return !by.Takes(currency) })
	if len(left) == 0 {
		return nil, ck.errNoSuchWay("This way to pay does not take %s.", currency)
	}
	return left, nil
}

// replaceable reports why an open payment is not given up for any of the offers: none
// takes its currency, or there is too little time left for each.
func (ck *checkout) replaceable(p paymentdb.PaymentsPayment, offers []offer) error {
	left, err := ck.taking(offers, p.Currency)
	if err == nil && !slices.ContainsFunc(left, func(by offer) bool { return time.Until(p.ExpiresAt) > by.MinWindow }) {
		err = errTooLate.With("order_status", orderevent.StatusPending)
	}
	return err
}

// errNoSuchWay refuses a choice and lists those that there are.
func (ck *checkout) errNoSuchWay(format string, choice any) error {
	var have []string
	for _, p := range ck.deps.Providers {
		profile := p.Profile()
		methods := make([]string, len(profile.Methods))
		for i, m := range profile.Methods {
			methods[i] = string(m)
		}
		have = append(have, profile.Name+" ("+strings.Join(methods, ", ")+")")
	}
	refused := fault.Text{fmt.Sprintf(format, choice), fmt.Sprintf("没有“%v”。", choice)}
	if len(have) == 0 {
		return fault.Plain(fault.Invalid, fault.T("{refused} There is none.", "{refused}商家没有配置支付渠道。", "refused", refused))
	}
	return fault.Plain(fault.Invalid, fault.T("{refused} Choose one of {ways}.", "{refused}可选：{ways}。", "refused", refused, "ways", strings.Join(have, "; ")))
}
