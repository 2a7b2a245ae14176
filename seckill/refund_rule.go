package seckill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/seckill/internal/seckilldb"
)

// What becomes of the units of a refunded order, as an activity's refund_units says.
const (
	refundReturns   = "return"
	refundWritesOff = "write_off"
)

// maxRefundHours is a year: longer is a typing error.
const maxRefundHours = 365 * 24

// refunds checks an activity's rule about refunds.
func (f *flaws) refunds(a *seckilldb.SeckillActivity) {
	f.add(a.RefundWithinHours >= 0 && a.RefundWithinHours <= maxRefundHours, "body.refund_within_hours", a.RefundWithinHours,
		fault.T("A shopper may refund an order for 1 to {most} hours, or never with 0.",
			"可退款时长为 1 至 {most} 小时，0 为不支持。", "most", maxRefundHours))
	f.add(a.RefundUnits == refundReturns || a.RefundUnits == refundWritesOff, "body.refund_units", a.RefundUnits,
		fault.T("refund_units must be {one} or {other}.",
			"退款商品只能退回库存或报损。", "one", refundReturns, "other", refundWritesOff))
}

// RefundRule returns for how long after paying a shopper of the activity may refund
// an order, 0 for never, and whether the units of a refunded order are written off.
// Unknown activities have the default rule: never, and not.
func (p *Plan) RefundRule(ctx context.Context, activity int64) (within time.Duration, writeOff bool, err error) {
	r, err := seckilldb.New(p.db).RefundRule(ctx, activity)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, false, fmt.Errorf("seckill: read the refund rule of activity %d: %w", activity, err)
	}
	return time.Duration(r.RefundWithinHours) * time.Hour, r.RefundUnits == refundWritesOff, nil
}
