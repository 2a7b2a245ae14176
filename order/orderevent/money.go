package orderevent

import "fmt"

// Money is an amount as it appears in every document.
type Money struct {
	Amount   int64  `json:"amount" doc:"In minor units: cents, fen" example:"9900"`
	Currency string `json:"currency" doc:"ISO 4217" example:"CNY"`
}

// decimals has the currencies of ISO 4217 whose minor unit is not a hundredth.
var decimals = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0, "UGX": 0, "VND": 0, "VUV": 0,
	"XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
}

// String formats the amount in the currency's unit, as on a bank statement:
// "CNY 12.34", "JPY 1234".
func (m Money) String() string {
	digits, ok := decimals[m.Currency]
	if !ok {
		digits = 2
	}
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
