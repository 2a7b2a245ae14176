package rush

import (
	"net/http"
	"testing"

	"stampede/seckill/catalogue"
)

// TestAdmissionRate sends attempts under the rates of an item as operators change them:
// each change is a new item in the catalogue.
func TestAdmissionRate(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1000)
	i := y.instance([]*catalogue.Item{it})
	i.work()
	held, got := i.buy(1, it)
	got.want(t, "", http.StatusAccepted, "")
	user := int64(1)
	for _, c := range []struct {
		rate          *int32
		least, atMost int // refused of ten at once
	}{{new(int32(1)), 5, 9}, {new(int32(0)), 10, 10}, {new(int32(1_000_000)), 0, 0}, {nil, 0, 0}} {
		it.Admission = c.rate
		refused := 0
		for range 10 {
			user++
			if _, got := i.buy(user, it); got.Code == "too-hot" {
				refused++
			}
		}
		if refused < c.least || refused > c.atMost {
			t.Errorf("at %v a second %d of 10 were refused, want %d to %d", c.rate, refused, c.least, c.atMost)
		}
		if got := i.send(held.Path); got.Status != http.StatusAccepted {
			t.Errorf("at %v a second a holder was not admitted: %+v", c.rate, got)
		}
	}
}
