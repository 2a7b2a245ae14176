package points

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever parts an amount goes back in, each takes points or none, none takes too many,
// and with the last part all are back.
func TestRefundsTakeExactlyWhatWasEarned(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount, rate := rapid.Int64Range(1, 1_000_000_000_000).Draw(t, "amount"), rapid.Int64Range(0, 10_000).Draw(t, "rate")
		all := earns(amount, rate)
		if exact := float64(amount) * float64(rate) / 100; float64(all) > exact || float64(all) < exact*0.999-1 {
			t.Fatalf("%d at %d earns %d", amount, rate, all)
		}
		var back, taken int64
		for back < amount {
			back += rapid.Int64Range(1, amount-back).Draw(t, "part")
			now := loses(all, back, amount)
			if now < taken || now > all {
				t.Fatalf("after %d of %d, %d of %d points are back; before it were %d", back, amount, now, all, taken)
			}
			taken = now
		}
		if taken != all {
			t.Fatalf("with all of %d back, %d of %d points are", amount, taken, all)
		}
	})
}
