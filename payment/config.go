package payment

import (
	"errors"
	"time"
)

// Config is what an operator may set.
type Config struct {
	// ReturnURL is where a provider's page sends the shopper's browser after
	// paying, with the order's number in the query (?order=…); empty leaves the
	// shopper there.
	ReturnURL string
	// CallTimeout bounds one call to a provider with its retries. Defaults to
	// 10 s: a shopper waits on a creation no longer.
	CallTimeout time.Duration
	// CloseTimeout bounds the closing of all payments of one CloseOpen. Defaults
	// to 20 s, below the 30 s for which an order is claimed: after those another
	// payment could be started.
	CloseTimeout time.Duration
	// CloseParallel is how many payments are closed at their providers at once,
	// and how many are asked after by a worker. Defaults to 16: a sweep of 500
	// orders ends in a second against a provider that answers in 30 ms.
	CloseParallel int
	// QueryAfter is how old an open payment is when its provider is first asked
	// because no callback came; the wait doubles up to QueryAtMost. Default to
	// 30 s, longer than callbacks take, and 10 min.
	QueryAfter  time.Duration
	QueryAtMost time.Duration
	// RefundBackoff is the wait after a refund was first asked for; it doubles
	// up to RefundAtMost. Default to 2 s and 10 min.
	RefundBackoff time.Duration
	RefundAtMost  time.Duration
	// RefundAlarmAfter is after how many attempts an unfinished refund becomes an
	// alarm; it is tried on all the same. Defaults to 8, about 8 min.
	RefundAlarmAfter int
	// Poll is how often the workers look for what has become due when nothing
	// woke them. Defaults to 1 s.
	Poll time.Duration
	// InFlight is how long money may lie on an order that is not paid before the
	// books call it a violation (I5). Defaults to 60 s.
	InFlight time.Duration
}

// DefaultConfig is what Stampede runs with when nothing is set.
func DefaultConfig() Config {
	return Config{
		CallTimeout: 10 * time.Second, CloseTimeout: 20 * time.Second, CloseParallel: 16,
		QueryAfter: 30 * time.Second, QueryAtMost: 10 * time.Minute,
		RefundBackoff: 2 * time.Second, RefundAtMost: 10 * time.Minute, RefundAlarmAfter: 8,
		Poll: time.Second, InFlight: time.Minute,
	}
}

// Validate reports every setting that cannot work.
func (c Config) Validate() error {
	var errs []error
	bad := func(wrong bool, sentence string) {
		if wrong {
			errs = append(errs, errors.New("payment: "+sentence))
		}
	}
	bad(c.CallTimeout <= 0, "CallTimeout must be above 0")
	bad(c.CloseTimeout < c.CallTimeout, "CloseTimeout must be at least CallTimeout")
	bad(c.CloseParallel < 1 || c.CloseParallel > 1024, "CloseParallel must be between 1 and 1024")
	bad(c.QueryAfter < time.Millisecond || c.QueryAtMost < c.QueryAfter, "QueryAfter must be at least 1 ms, QueryAtMost no less than it")
	bad(c.RefundBackoff < time.Millisecond || c.RefundAtMost < c.RefundBackoff, "RefundBackoff must be at least 1 ms, RefundAtMost no less than it")
	bad(c.RefundAlarmAfter < 1, "RefundAlarmAfter must be at least 1")
	bad(c.Poll < time.Millisecond, "Poll must be at least 1 ms")
	bad(c.InFlight < 0, "InFlight must not be negative")
	return errors.Join(errs...)
}
