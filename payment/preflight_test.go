package payment

import (
	"context"
	"errors"
	"testing"

	"stampede/payment/provider"
	"stampede/platform/watch/preflight"
	"stampede/platform/workshop/require"
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
		practice  int
		want      []preflight.Level
	}{
		{[]provider.Provider{s.client}, 1, []preflight.Level{preflight.OK}},
		{[]provider.Provider{away{}, s.client}, 1, []preflight.Level{preflight.Warning, preflight.OK}},
		{[]provider.Provider{away{}}, 0, []preflight.Level{preflight.Stop}},
	} {
		shop := s.instance(options{}, c.providers...)
		practice, err := shop.practised(t.Context(), preflight.Need{})
		require.NoError(t, err)
		require.Equal(t, "findings about the sandbox bank", len(practice), c.practice)
		found, err := shop.askProviders(t.Context(), preflight.Need{})
		require.NoError(t, err)
		var got []preflight.Level
		for i, f := range found {
			got = append(got, f.Level)
			require.Equal(t, "subject", f.Subject, c.providers[i].Profile().Name)
		}
		require.Equal(t, "levels", got, c.want)
	}
}
