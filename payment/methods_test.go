package payment

import (
	"net/http"
	"strings"
	"testing"

	"stampede/payment/provider"
	"stampede/platform/base/fault"
)

// yuanOnly is a provider with two methods and one currency.
type yuanOnly struct{ provider.Provider }

func (yuanOnly) Profile() provider.Profile {
	return provider.Profile{
		Name: "yuan", Merchant: "m", Methods: []provider.Method{"native", "jsapi"}, MinWindow: 1, Currencies: []string{"CNY"},
		Kinds: map[provider.Method]provider.Kind{"native": provider.Scan, "jsapi": provider.InApp},
	}
}

func waysToPayAreListed(t *testing.T, s *bundle) {
	a := s.get(0, "/api/v1/payment-methods")
	list, _ := a.body["methods"].([]any)
	if len(list) != 1 {
		t.Fatalf("%d %v", a.status, a.body)
	}
	if m, _ := list[0].(map[string]any); m["provider"] != "sandbox" || m["method"] != "page" || m["kind"] != "redirect" || m["least_seconds"] != 1.0 || m["currencies"] != nil {
		t.Errorf("%v", m)
	}
	no, user := s.one(100)
	for _, body := range []string{`{"provider":"bitcoin"}`, `{"provider":"sandbox","method":"cash"}`, `{"method":"cash"}`} {
		a := s.post(user, "/api/v1/orders/"+no.String()+"/payments", body)
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.text("detail"), "sandbox (page)") {
			t.Errorf("%s: %d %q does not name the ways", body, a.status, a.text("detail"))
		}
	}
	shop := s.instance(options{}, yuanOnly{s.client}, s.client)
	dollars, buyer := s.one(100)
	s.exec(`UPDATE orders.orders SET currency = 'USD' WHERE order_no = $1`, dollars)
	if p, err := shop.begin(t.Context(), dollars, buyer, way{}); err != nil || p.Provider != "sandbox" {
		t.Errorf("an order in dollars is paid by %q, %v", p.Provider, err)
	}
	if _, err := shop.begin(t.Context(), no, user, way{Provider: "yuan"}); err != nil {
		t.Errorf("an order in yuan: %v", err)
	}
	second, other := s.one(100)
	s.exec(`UPDATE orders.orders SET currency = 'USD' WHERE order_no = $1`, second)
	if _, err := shop.begin(t.Context(), second, other, way{Provider: "yuan"}); fault.From(err).Kind != fault.Invalid {
		t.Errorf("dollars by a way that takes yuan only: %v", err)
	}
}
