package catalogue_test

import (
	"testing"
	"time"

	"stampede/seckill/catalogue"
)

// TestDueInRedis checks that an item is due from its preheat until it closes.
func TestDueInRedis(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		item catalogue.Item
		want bool
	}{
		"due":       {catalogue.Item{OnSale: true, PreheatAt: now, ClosesAt: now.Add(1)}, true},
		"too early": {catalogue.Item{OnSale: true, PreheatAt: now.Add(1), ClosesAt: now.Add(2)}, false},
		"closed":    {catalogue.Item{OnSale: true, PreheatAt: now.Add(-2), ClosesAt: now}, false},
		"withdrawn": {catalogue.Item{PreheatAt: now.Add(-1), ClosesAt: now.Add(1)}, false},
	} {
		if got := c.item.DueInRedis(now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
