package order

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// Choose makes a coupon the discount of a pending order that Payable returned, in
// place of the one before; "" chooses none. It returns the order, and whether it has
// changed: then no payment of the former amount may stay open, and the caller calls
// Refresh after the commit. It fails with coupon.ErrNotUsable.
func (s *Service) Choose(ctx context.Context, tx pgx.Tx, o orderevent.Order, coupon string) (orderevent.Order, bool, error) {
	off, changed, err := s.coupons.Choose(ctx, tx, o, coupon)
	if err != nil || !changed {
		return o, false, err
	}
	o, err = amend(ctx, tx, o.No, "discount", o.Freight, off)
	return o, true, err
}

// amend changes one of the lines of a pending order, whose row tx has locked, and
// writes the event.
func amend(ctx context.Context, tx pgx.Tx, no ids.ID, line string, freight, discount int64) (orderevent.Order, error) {
	row, err := orderdb.New(tx).Amend(ctx, orderdb.AmendParams{
		OrderNo: no, Bucket: no.Bucket(), Line: line, Actor: ShopperIn(ctx), Freight: freight, Discount: discount,
	})
	o, err := table.Announce(ctx, tx, orderevent.SubjectAmended, row, err)
	if err != nil {
		return orderevent.Order{}, fmt.Errorf("order: amend the %s of %s: %w", line, no, err)
	}
	return o, nil
}

// SetFreight changes the freight of a pending order that LockPending returned, and with it
// the amount. After the commit the caller calls Refresh.
func (s *Service) SetFreight(ctx context.Context, tx pgx.Tx, o orderevent.Order, freight int64) (orderevent.Order, error) {
	return amend(ctx, tx, o.No, "freight", freight, o.Discount)
}

// returnCoupons gives back the coupons of orders that tx has ended. It costs nothing
// for orders without a discount.
func (s *Service) returnCoupons(ctx context.Context, tx pgx.Tx, ended []orderevent.Order) error {
	var nos []ids.ID
	for i := range ended {
		if ended[i].Discount > 0 {
			nos = append(nos, ended[i].No)
		}
	}
	if nos == nil {
		return nil
	}
	return s.coupons.Return(ctx, tx, nos)
}

// ownOrder returns a user's order as it is in Postgres, or ErrNotFound.
func (s *Service) ownOrder(ctx context.Context, no ids.ID, user int64) (orderevent.Order, error) {
	row, err := table.Read(ctx, s.deps.DB, no, ErrNotFound)
	if err == nil && row.UserID != user {
		err = ErrNotFound
	}
	if err != nil {
		return orderevent.Order{}, err
	}
	return row.Order(), nil
}
