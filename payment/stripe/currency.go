package stripe

import (
	"fmt"
	"slices"

	"stampede/payment/provider"
)

// Our books count in the minor unit of ISO 4217, and so does Stripe, but for these
// (https://docs.stripe.com/currencies#special-cases).
var (
	// whole currencies have no minor unit, and Stripe still counts hundredths of them.
	whole = []string{"ISK", "UGX"}
	// coarse currencies have a minor unit, and Stripe counts without it.
	coarse = []string{"MGA"}
	// fine currencies have thousandths, and Stripe takes multiples of ten.
	fine = []string{"BHD", "JOD", "KWD", "OMR", "TND"}
)

const hundred, ten = 100, 10

// Units is an amount as Stripe counts it. It fails with provider.ErrRefused if Stripe
// cannot take so small a part of the currency.
func Units(amount int64, currency string) (int64, error) {
	step := int64(1)
	switch {
	case slices.Contains(whole, currency):
		return amount * hundred, nil
	case slices.Contains(coarse, currency):
		step = hundred
	case slices.Contains(fine, currency):
		step = ten
	}
	if amount%step != 0 {
		return 0, fmt.Errorf("%w: stripe takes multiples of %d minor units of %s, not %d", provider.ErrRefused, step, currency, amount)
	}
	if slices.Contains(coarse, currency) {
		return amount / hundred, nil
	}
	return amount, nil
}

// Minor is an amount of Stripe's in our minor units.
func Minor(units int64, currency string) (int64, error) {
	switch {
	case slices.Contains(coarse, currency):
		return units * hundred, nil
	case !slices.Contains(whole, currency):
		return units, nil
	case units%hundred != 0:
		return 0, fmt.Errorf("stripe: %d hundredths of %s, which has none", units, currency)
	}
	return units / hundred, nil
}
