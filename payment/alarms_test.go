package payment

import (
	"context"
	"errors"
	"testing"
	"time"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
	"stampede/platform/watch/preflight"
	"stampede/platform/workshop/require"
)

// A bank that answers no call for half a minute raises an alarm, once a minute;
// one answer, whatever it says, restarts the half minute.
func TestProviderThatKeepsFailingAsksForAPerson(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	p := s.named["sandbox"].(metered)
	ask := func(times int, wantErr bool) {
		t.Helper()
		for range times {
			if _, err := p.Query(t.Context(), provider.Payment{No: ids.NewFor(1)}); (err != nil) != wantErr {
				t.Fatalf("query: %v", err)
			}
		}
	}
	alarms := func(want int) {
		t.Helper()
		require.Equal(t, "alarms", read[int](s, `SELECT coalesce(sum(count), 0) FROM platform.alarms WHERE code = $1 AND subject = 'provider sandbox'`, alarmProviderFailing.Code), want)
	}
	earlier := func() { // as if it had failed for half a minute
		p.trouble.mu.Lock()
		defer p.trouble.mu.Unlock()
		p.trouble.since = p.trouble.since.Add(-troubleAfter)
	}
	s.bank.shut.Store(true)
	ask(troubleCalls+1, true)
	alarms(0) // a blip
	earlier()
	ask(2, true)
	alarms(1)
	s.bank.shut.Store(false)
	ask(1, false)
	s.bank.shut.Store(true)
	ask(troubleCalls-1, true)
	earlier()
	p.trouble.mu.Lock()
	p.trouble.raised = time.Time{}
	p.trouble.mu.Unlock()
	alarms(1) // too few calls, however long
	ask(1, true)
	alarms(2)
}

// away is a provider that does not answer.
type away struct{ provider.Provider }

func (away) Profile() provider.Profile {
	return provider.Profile{Name: "away", Merchant: "m", Methods: []provider.Method{"page"}, MinWindow: 1}
}

func (away) Query(context.Context, provider.Payment) (provider.Status, error) {
	return provider.Status{}, errors.New("no route")
}

// A provider that does not answer is a warning while another does, else a stop; that
// providers for practice take no money is said, whatever they are called.
func providersAreAskedBeforeASale(t *testing.T, s *bundle) {
	for _, c := range []struct {
		providers []provider.Provider
		practice  bool
		want      []preflight.Level
	}{
		{[]provider.Provider{s.client}, false, []preflight.Level{preflight.OK}},
		{[]provider.Provider{away{}, s.client}, true, []preflight.Level{preflight.Warning, preflight.OK}},
		{[]provider.Provider{away{}}, true, []preflight.Level{preflight.Stop}},
	} {
		shop := s.instance(options{practice: c.practice}, c.providers...)
		practice, err := shop.practised(t.Context(), preflight.Need{})
		require.NoError(t, err)
		require.Equal(t, "it finds that no real money is taken", len(practice) == 1, c.practice)
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
