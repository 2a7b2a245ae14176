package orderevent

import (
	"fmt"

	"stampede/platform/base/currency"
)

// Money is an amount as it appears in every document.
type Money struct {
	Amount   int64  `json:"amount" doc:"In minor units: cents, fen" example:"9900"`
	Currency string `json:"currency" doc:"ISO 4217" example:"CNY"`
}

// String formats the amount in the currency's unit, as on a bank statement:
// "CNY 12.34", "JPY 1234".
func (m Money) String() string {
	digits := currency.Decimals(m.Currency)
	sign, amount := "", uint64(m.Amount) //nolint:gosec // a negative amount is negated below
	if m.Amount < 0 {
		sign, amount = "-", -amount
	}
	unit := uint64(1)
	for range digits {
		unit *= 10
	}
	if digits == 0 {
		return fmt.Sprintf("%s %s%d", m.Currency, sign, amount)
	}
	return fmt.Sprintf("%s %s%d.%0*d", m.Currency, sign, amount/unit, digits, amount%unit)
}
