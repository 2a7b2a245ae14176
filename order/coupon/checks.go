package coupon

import (
	"context"
	"fmt"
	"time"

	"stampede/order/coupon/internal/coupondb"
	"stampede/platform/base/fault"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/proof"
)

// maxViolations bounds what one statement reports.
const maxViolations = 100

// Check proves that coupons, their kinds and the orders' discounts agree (I4).
// Nothing is in flight here: each changes in one transaction with what it must agree
// with.
func (s *Service) Check() proof.Check {
	return proof.Check{ID: "I4", Name: "every discount has its coupon, every coupon one order", Run: s.check}
}

func (s *Service) check(ctx context.Context) ([]proof.Violation, error) {
	q := coupondb.New(s.db)
	var f proof.Findings
	proof.Find(&f, func(k coupondb.KindsThatDifferRow) (string, string) {
		return subject(k.ID), fmt.Sprintf(
			"it counts %d issued coupons of %d; there are %d, at most %d of a user who may have %d", k.Issued, k.Total, k.Coupons, k.Most, k.PerUser)
	})(q.KindsThatDiffer(ctx, maxViolations))
	proof.Find(&f, func(c coupondb.CouponsInUseTwiceRow) (string, string) {
		return "coupon " + c.CouponNo.String(), fmt.Sprintf("it takes money off %d orders", c.Orders)
	})(q.CouponsInUseTwice(ctx, maxViolations))
	proof.Find(&f, func(u coupondb.StrayUsesRow) (string, string) {
		return "order " + u.OrderNo.String(), fmt.Sprintf("its coupon %s was never issued to its user", u.CouponNo)
	})(q.StrayUses(ctx, maxViolations))
	proof.Find(&f, func(u coupondb.RecalledInUseRow) (string, string) {
		return "order " + u.OrderNo.String(), fmt.Sprintf("its coupon %s was recalled before it was chosen", u.CouponNo)
	})(q.RecalledInUse(ctx, maxViolations))
	proof.Find(&f, func(o coupondb.DiscountsThatDifferRow) (string, string) {
		return "order " + o.OrderNo.String(), fmt.Sprintf(
			"it is %s with a discount of %d; its coupon is %s and takes off %d", o.OrderStatus, o.Discount, o.UseStatus, o.Coupon)
	})(q.DiscountsThatDiffer(ctx, maxViolations))
	return f.All("coupon: check")
}

// usedUpEvery is how often kinds with a rule are compared with their total.
const usedUpEvery = time.Minute

var alarmUsedUp = alarm.Define("coupons-used-up", alarm.Warning,
	fault.T("A kind of coupon that is issued by rule has reached its total: those who register or reserve now get none.",
		"一种按规则发放的优惠券已发完：现在注册或预约的顾客领不到。"),
	fault.T("Raise its total (`PUT /api/v1/admin/coupons/{id}`): those who reserved then get theirs. Or stop it (`POST /api/v1/admin/coupons/{id}/stop`).",
		"调高发放总量（`PUT /api/v1/admin/coupons/{id}`），已预约的顾客会补发；或停止发放（`POST /api/v1/admin/coupons/{id}/stop`）。"))

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
