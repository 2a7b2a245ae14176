package currency

import "fmt"

// Money is an amount as it appears in every document.
type Money struct {
	Amount   int64  `json:"amount" doc:"In minor units: cents, fen" example:"9900"`
	Currency string `json:"currency" pattern:"^[A-Z]{3}$" doc:"ISO 4217" example:"CNY"`
}

// String formats the amount in the currency's unit, as on a bank statement:
// "CNY 12.34", "JPY 1234".
func (m Money) String() string { return m.Currency + " " + m.Units() }

// Units is String without the currency.
func (m Money) Units() string {
	digits, sign := Decimals(m.Currency), 0
	if m.Amount < 0 {
		sign = 1
	}
	text := fmt.Sprintf("%0*d", sign+1+digits, m.Amount)
	if point := len(text) - digits; digits > 0 {
		text = text[:point] + "." + text[point:]
	}
	return text
}
