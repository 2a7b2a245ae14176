package coupon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/order/coupon/internal/coupondb"
	"stampede/order/couponevent"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
)

// Why a coupon is not issued or cannot be used.
var (
	ErrNotUsable = fault.New(fault.Conflict, "coupon-not-usable",
		fault.T("This coupon cannot be used here", "该优惠券不适用于此订单"),
		fault.T("You have no such coupon.", "您没有该优惠券。"),
		fault.T("Choose one of GET /api/v1/coupons?order_no=…, or pay without.", "请选择可用于该订单的优惠券，或不使用优惠券付款。"))
	errNotClaimable = fault.New(fault.Conflict, "coupon-not-claimable",
		fault.T("This coupon cannot be claimed now", "当前不可领取该优惠券"),
		fault.T("This coupon can be claimed between claim_from and claim_until only.",
			"只能在领取时间（claim_from 至 claim_until）内领取。"),
		fault.T("Look at GET /api/v1/coupons/claimable.", "请查看当前可领取的优惠券。"))
	errGone = fault.New(fault.Conflict, "coupons-gone", fault.T("No coupons are left", "优惠券已领完"),
		fault.T("All coupons of this kind were issued.", "该优惠券已发完。"),
		fault.T("Choose another coupon.", "请选择其他优惠券。"))
	errHasMost = fault.New(fault.Conflict, "coupon-limit", fault.T("You have claimed this coupon already", "您已领取过该优惠券"),
		fault.T("You were issued as many coupons of this kind as a user may have.", "您领取该优惠券已达上限。"),
		fault.T("Use the one you have.", "请使用已领取的优惠券。"))
	errNoKind = fault.Plain(fault.NotFound, fault.T("There is no kind of coupon with this id.", "没有该编号的优惠券。"))
	errBusy   = fault.Plain(fault.Unavailable,
		fault.T("Too many coupons are being claimed right now. Try again in a moment.", "领取人数过多，请稍后重试。")).After(time.Second)
)

// claimsAtOnce is how many connections claims may use: the claims of a kind wait for
// each other, so that more would only wait inside Postgres, on connections that the
// writer of orders needs.
const claimsAtOnce = 2

// Reading admits a shopper's query of a list and bounds its time; done frees the
// place.
type Reading func(ctx context.Context) (reading context.Context, done func(), err error)

// Orders finds the order of a user; it fails with a fault if the user has none with
// this number.
type Orders func(ctx context.Context, no ids.ID, user int64) (orderevent.Order, error)

// Users is what the coupons ask of the shoppers' accounts.
type Users interface {
	// Unknown returns those of the users who have no account.
	Unknown(ctx context.Context, users []int64) ([]int64, error)
}

// Service is the shop's coupons. Safe for concurrent use.
type Service struct {
	db       *pgxpool.Pool
	reading  Reading
	orders   Orders
	accounts Users
	claims   chan struct{}
}

// New returns the coupons in db. Without accounts every number may be a user's.
func New(db *pgxpool.Pool, reading Reading, orders Orders, accounts Users) *Service {
	return &Service{db: db, reading: reading, orders: orders, accounts: accounts, claims: make(chan struct{}, claimsAtOnce)}
}

// The states of an order's use; see the package.
const (
	locked   = "locked"
	used     = "used"
	returned = "returned"
	borne    = "borne"
)

// Choose locks the coupon that a shopper chose for a pending order, whose row tx has
// locked, in place of the one before; "" chooses none. It returns what the coupon
// takes off, and whether that is a change. It fails with ErrNotUsable and the reason.
func (s *Service) Choose(ctx context.Context, tx pgx.Tx, o orderevent.Order, choice string) (off int64, changed bool, err error) {
	q := coupondb.New(tx)
	before, err := q.CouponOf(ctx, coupondb.CouponOfParams{OrderNo: o.No, Bucket: o.No.Bucket()})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, false, fmt.Errorf("coupon: read the coupon of %s: %w", o.No, err)
	}
	if choice == "" {
		if before.Status != locked {
			return 0, false, nil
		}
		if err := q.Unlock(ctx, coupondb.UnlockParams{OrderNo: o.No, Bucket: o.No.Bucket()}); err != nil {
			return 0, false, fmt.Errorf("coupon: unlock the coupon of %s: %w", o.No, err)
		}
		return 0, true, nil
	}
	no, err := ids.Parse(choice)
	if err != nil {
		return 0, false, ErrNotUsable.Because(err)
	}
	if before.Status == locked && before.CouponNo == no {
		return before.Discount, false, nil
	}
	row, err := q.LockCoupon(ctx, coupondb.LockCouponParams{CouponNo: no, Bucket: o.No.Bucket(), UserID: o.UserID})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, ErrNotUsable
	}
	if err != nil {
		return 0, false, fmt.Errorf("coupon: lock %s: %w", no, err)
	}
	now, err := q.CouponInUse(ctx, coupondb.CouponInUseParams{CouponNo: no, Bucket: o.No.Bucket()})
	if err != nil {
		return 0, false, fmt.Errorf("coupon: read the use of %s: %w", no, err)
	}
	if now.InUse {
		return 0, false, ErrNotUsable.Saying(fault.T("This coupon is in use for another order.", "该优惠券正用于其他订单。"))
	}
	off, err = fits(&row.OrdersCoupon, &row.OrdersCouponKind, &o, now.At)
	if err != nil {
		return 0, false, err
	}
	err = q.LockFor(ctx, coupondb.LockForParams{Bucket: o.No.Bucket(), OrderNo: o.No, CouponNo: no, KindID: row.OrdersCouponKind.ID, Discount: off})
	if err != nil {
		return 0, false, fmt.Errorf("coupon: lock %s for %s: %w", no, o.No, err)
	}
	return off, true, nil
}

// fits returns what a coupon that is not in use takes off an order, or ErrNotUsable
// with the reason why it takes off nothing.
func fits(c *coupondb.OrdersCoupon, k *coupondb.OrdersCouponKind, o *orderevent.Order, now time.Time) (off int64, err error) {
	goods := o.Goods()
	switch {
	case isRecalled(c, k):
		return 0, ErrNotUsable.Saying(fault.T("The shop has recalled this coupon.", "商家已收回该优惠券。"))
	case now.Before(c.ValidFrom):
		return 0, ErrNotUsable.Saying(fault.T("This coupon is not valid yet.", "该优惠券尚未生效。"))
	case !now.Before(c.ValidUntil):
		return 0, ErrNotUsable.Saying(fault.T("This coupon has expired.", "该优惠券已过期。"))
	case o.Currency != k.Currency:
		return 0, ErrNotUsable.Saying(fault.T("This coupon is for another currency.", "该优惠券适用于其他货币。"))
	case !covers(k, o):
		return 0, ErrNotUsable.Saying(fault.T("This coupon is for other goods.", "该优惠券不适用于此商品。"))
	case goods < k.Threshold:
		return 0, ErrNotUsable.Saying(fault.T("The goods cost less than this coupon requires.", "商品金额未达到该优惠券的门槛。"))
	}
	if off = discount(k, goods); off == 0 {
		return 0, ErrNotUsable.Saying(fault.T("This coupon takes nothing off this order.", "该优惠券对此订单没有优惠。"))
	}
	return off, nil
}

// isRecalled reports whether a coupon may serve no further order.
func isRecalled(c *coupondb.OrdersCoupon, k *coupondb.OrdersCouponKind) bool {
	return c.RecalledAt != nil || k.RecalledAt != nil && !c.IssuedAt.After(*k.RecalledAt)
}

// covers reports whether the kind is for the order's goods.
func covers(k *coupondb.OrdersCouponKind, o *orderevent.Order) bool {
	if len(k.ActivityIds) == 0 && len(k.ItemIds) == 0 {
		return true
	}
	return slices.Contains(k.ActivityIds, o.ActivityID) || slices.Contains(k.ItemIds, o.ItemID)
}

// Use makes the coupon of an order used, in the transaction that pays the order.
func (s *Service) Use(ctx context.Context, tx pgx.Tx, no ids.ID) error {
	if err := setUse(ctx, tx, no, locked, used); err != nil {
		return fmt.Errorf("coupon: use the coupon of %s: %w", no, err)
	}
	return nil
}

// setUse moves the use of an order from one state to used or borne, and publishes that it
// is used.
func setUse(ctx context.Context, tx pgx.Tx, no ids.ID, was, status string) error {
	row, err := coupondb.New(tx).SetUse(ctx, coupondb.SetUseParams{OrderNo: no, Bucket: no.Bucket(), Was: was, Status: status})
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("the order has a discount and no %s coupon", was)
	}
	if err != nil || status != used {
		return err
	}
	return publish(ctx, tx, couponevent.SubjectUsed, []couponevent.Coupon{
		{CouponNo: &row.CouponNo, KindID: row.KindID, UserID: row.UserID, OrderNo: &no, Discount: row.Discount, Currency: row.Currency},
	})
}

// Return gives the coupons of orders that were closed or refunded in full back to
// their users, in the transaction that ends the orders, and publishes those that were
// used: of the others no event said that they were chosen.
func (s *Service) Return(ctx context.Context, tx pgx.Tx, nos []ids.ID) error {
	rows, err := coupondb.New(tx).ReturnUses(ctx, coupondb.ReturnUsesParams{OrderNos: nos, Buckets: ids.BucketsOf(nos)})
	if err != nil {
		return fmt.Errorf("coupon: return the coupons of %d orders: %w", len(nos), err)
	}
	var back []couponevent.Coupon
	for _, r := range rows {
		if r.Used {
			back = append(back, couponevent.Coupon{CouponNo: &r.CouponNo, KindID: r.KindID, UserID: r.UserID, OrderNo: &r.OrderNo, Discount: r.Discount, Currency: r.Currency})
		}
	}
	return publish(ctx, tx, couponevent.SubjectReturned, back)
}

// Retake makes the coupon of a closed order used again, in the transaction that pays
// the order late. If the coupon is in use for another order by then, the shop bears
// the discount.
func (s *Service) Retake(ctx context.Context, tx pgx.Tx, o orderevent.Order) error {
	status, err := s.retaken(ctx, coupondb.New(tx), o)
	if err == nil {
		err = setUse(ctx, tx, o.No, returned, status)
	}
	if err != nil {
		return fmt.Errorf("coupon: use the coupon of %s again: %w", o.No, err)
	}
	return nil
}

// retaken locks the coupon of a closed order and decides what its use becomes.
func (s *Service) retaken(ctx context.Context, q *coupondb.Queries, o orderevent.Order) (status string, err error) {
	use, err := q.CouponOf(ctx, coupondb.CouponOfParams{OrderNo: o.No, Bucket: o.No.Bucket()})
	if err != nil {
		return "", err
	}
	if _, err := q.LockCoupon(ctx, coupondb.LockCouponParams{CouponNo: use.CouponNo, Bucket: use.Bucket, UserID: o.UserID}); err != nil {
		return "", err
	}
	now, err := q.CouponInUse(ctx, coupondb.CouponInUseParams{CouponNo: use.CouponNo, Bucket: use.Bucket})
	if err != nil || now.InUse {
		return borne, err
	}
	return used, nil
}
