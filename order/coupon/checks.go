package coupon

import (
	"context"
	"errors"
	"fmt"

	"stampede/order/coupon/internal/coupondb"
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

func (s *Service) check(ctx context.Context) (all []proof.Violation, err error) {
	q := coupondb.New(s.db)
	kinds, err1 := q.KindsThatDiffer(ctx, maxViolations)
	twice, err2 := q.CouponsInUseTwice(ctx, maxViolations)
	strays, err3 := q.StrayUses(ctx, maxViolations)
	orders, err4 := q.DiscountsThatDiffer(ctx, maxViolations)
	recalled, err5 := q.RecalledInUse(ctx, maxViolations)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, fmt.Errorf("coupon: check: %w", err)
	}
	for _, k := range kinds {
		all = append(all, proof.Violation{Subject: subject(k.ID), Detail: fmt.Sprintf(
			"it counts %d issued coupons of %d; there are %d, at most %d of a user who may have %d", k.Issued, k.Total, k.Coupons, k.Most, k.PerUser)})
	}
	for _, c := range twice {
		all = append(all, proof.Violation{Subject: "coupon " + c.CouponNo.String(), Detail: fmt.Sprintf("it takes money off %d orders", c.Orders)})
	}
	for _, u := range strays {
		all = append(all, proof.Violation{Subject: "order " + u.OrderNo.String(), Detail: fmt.Sprintf("its coupon %s was never issued to its user", u.CouponNo)})
	}
	for _, u := range recalled {
		all = append(all, proof.Violation{Subject: "order " + u.OrderNo.String(), Detail: fmt.Sprintf("its coupon %s was recalled before it was chosen", u.CouponNo)})
	}
	for _, o := range orders {
		all = append(all, proof.Violation{Subject: "order " + o.OrderNo.String(), Detail: fmt.Sprintf(
			"it is %s with a discount of %d; its coupon is %s and takes off %d", o.OrderStatus, o.Discount, o.UseStatus, o.Coupon)})
	}
	return all, nil
}
