package seckill

import (
	"testing"
	"time"

	"stampede/seckill/internal/seckilldb"
)

// FuzzPayWindow checks that, whatever an operator sets as a duration or as a
// share of the session, orders may stay unpaid for at least the shortest window
// and at most the longest, in whole seconds.
func FuzzPayWindow(f *testing.F) {
	f.Add(int32(900), false, 0.0, int64(3600))
	f.Add(int32(10), true, 0.5, int64(7200))
	f.Add(int32(0), true, 1e-300, int64(1<<40))
	f.Add(int32(-1), true, 1.0, int64(10))
	f.Fuzz(func(t *testing.T, seconds int32, shared bool, share float64, length int64) {
		opens := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
		// A session lies within its activity, which ends before the year 10000.
		closes := opens.Add(min(max(time.Duration(length), 0), 1<<33) * time.Second)
		a := seckilldb.SeckillActivity{
			Name: "a", StartsAt: opens, EndsAt: closes, LimitPerUser: 1, PaymentWindowSeconds: seconds,
		}
		if shared {
			a.PaymentWindowShare = &share
		}
		s := seckilldb.SeckillSession{Name: "s", OpensAt: opens, ClosesAt: closes}
		var fl flaws
		fl.activity(&a, false)
		fl.session("body", &s, &a)
		window := payWindow(&a, &s)
		if fl.err() == nil && (window < minPayWindow || window > maxPayWindow || window%time.Second != 0) {
			t.Fatalf("%d s or the share %v of %s gives %s", seconds, a.PaymentWindowShare, closes.Sub(opens), window)
		}
	})
}
