package order

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/store/pg"
)

// errNotRetaken rolls a retake back.
var errNotRetaken = errors.New("order: not taken up again")

// Retake turns a closed order into a paid one, with units from its item's backup,
// inside the transaction that captures its late payment. It returns false, with the
// order as it is, if the backup has too few units, the order is no longer closed, or
// its user has bought the item or another one of the activity since and may have one
// only: the money must then be refunded. After the commit the caller calls Committed.
//
// The stock row is locked here, and so before the order's. tx may hold the lock of a
// ledger key, for which nothing waits that holds another lock; if it holds the
// order's, because it waited for the closing, a deadlock is possible and tx is
// retried.
func (s *Service) Retake(ctx context.Context, tx pgx.Tx, o orderevent.Order, by orderevent.PaidBy) (orderevent.Order, bool, error) {
	var paid orderevent.Order
	// A savepoint, because a violated index would end the caller's transaction.
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		if _, err := s.deps.Stock.Lock(ctx, tx, []inventory.Key{{ItemID: o.ItemID, Shard: o.Shard}}); err != nil {
			return err
		}
		row, err := orderdb.New(tx).Retake(ctx, orderdb.RetakeParams{
			OrderNo: o.No, Bucket: o.No.Bucket(), Actor: "payment " + by.PaymentNo.String(),
			PaymentNo: by.PaymentNo, Provider: by.Provider, Method: by.Method, ProviderTxn: by.ProviderTxn,
		})
		if errors.Is(err, pgx.ErrNoRows) || pg.ViolatesUnique(err, "") {
			return errNotRetaken
		}
		if err != nil {
			return err
		}
		paid = orderdb.OrdersOrder(row).Order()
		switch ok, err := s.deps.Stock.Retake(ctx, tx, &paid); {
		case err != nil:
			return err
		case !ok:
			return errNotRetaken
		}
		if paid.Discount > 0 {
			if err := s.coupons.Retake(ctx, tx, paid); err != nil {
				return err
			}
		}
		_, err = table.Publish(ctx, tx, orderevent.SubjectPaid, paid)
		return err
	})
	if err == nil {
		return paid, true, nil
	}
	if !errors.Is(err, errNotRetaken) {
		return o, false, fmt.Errorf("order: take %s up again: %w", o.No, err)
	}
	have, err := table.Read(ctx, tx, o.No)
	if err != nil {
		return o, false, fmt.Errorf("order: read %s: %w", o.No, err)
	}
	return have.Order(), false, nil
}
