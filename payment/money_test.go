package payment

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"stampede/payment/provider"
)

// Alarms and the log format amounts as a bank statement does, and name the
// order.
func TestAmountsAreFormattedInCurrencyUnit(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	svc := s.instance(options{}, s.client)
	var logged bytes.Buffer
	svc.deps.Log = slog.New(slog.NewTextHandler(&logged, nil))
	no, user := s.one(100)
	paymentNo, _ := s.startPayment(no, user)
	underpaid := provider.Capture{PaymentNo: paymentNo, Transaction: "t", Merchant: merchantNo, Amount: 99, Currency: "CNY"}
	if outcome, err := svc.settle(t.Context(), "sandbox", underpaid, asked); err != nil || outcome != outcomeMismatch {
		t.Fatalf("%s, %v", outcome, err)
	}
	detail := read[string](s, `SELECT detail FROM platform.alarms WHERE code = $1`, alarmMismatch.Code)
	if want := "CNY 0.99 moved, CNY 1.00 was charged."; detail != want {
		t.Errorf("the alarm says %q, want %q", detail, want)
	}
	for _, want := range []string{`money="CNY 0.99"`, "reason=mismatch", "order_no=" + no.String()} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("no %s in the log: %s", want, &logged)
		}
	}
	if strings.Contains(logged.String(), `=""`) {
		t.Errorf("the log has an empty value: %s", &logged)
	}
}
