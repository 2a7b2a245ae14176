package stripe

import (
	"fmt"

	"stampede/payment/provider"
)

// count is how Stripe counts a currency: times units for each per of our minor units, in
// multiples of step of ours.
type count struct{ times, per, step int64 }

// Our books count in the minor unit of ISO 4217, and so does Stripe, but for these
// (https://docs.stripe.com/currencies#special-cases).
var special = map[string]count{
	// They have no minor unit, and Stripe still counts hundredths of them.
	"ISK": {100, 1, 1}, "UGX": {100, 1, 1},
	// It has a minor unit, and Stripe counts without it.
	"MGA": {1, 100, 100},
	// They have thousandths, and Stripe takes multiples of ten.
	"BHD": {1, 1, 10}, "JOD": {1, 1, 10}, "KWD": {1, 1, 10}, "OMR": {1, 1, 10}, "TND": {1, 1, 10},
}

func countOf(currency string) count {
	if c, ok := special[currency]; ok {
		return c
	}
	return count{1, 1, 1}
}

// Units is an amount as Stripe counts it. It fails with provider.ErrRefused if Stripe
// cannot take so small a part of the currency.
func Units(amount int64, currency string) (int64, error) {
	c := countOf(currency)
	if amount%c.step != 0 {
		return 0, fmt.Errorf("%w: stripe takes multiples of %d minor units of %s, not %d", provider.ErrRefused, c.step, currency, amount)
	}
	return amount * c.times / c.per, nil
}

// Minor is an amount of Stripe's in our minor units.
func Minor(units int64, currency string) (int64, error) {
	c := countOf(currency)
	if units%c.times != 0 {
		return 0, fmt.Errorf("stripe: %d is no whole amount of %s, of which it counts %d in one", units, currency, c.times)
	}
	return units * c.per / c.times, nil
}
