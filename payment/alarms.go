package payment

import (
	"context"
	"sync"
	"time"

	"stampede/platform/alarm"
)

// raise records an alarm outside any transaction, so that it outlives the one
// that was rolled back because of it.
func (s *Service) raise(ctx context.Context, code alarm.Code, subject, detail string) {
	if err := alarm.Raise(ctx, s.deps.DB, code, subject, detail); err != nil {
		s.deps.Log.ErrorContext(ctx, "alarm not recorded", "code", string(code), "subject", subject, "detail", detail, "error", err)
	}
}

// providerFails returns what a provider's wrapper calls when its calls keep
// failing. The call that noticed may have run out of time, so the record has a
// little of its own.
func (s *Service) providerFails(name string) func(ctx context.Context, call string, err error) {
	return func(ctx context.Context, call string, err error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
		s.raise(ctx, alarm.PaymentProviderFailing, "provider "+name, call+": "+err.Error())
	}
}

// recordTimeout bounds how long a shopper's request may be held up by a record
// that is made at most once a minute.
const recordTimeout = 2 * time.Second

const (
	// troubleAfter is how long a provider's calls must have failed, one and all,
	// before a person is asked: longer than a deployment on its side takes.
	troubleAfter = 30 * time.Second
	// troubleCalls is how many calls must have failed in that time, so that one
	// forgotten payment does not speak for the provider.
	troubleCalls = 5
	// troubleEvery is how often an ongoing trouble is recorded again.
	troubleEvery = time.Minute
)

// trouble notices that a provider's calls keep failing. Safe for concurrent use.
type trouble struct {
	mu     sync.Mutex
	since  time.Time // of the first failure after the last answer
	calls  int       // failed since then
	raised time.Time
}

// answered notes that the provider answered, whatever it said.
func (t *trouble) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since, t.calls = time.Time{}, 0
}

// failed notes a call without an answer and reports whether to ask for a
// person now.
func (t *trouble) failed(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		t.since = now
	}
	t.calls++
	if t.calls < troubleCalls || now.Sub(t.since) < troubleAfter || now.Sub(t.raised) < troubleEvery {
		return false
	}
	t.raised = now
	return true
}
