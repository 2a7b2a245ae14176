package coupon

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"stampede/order/coupon/internal/coupondb"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
)

// available is the status of a coupon that an order may use now.
const available = "available"

// maxFitting is how many of a shopper's coupons are compared for one order, the
// newest of those that can be used: more than any shopper would compare.
const maxFitting = 200

// couponView is a coupon as its shopper reads it.
type couponView struct {
	CouponNo   ids.ID            `json:"coupon_no" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f64"`
	KindID     string            `json:"kind_id"`
	Name       string            `json:"name" example:"¥10 off from ¥100"`
	Status     string            `json:"status" enum:"available,locked,used,expired,recalled" doc:"locked: chosen for an order that waits for its payment; recalled: by the shop"`
	AmountOff  *orderevent.Money `json:"amount_off,omitempty"`
	PercentOff int16             `json:"percent_off,omitempty"`
	MaxOff     *orderevent.Money `json:"max_off,omitempty" doc:"The most that percent_off takes off"`
	Threshold  orderevent.Money  `json:"threshold" doc:"The goods of the order cost at least this much"`
	Activities []string          `json:"activity_ids,omitempty" nullable:"false" doc:"Only for orders of these activities, or of item_ids" example:"[\"12\"]"`
	Items      []string          `json:"item_ids,omitempty" nullable:"false" doc:"Only for orders of these items, or of activity_ids" example:"[\"42\"]"`
	ValidFrom  string            `json:"valid_from" format:"date-time"`
	ValidUntil string            `json:"valid_until" format:"date-time"`
	OrderNo    string            `json:"order_no,omitempty" doc:"The order that it is locked or used for"`
	Discount   *orderevent.Money `json:"discount,omitempty" doc:"What it takes off that order, or would take off the order asked for"`
}

func view(r coupondb.CouponsOfUserRow) couponView {
	t := termsOf(&r.OrdersCouponKind)
	v := couponView{
		CouponNo: r.OrdersCoupon.CouponNo, KindID: httpx.FormatID(r.OrdersCouponKind.ID), Name: t.Name, Status: r.Status,
		AmountOff: t.AmountOff, PercentOff: t.PercentOff, MaxOff: t.MaxOff, Threshold: t.Threshold, Activities: t.ActivityIDs, Items: t.ItemIDs,
		ValidFrom: httpx.Moment(r.OrdersCoupon.ValidFrom), ValidUntil: httpx.Moment(r.OrdersCoupon.ValidUntil),
	}
	if !r.UsedBy.IsZero() {
		v.OrderNo = r.UsedBy.String()
	}
	if r.Discount > 0 {
		v.Discount = &orderevent.Money{Amount: r.Discount, Currency: t.Threshold.Currency}
	}
	return v
}

// claimableKind is a kind of coupon that shoppers may claim.
type claimableKind struct {
	KindID     string            `json:"kind_id"`
	Name       string            `json:"name" example:"¥10 off from ¥100"`
	AmountOff  *orderevent.Money `json:"amount_off,omitempty"`
	PercentOff int16             `json:"percent_off,omitempty"`
	MaxOff     *orderevent.Money `json:"max_off,omitempty" doc:"The most that percent_off takes off"`
	Threshold  orderevent.Money  `json:"threshold" doc:"The goods of the order cost at least this much"`
	ClaimFrom  string            `json:"claim_from" format:"date-time"`
	ClaimUntil string            `json:"claim_until" format:"date-time"`
	Left       bool              `json:"left" doc:"Whether some are left"`
}

// Routes registers the routes of shoppers and of operators.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/coupons", ID: "list-coupons", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Away: awayCoupons,
		Summary: "Your coupons, newest first",
		Description: "With `order_no` of an order that waits for its payment: those that fit it, with the `discount` of each, the largest first; among equals " +
			"the one that expires first. Choose one in POST orders/{no}/payments.",
		Refuses: []*fault.Error{fault.ErrNotFound},
	}, s.own)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/coupons/claimable", ID: "list-claimable-coupons", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Away: awayCoupons,
		Summary: "The coupons that shoppers may claim now or soon",
	}, s.claimable)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/coupons/{kind}/claim", ID: "claim-coupon", Tag: "shopper", Role: auth.Shopper, Status: http.StatusCreated, Away: awayCoupons,
		Summary: "Claim a coupon",
		Refuses: []*fault.Error{errNotClaimable, errGone, errHasMost},
	}, s.claim)
	s.adminRoutes(rt)
}

type ownInput struct {
	httpx.PageInput
	Status  string `query:"status" enum:"available,locked,used,expired,recalled" doc:"Only coupons in this state"`
	OrderNo string `query:"order_no" doc:"Only coupons that fit this order, best first" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
}

func (s *Service) own(ctx context.Context, in *ownInput) (*httpx.PageOutput[couponView], error) {
	user := auth.From(ctx).UserID
	p := coupondb.CouponsOfUserParams{Bucket: ids.Bucket(user), UserID: user, Before: httpx.LastNumber, Status: in.Status, Most: int32(in.Ask())} //nolint:gosec // a page is small
	var o orderevent.Order
	if in.OrderNo != "" {
		no, err := ids.Parse(in.OrderNo)
		if err != nil {
			no = ids.ID{} // no order has this number
		}
		if o, err = s.orders(ctx, no, user); err != nil {
			return nil, err
		}
		if o.Status != orderevent.StatusPending {
			return httpx.PageOf(in.PageInput, nil, view, placeOf), nil
		}
		p.ForOrder, p.Status, p.Most = o.No, available, maxFitting
	} else {
		before, err := in.BeforeNumber()
		if err != nil {
			return nil, err
		}
		p.Before = before
	}
	reading, done, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	q := coupondb.New(s.db)
	rows, err := q.CouponsOfUser(reading, p)
	if err != nil {
		return nil, fmt.Errorf("coupon: list a user's coupons: %w", err)
	}
	if in.OrderNo == "" {
		return httpx.PageOf(in.PageInput, rows, view, placeOf), nil
	}
	now, err := pg.Now(reading, s.db)
	if err != nil {
		return nil, fmt.Errorf("coupon: read clock: %w", err)
	}
	fitting := rows[:0]
	for _, r := range rows {
		if r.UsedBy == o.No {
			r.Status = locked
		} else if r.Discount, err = fits(&r.OrdersCoupon, &r.OrdersCouponKind, &o, now); err != nil {
			continue
		}
		fitting = append(fitting, r)
	}
	slices.SortStableFunc(fitting, func(a, b coupondb.CouponsOfUserRow) int {
		return cmp.Or(cmp.Compare(b.Discount, a.Discount), a.OrdersCoupon.ValidUntil.Compare(b.OrdersCoupon.ValidUntil))
	})
	return httpx.PageOf(in.PageInput, fitting[:min(len(fitting), in.Limit)], view, placeOf), nil
}

// placeOf is the cursor of the page after a row.
func placeOf(r coupondb.CouponsOfUserRow) string { return r.OrdersCoupon.CouponNo.String() }

// maxClaimable is how many kinds the shop offers at a time at most; a page with more
// would not be read.
const maxClaimable = 100

func (s *Service) claimable(ctx context.Context, _ *struct{}) (*httpx.PageOutput[claimableKind], error) {
	reading, done, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	rows, err := coupondb.New(s.db).ClaimableKinds(reading, maxClaimable)
	if err != nil {
		return nil, fmt.Errorf("coupon: list claimable kinds: %w", err)
	}
	return httpx.PageOf(httpx.PageInput{Limit: maxClaimable}, rows, func(k coupondb.OrdersCouponKind) claimableKind {
		t := termsOf(&k)
		return claimableKind{
			KindID: httpx.FormatID(k.ID), Name: t.Name, AmountOff: t.AmountOff, PercentOff: t.PercentOff, MaxOff: t.MaxOff, Threshold: t.Threshold,
			ClaimFrom: httpx.Moment(*k.ClaimFrom), ClaimUntil: httpx.Moment(*k.ClaimUntil), Left: k.Issued < k.Total,
		}
	}, func(coupondb.OrdersCouponKind) string { return "" }), nil
}
