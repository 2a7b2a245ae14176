package payment

import (
	"time"

	"stampede/order"
	"stampede/payment/refund"
)

const (
	// callTimeout bounds one call to a provider with its retries: a shopper waits no
	// longer for a payment to be created.
	callTimeout = 10 * time.Second
	// closeTimeout bounds the closing of all payments of one CloseOpen, below the time
	// for which an order is claimed, after which another payment could be started: the
	// claim and the closing of the order take a bookTimeout each.
	closeTimeout = order.ClosingFor - 2*bookTimeout
	// closeParallel is how many payments are closed at their providers
	// concurrently, and how many a worker queries: a sweep of 500 orders ends in a
	// second against a provider that answers in 30 ms.
	closeParallel = 16
	// inFlight is how long money may lie on an order that is not paid before the
	// checks report a violation (I5).
	inFlight = time.Minute
	// providerTakes is how long a provider may process a refund that it has taken on:
	// banks credit a card within some working days.
	providerTakes = 7 * 24 * time.Hour
)

// Settings are an operator's settings about payments.
type Settings struct {
	CloseUnansweredAfter time.Duration `name:"close-unanswered-after" default:"10m" env:"STAMPEDE_CLOSE_UNANSWERED_AFTER" help:"How long after its deadline an order waits for its payment provider's word before it is closed without it; money that the provider took is then late: it gets units of the backup, or goes back." min:"30s" max:"24h" rare:""`
}

// Config is the shop's settings from main, plus values that only tests change.
type Config struct {
	Settings
	Refunds refund.Settings
	// ReturnURL is where a provider's page sends the shopper's browser after
	// paying, with the order's number in the query (?order=…); if empty, the
	// shopper stays on that page.
	ReturnURL string
	// Zone is the shop's time zone, for the days of statements; nil is UTC.
	Zone *time.Location
	// QueryAfter is how old an open payment is when its provider is first queried
	// because no callback came, longer than callbacks take; the wait doubles up to
	// QueryAtMost.
	QueryAfter  time.Duration
	QueryAtMost time.Duration
	// RefundBackoff is the wait after a refund was first requested; it doubles up
	// to RefundAtMost.
	RefundBackoff time.Duration
	RefundAtMost  time.Duration
	// RefundAlarmAfter is how many attempts, 8 of which take about 8 min, an
	// unfinished refund gets before it raises an alarm; the retries continue after
	// it.
	RefundAlarmAfter int
	// SweepEvery is how often the expiry sweeper runs without being woken.
	SweepEvery time.Duration
	// SweepLimit is how many orders are claimed and closed at a time: enough that
	// a sell-out's worth expires in seconds, few enough that the stock rows are
	// not locked for long.
	SweepLimit int
	// Poll is how often the workers check for due work when nothing woke them.
	Poll time.Duration
}

// DefaultConfig is Stampede's configuration.
func DefaultConfig() Config {
	return Config{
		Settings:   Settings{CloseUnansweredAfter: 10 * time.Minute},
		QueryAfter: 30 * time.Second, QueryAtMost: 10 * time.Minute,
		RefundBackoff: 2 * time.Second, RefundAtMost: 10 * time.Minute, RefundAlarmAfter: 8,
		SweepEvery: time.Second, SweepLimit: 500, Poll: time.Second,
	}
}
