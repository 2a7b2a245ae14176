package payment

import (
	"context"
	"sync"
	"time"

	"stampede/platform/watch/alarm"
)

// The alarms about money.
var (
	alarmMismatch = alarm.Define("payment-mismatch", alarm.Critical,
		"A provider reported another sum than was asked for. The order is not paid.",
		"Compare the payment with the provider's statement; money that arrived is refunded automatically once the provider confirms it.")
	alarmUnknown = alarm.Define("payment-unknown", alarm.Critical,
		"A provider reports money under a number that is not ours.",
		"Find it in the provider's statement and refund it there.")
	alarmForeignMerchant = alarm.Define("payment-foreign-merchant", alarm.Critical,
		"A provider signed a message for another merchant with our key.",
		"Compare the merchant number in the settings with the provider's.")
	alarmTransactionReused = alarm.Define("payment-transaction-reused", alarm.Critical,
		"A provider gave two movements one transaction number; the second movement is not in the ledger.",
		"Ask the provider which of the two is real, and have it correct the other.")
	alarmForged = alarm.Define("payment-callbacks-forged", alarm.Warning,
		"Many callbacks came within a minute that the provider did not sign, or that cannot be read. Each was refused and changed nothing.",
		"If the address in the detail is the provider's, its key has changed: compare the keys in the settings with the provider's; until then payments are found by queries, minutes later. Otherwise block the address at the proxy.")
	alarmProviderMissing = alarm.Define("payment-provider-missing", alarm.Critical,
		"Payments or refunds are open at a provider that is no longer configured.",
		"Configure the provider again until they are settled.")
	alarmProviderFailing = alarm.Define("payment-provider-failing", alarm.Critical,
		"Calls to a payment provider keep failing: shoppers cannot pay with it, and orders with an open payment are closed late.",
		"Check the provider's status page and the log. Their units are not sold again meanwhile, so inform shoppers if the failure lasts.")
	alarmUnanswered = alarm.Define("payment-closed-unanswered", alarm.Critical,
		"Orders were closed without their payment provider's word, because it gave none for as long as the settings allow. Shoppers may have paid.",
		"Check the provider. Once it answers, money that it took gets units of the item's backup or is refunded; compare its statement of the day afterwards.")
	alarmLate = alarm.Define("payment-late", alarm.Warning,
		"Money came for an order that was already closed, refused or paid. It is refunded automatically.",
		"Do nothing about single cases. If they pile up, the payment window is too short for the provider, or its callbacks are late.")
	alarmRefundFailed = alarm.Define("refund-failed", alarm.Critical,
		"The provider refuses a refund. The shopper's money is still with the shop.",
		"Retry it, or pay it back in another way and settle it by hand with the receipt's number; if the shop lost a chargeback of the payment, end the refund by it (GET /api/v1/admin/refunds?status=failed).")
	alarmRefundStuck = alarm.Define("refund-stuck", alarm.Warning,
		"A refund was attempted often and is still not done. Attempts go on.",
		"Read the refund's last_error and check whether the provider is reachable.")
)

// raise records an alarm outside any transaction, so that it survives the
// rollback that it is about.
func (g *gateway) raise(ctx context.Context, a *alarm.Definition, subject, detail string) {
	if err := a.Raise(ctx, g.deps.DB, subject, detail); err != nil {
		g.deps.Log.ErrorContext(ctx, "alarm not recorded", "code", string(a.Code), "subject", subject, "detail", detail, "error", err)
	}
}

// providerFails returns what a provider's wrapper calls when its calls keep
// failing. The context of the failed call may have expired, so recording the
// alarm gets its own short timeout.
func (g *gateway) providerFails(name string) func(ctx context.Context, call string, err error) {
	return func(ctx context.Context, call string, err error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
		g.raise(ctx, alarmProviderFailing, "provider "+name, call+": "+err.Error())
	}
}

// recordTimeout bounds how long recording the alarm, at most once a minute, may
// delay a shopper's request.
const recordTimeout = 2 * time.Second

const (
	// troubleAfter is how long every call to a provider must have failed before
	// the alarm is raised: longer than a deployment on its side takes.
	troubleAfter = 30 * time.Second
	// troubleCalls is how many calls must have failed in that time, so that one
	// bad payment does not raise an alarm about the provider.
	troubleCalls = 5
	// troubleEvery is how often the alarm is recorded again while the failure
	// lasts.
	troubleEvery = time.Minute
)

// trouble detects that a provider's calls keep failing. Safe for concurrent use.
type trouble struct {
	mu     sync.Mutex
	since  time.Time // of the first failure after the last answer
	calls  int       // failed since then
	raised time.Time
}

// answered notes that the provider answered, whatever the answer.
func (t *trouble) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since, t.calls = time.Time{}, 0
}

// failed notes a call without an answer and reports whether to raise the alarm
// now.
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
