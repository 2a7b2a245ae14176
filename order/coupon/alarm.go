package coupon

import (
	"context"
	"fmt"
	"time"

	"stampede/order/coupon/internal/coupondb"
	"stampede/platform/watch/alarm"
)

// usedUpEvery is how often kinds with a rule are compared with their total.
const usedUpEvery = time.Minute

var alarmUsedUp = alarm.Define("coupons-used-up", alarm.Warning,
	"A kind of coupon that is issued by rule has reached its total: those who register or reserve now get none.",
	"Raise its total (`PUT /api/v1/admin/coupons/{id}`): those who reserved then get theirs. Or stop it (`POST /api/v1/admin/coupons/{id}/stop`).")

// Probes watch for kinds whose rule promises more than their total.
func (s *Service) Probes() []alarm.Probe {
	return []alarm.Probe{{Alarm: alarmUsedUp, Every: usedUpEvery, Shared: true, Look: func(ctx context.Context) (found []alarm.Finding, err error) {
		kinds, err := coupondb.New(s.db).KindsUsedUp(ctx, maxViolations)
		if err != nil {
			return nil, fmt.Errorf("coupon: list kinds that are used up: %w", err)
		}
		for _, k := range kinds {
			found = append(found, alarm.Finding{Subject: subject(k.ID), Detail: fmt.Sprintf("All %d were issued.", k.Total)})
		}
		return found, nil
	}}}
}
