package orderevent

import (
	"math"
	"testing"
)

func TestMoneyIsWrittenAsOnABankStatement(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]Money{
		"CNY 12.34":                 {1234, "CNY"},
		"USD 0.05":                  {5, "USD"},
		"CNY -0.99":                 {-99, "CNY"},
		"JPY 500":                   {500, "JPY"},
		"KWD 1.005":                 {1005, "KWD"},
		"CNY 0.00":                  {0, "CNY"},
		"CNY -92233720368547758.08": {math.MinInt64, "CNY"},
	} {
		if got := m.String(); got != want {
			t.Errorf("%d %s formatted as %q, want %q", m.Amount, m.Currency, got, want)
		}
	}
}
