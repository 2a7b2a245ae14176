package payment

import (
	"context"
	"errors"
	"testing"

	"stampede/payment/provider"
	"stampede/platform/base/fault"
	"stampede/platform/watch/preflight"
)

// away is a provider that does not answer.
type away struct{ provider.Provider }

func (away) Profile() provider.Profile {
	return provider.Profile{Name: "away", Merchant: "m", Methods: []provider.Method{"page"}, MinWindow: 1}
}

func (away) Query(context.Context, provider.Payment) (provider.Status, error) {
	return provider.Status{}, errors.New("no route")
}

// A provider that does not answer is a warning while another does, else a stop; that
// the sandbox bank takes no money is said.
func providersAreAskedBeforeASale(t *testing.T, s *bundle) {
	for _, c := range []struct {
		providers []provider.Provider
		want      []preflight.Finding
	}{
		{[]provider.Provider{s.client}, []preflight.Finding{{Level: preflight.OK, Subject: "sandbox", Found: fault.T("Ready, for payment windows from 1s.", "可用，付款时限至少 1s。")}}},
		{[]provider.Provider{away{}, s.client}, []preflight.Finding{
			{Level: preflight.Warning, Subject: "away", Found: fault.T("No usable answer: no route.", "没有可用的响应：no route。")},
			{Level: preflight.OK, Subject: "sandbox", Found: fault.T("Ready, for payment windows from 1s.", "可用，付款时限至少 1s。")},
		}},
		{[]provider.Provider{away{}}, []preflight.Finding{{Level: preflight.Stop, Subject: "away", Found: fault.T("No usable answer: no route.", "没有可用的响应：no route。")}}},
	} {
		shop := s.instance(options{}, c.providers...)
		if practice, err := shop.practised(t.Context(), preflight.Need{}); err != nil || (len(practice) > 0) != (c.providers[len(c.providers)-1] == provider.Provider(s.client)) {
			t.Errorf("the sandbox bank: %v, %v", practice, err)
		}
		found, err := shop.askProviders(t.Context(), preflight.Need{})
		if err != nil || len(found) != len(c.want) {
			t.Fatalf("%v, %v", found, err)
		}
		for i, f := range found {
			if f != c.want[i] {
				t.Errorf("%+v, want %+v", f, c.want[i])
			}
		}
	}
}
