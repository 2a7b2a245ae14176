package payment

import (
	"context"

	"stampede/platform/alarm"
)

// The alarms of this module. Each is about money, so each says what a person
// has to look at.
var (
	alarmMismatch = alarm.Alarm{
		Code: "payment-mismatch", Severity: alarm.Critical,
		NextAction: "A provider stated another sum than was asked for. The order is not paid; compare the payment with the provider's statement.",
	}
	alarmUnknown = alarm.Alarm{
		Code: "payment-unknown", Severity: alarm.Critical,
		NextAction: "A provider reports money under a number that is not ours. Find it in the provider's statement and refund it there.",
	}
	alarmForeign = alarm.Alarm{
		Code: "payment-foreign-merchant", Severity: alarm.Critical,
		NextAction: "A provider signed a message for another merchant with our key. Compare the merchant number in the settings with the provider's.",
	}
	alarmReused = alarm.Alarm{
		Code: "payment-transaction-reused", Severity: alarm.Critical,
		NextAction: "A provider gave two movements one transaction number. Ask the provider; the second movement is not in the ledger.",
	}
	alarmRefundFailed = alarm.Alarm{
		Code: "refund-failed", Severity: alarm.Critical,
		NextAction: "The provider will not refund this. The shopper's money is still with us: pay it back another way.",
	}
	alarmRefundStuck = alarm.Alarm{
		Code: "refund-stuck", Severity: alarm.Warning,
		NextAction: "The refund has been tried often and is still not done; it is tried on. See its last_error and whether the provider is reachable.",
	}
	alarmNoProvider = alarm.Alarm{
		Code: "payment-provider-missing", Severity: alarm.Critical,
		NextAction: "Payments or refunds of a provider are open that is not configured any more. Configure it again until they are done.",
	}
)

// raiseIn records an alarm in the transaction of what it is about, so that
// neither exists without the other.
func raiseIn(ctx context.Context, db alarm.Execer, a alarm.Alarm, subject string) error {
	a.Subject = subject
	return alarm.Raise(ctx, db, a)
}

// raise records an alarm outside any transaction, so that it outlives the one
// that was rolled back because of it.
func (s *Service) raise(ctx context.Context, a alarm.Alarm, subject string) {
	if err := raiseIn(ctx, s.deps.DB, a, subject); err != nil {
		s.deps.Log.ErrorContext(ctx, "alarm not recorded", "code", a.Code, "subject", subject, "next_action", a.NextAction, "error", err)
	}
}
