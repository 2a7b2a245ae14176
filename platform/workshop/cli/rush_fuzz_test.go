package cli

import (
	"testing"
)

// FuzzRushFigures checks that --pay and --rate are either usable numbers or refused.
func FuzzRushFigures(f *testing.F) {
	f.Add("80%", "max")
	f.Add("0.8", "1000")
	f.Add("NaN", "NaN")
	f.Add("-0%", "+Inf")
	f.Add("101%", "1e999")
	f.Fuzz(func(t *testing.T, pay, rate string) {
		c := Rush{Item: 1, Shoppers: 1, Pay: pay, Rate: rate}
		cfg, err := c.play(Noted{})
		if err != nil {
			return
		}
		if !(cfg.PayShare >= 0 && cfg.PayShare <= 1) {
			t.Fatalf("--pay %q is the share %v", pay, cfg.PayShare)
		}
		if rate != "max" && !(cfg.Rate > 0 && cfg.Rate <= 1e308) {
			t.Fatalf("--rate %q is %v per second", rate, cfg.Rate)
		}
	})
}
