package payment

import (
	"testing"
	"time"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
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
