// Package currency knows how many decimals a currency has, and writes amounts for people.
package currency

import (
	"math"

	"golang.org/x/text/currency"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/number"
)

// decimals has the currencies of ISO 4217 whose minor unit is not a hundredth. CLDR, which
// browsers and golang.org/x/text follow, gives other figures for some twenty currencies
// (IDR, PKR, RSD), because people round them in shops; banks and payment providers do not.
var decimals = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0, "UGX": 0, "UYI": 0, "VND": 0, "VUV": 0,
	"XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
	"CLF": 4, "UYW": 4,
}

// usual is how many decimals all other currencies have.
const usual = 2

// Decimals is how many decimals a currency has: its minor unit is 10 to the power of minus
// that. The pages' script has the same table (seckill/shop/static/words.js).
func Decimals(code string) int {
	if d, ok := decimals[code]; ok {
		return d
	}
	return usual
}

// Write writes an amount, which is in the currency's minor units, as the pages' script does
// (money in words.js): ¥27.90. It is empty for a code that is no currency's.
func Write(amount int64, code string, in language.Tag) string {
	unit, err := currency.ParseISO(code)
	if err != nil {
		return ""
	}
	scale := Decimals(code) // not x/text's, which are CLDR's
	p := message.NewPrinter(in)
	return p.Sprint(currency.NarrowSymbol(unit)) + p.Sprint(number.Decimal(float64(amount)/math.Pow10(scale), number.Scale(scale)))
}
