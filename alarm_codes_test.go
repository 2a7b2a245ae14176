package main

import (
	"os"
	"strings"
	"testing"

	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/require"
)

// provoked names, for each code, the test that provokes its condition with real
// components and checks for the alarm, by the definition's name or the code.
var provoked = map[alarm.Code]struct{ file, test, finds string }{
	"books-broken":         {"inventory/checks_test.go", "TestSamplesFindBrokenBooks", "BooksBroken"},
	"books-differ":         {"inventory/load_test.go", "TestBooksThatDifferRaiseAnAlarm", `"books-differ"`},
	"stock-shortfall":      {"order/writer_test.go", "TestWriterAsksForAPersonAboutStock", `"stock-shortfall"`},
	"grants-without-stock": {"order/writer_test.go", "TestWriterAsksForAPersonAboutStock", `"grants-without-stock"`},
	"hold-stuck":           {"seckill/queue/sweeper_test.go", "TestSweeperRaisesAnAlarmForWhatStaysLost", `"hold-stuck"`},

	"newer-grants":    {"order/redrive_test.go", "TestWriterLeavesGrantsOfANewerVersion", `"newer-grants"`},
	"newer-events":    {"platform/watch/deadletters/keep_test.go", "TestNewerEventsRaiseAnAlarmAndAreNotKept", `"newer-events"`},
	"writer-stuck":    {"order/alarms_test.go", "TestWriterThatIsStuckAsksForAPerson", "alarmWriterStuck"},
	"dead-letter":     {"platform/watch/deadletters/redrive_test.go", "TestRedriveReachesItsConsumerAlone", `"dead-letter"`},
	"release-failing": {"inventory/keeper_test.go", "TestReleaseThatKeepsFailingAsksForAPerson", `"release-failing"`},
	"redis-differs":   {"inventory/compare_test.go", "TestComparisonReportsWhatItMustNotRepair", "differs"},
	"outbox-refused":  {"platform/store/outbox/refused_test.go", "TestRefusedEventFailsAndIsRedriven", "OutboxRefused"},
	"outbox-failed":   {"platform/store/outbox/refused_test.go", "TestRefusedEventFailsAndIsRedriven", "OutboxFailed"},
	"outbox-behind":   {"platform/watch/alarm/outbox_test.go", "TestOutboxThatIsBehindIsAnAlarm", "OutboxBehind"},

	"item-fenced":           {"seckill/preheat/onsale_test.go", "TestItemOnSaleWithoutStateIsAnAlarm", "alarmItemFenced"},
	"preheat-failed":        {"seckill/preheat/preheat_test.go", "TestFailedLoadsRaiseAnAlarm", "alarmPreheatFailed"},
	"redis-unreachable":     {"platform/watch/alarm/watch_test.go", "TestRedisThatIsAwayIsAnAlarm", "RedisUnreachable"},
	"redis-refuses-writes":  {"platform/workshop/shop/contract/outage_test.go", "TestOutageOfAStoreIsA503", "redis-refuses-writes"},
	"postgres-unreachable":  {"platform/watch/alarm/late_test.go", "TestPostgresThatWasAwayIsAnAlarmAfterwards", "PostgresUnreachable"},
	"bus-unhealthy":         {"platform/watch/alarm/watch_test.go", "TestBusThatIsUnwellIsAnAlarm", "BusUnhealthy"},
	"grants-full":           {"platform/watch/alarm/watch_test.go", "TestFullStreamOfGrantsIsAnAlarm", "GrantsFull"},
	"database-went-back":    {"platform/store/rollback/detector_test.go", "TestDatabaseRollbackUnderARunningServerRaisesAlarm", "DatabaseWentBack"},
	"disk-nearly-full":      {"platform/watch/alarm/watch_test.go", "TestDiskWithoutRoomIsAnAlarm", "DiskNearlyFull"},
	"alarm-webhook-failing": {"platform/watch/alarm/notifier_test.go", "TestReceiverThatDoesNotAnswerIsAnAlarm", "WebhookFailing"},
	"sms-ceiling":           {"platform/identity/account/ceiling_test.go", "TestAttackSMSBudget", "SMSCeiling"},
	"sms-ceiling-near":      {"platform/identity/account/ceiling_test.go", "TestAttackSMSBudget", "SMSNearCeiling"},
	"dangerous-setting":     {"platform/workshop/shop/attack/machine_test.go", "TestAttackBehindHTTPS", `"dangerous-setting"`},
	"store-restarted":       {"platform/workshop/shop/run/run_test.go", "assertStoresRestarted", "store-restarted"},

	"coupons-used-up":            {"order/coupon/rule_test.go", "TestReservationsGetTheirCouponsWhenTheyHaveClosed", "usedUp"},
	"chargeback":                 {"payment/chargeback_test.go", "TestChargebacks", `"chargeback"`},
	"dispute-unanswered":         {"order/dispute/dispute_test.go", "TestUnansweredDisputesAreAnAlarm", "alarmUnanswered"},
	"payment-mismatch":           {"payment/callback_test.go", "misbehavingBank", `"payment-mismatch"`},
	"payment-unknown":            {"payment/callback_test.go", "moneyThatIsNotOurs", `"payment-unknown"`},
	"payment-foreign-merchant":   {"payment/callback_test.go", "moneyThatIsNotOurs", `"payment-foreign-merchant"`},
	"payment-transaction-reused": {"payment/callback_test.go", "moneyThatIsNotOurs", `"payment-transaction-reused"`},
	"payment-callbacks-forged":   {"payment/callback_fuzz_test.go", "TestAttackForgedCallbacksFillTheLog", "alarmForged"},
	"payment-provider-missing":   {"payment/refund_test.go", "providerNoLongerConfigured", `"payment-provider-missing"`},
	"payment-provider-failing":   {"payment/alarms_test.go", "TestProviderThatKeepsFailingAsksForAPerson", "alarmProviderFailing"},
	"payment-closed-unanswered":  {"payment/closing_test.go", "TestSilentProviderDelaysClosingsWithinABound", `"payment-closed-unanswered"`},
	"payment-late":               {"payment/refund_test.go", "lateMoneyGoesBack", `"payment-late"`},
	"statement-differs":          {"payment/statement_test.go", "TestStatementFindsMoneyThatWasNeverRecorded", `"statement-differs"`},
	"statement-missing":          {"payment/statement_test.go", "TestStatementThatIsNotMadeIsAnAlarm", `"statement-missing"`},
	"refund-failed":              {"payment/refund_test.go", "aRefundThatFails", `"refund-failed"`},
	"refund-stuck":               {"payment/refund_test.go", "aRefundOutlivesTheBanksAbsence", `"refund-stuck"`},
}

// TestEveryAlarmIsProvoked: an alarm that no test has seen raised may never fire.
func TestEveryAlarmIsProvoked(t *testing.T) {
	t.Parallel()
	for _, d := range alarm.Definitions() {
		p, ok := provoked[d.Code]
		if !ok {
			t.Errorf("no test provokes %s", d.Code)
			continue
		}
		raw, err := os.ReadFile(p.file)
		if err != nil {
			t.Error(err)
			continue
		}
		_, body, _ := strings.Cut(string(raw), "\nfunc "+p.test+"(")
		body, _, _ = strings.Cut(body, "\n}\n")
		require.Contains(t, p.file+", "+p.test, body, p.finds)
	}
	require.Equal(t, "codes provoked", len(provoked), len(alarm.Definitions()))
}
