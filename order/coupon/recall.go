package coupon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/coupon/internal/coupondb"
	"stampede/order/couponevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/audit"
)

var errNoCoupon = fault.Plain(fault.NotFound,
	fault.T("No coupon of this kind has this number; GET admin/coupons/{id}/issued lists those of a user.",
		"没有该编号的优惠券；某用户的优惠券见 GET admin/coupons/{id}/issued。"))

// RecallReason is why coupons are recalled. It is exported for huma, as Terms is.
type RecallReason struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for the audit log" example:"Issued to the wrong group."`
}

type issuedInput struct {
	KindInput
	httpx.ChangesInput
	UserID string `query:"user_id" required:"true" doc:"Whose coupons"`
}

// issued lists the coupons of a kind that a user was issued.
func (s *Service) issued(ctx context.Context, in *issuedInput) (*httpx.PageOutput[couponView], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, errNoKind.Because(err)
	}
	user, err := httpx.ParseID(in.UserID)
	if err != nil {
		return nil, fault.Plain(fault.Invalid,
			fault.T("user_id is no id of a user: those are positive decimal numbers.", "user_id 不是用户编号：编号为正整数。")).Because(err)
	}
	q := coupondb.New(s.db)
	if _, err := kind(ctx, q, id); err != nil {
		return nil, err
	}
	return httpx.PageOfChanges(in.ChangesInput, func(p httpx.PageInput) ([]coupondb.CouponsOfUserRow, error) {
		before, err := p.BeforeNumber()
		if err != nil {
			return nil, err
		}
		rows, err := q.CouponsOfUser(ctx, coupondb.CouponsOfUserParams{
			Bucket: ids.Bucket(user), UserID: user, KindID: id, Before: before, Most: int32(p.Ask()), //nolint:gosec // a page is small
		})
		if err != nil {
			return nil, fmt.Errorf("coupon: list the coupons of kind %d of a user: %w", id, err)
		}
		return rows, nil
	}, func(r coupondb.CouponsOfUserRow) time.Time { return r.ChangedAt }, view, placeOf)
}

type recallKindInput struct {
	KindInput
	Body struct{ RecallReason } `nameHint:"CouponRecall"`
}

// recallKind recalls every coupon that the kind issued so far. It is one row's change,
// whatever their number: each coupon is compared with it when it is to be used.
func (s *Service) recallKind(ctx context.Context, in *recallKindInput) (*httpx.Output[couponKind], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, errNoKind.Because(err)
	}
	row, err := s.read(ctx, id) // without the lock, for which every issue of the kind waits
	if err != nil {
		return nil, err
	}
	return answered(ctx, s, func(tx pgx.Tx) (after couponKind, err error) {
		q := coupondb.New(tx)
		k, _, err := lockKind(ctx, q, id)
		if err != nil {
			return after, err
		}
		if k.Status == draft {
			return after, errNotActive.Saying(fault.T("A draft has issued no coupons; delete it.", "草稿没有发放过优惠券，请直接删除。"))
		}
		row.OrdersCouponKind = k
		before := viewKind(row)
		if row.OrdersCouponKind, err = q.RecallKind(ctx, id); err != nil {
			return after, fmt.Errorf("coupon: recall kind %d: %w", id, err)
		}
		if err := publish(ctx, tx, couponevent.SubjectRecalled, []couponevent.Coupon{{KindID: id}}); err != nil {
			return after, err
		}
		after = viewKind(row)
		return after, audit.Record(ctx, tx, "coupon.recall", subject(id), audit.Change{Before: before, After: after, Reason: in.Body.Reason})
	})
}

type recallOneInput struct {
	KindInput
	Coupon string                 `path:"coupon" doc:"The coupon's number"`
	Body   struct{ RecallReason } `nameHint:"CouponRecall"`
}

// owned is a coupon in the audit log.
type owned struct {
	couponView
	UserID string `json:"user_id"`
}

// recallOne recalls one coupon; a repetition changes nothing.
func (s *Service) recallOne(ctx context.Context, in *recallOneInput) (*httpx.Output[couponView], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, errNoKind.Because(err)
	}
	no, err := ids.Parse(in.Coupon)
	if err != nil {
		return nil, errNoCoupon.Because(err)
	}
	return answered(ctx, s, func(tx pgx.Tx) (after couponView, err error) {
		q := coupondb.New(tx)
		user, err := q.OwnerOf(ctx, coupondb.OwnerOfParams{CouponNo: no, Bucket: no.Bucket(), KindID: id})
		if errors.Is(err, pgx.ErrNoRows) {
			return after, errNoCoupon
		}
		if err != nil {
			return after, fmt.Errorf("coupon: read the owner of %s: %w", no, err)
		}
		before, err := one(ctx, q, no, user)
		if err != nil {
			return after, err
		}
		n, err := q.RecallCoupon(ctx, coupondb.RecallCouponParams{CouponNo: no, Bucket: no.Bucket(), KindID: id})
		if err != nil {
			return after, fmt.Errorf("coupon: recall %s: %w", no, err)
		}
		if after, err = one(ctx, q, no, user); err != nil || n == 0 {
			return after, err
		}
		if err := publish(ctx, tx, couponevent.SubjectRecalled, []couponevent.Coupon{{CouponNo: &no, KindID: id, UserID: user}}); err != nil {
			return after, err
		}
		of := httpx.FormatID(user)
		return after, audit.Record(ctx, tx, "coupon.recall-one", subject(id),
			audit.Change{Before: owned{before, of}, After: owned{after, of}, Reason: in.Body.Reason})
	})
}

// one reads a coupon of a user.
func one(ctx context.Context, q *coupondb.Queries, no ids.ID, user int64) (none couponView, err error) {
	rows, err := q.CouponsOfUser(ctx, coupondb.CouponsOfUserParams{Bucket: no.Bucket(), UserID: user, Single: no, Before: httpx.LastNumber, Most: 1})
	if err != nil {
		return none, fmt.Errorf("coupon: read %s: %w", no, err)
	}
	if len(rows) == 0 {
		return none, errNoCoupon
	}
	return view(rows[0]), nil
}
