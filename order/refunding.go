package order

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// LockForRefund returns an order with its row locked until tx ends, or ErrNotFound.
// units also locks the stock row that its units come from, as MoveRefunding to
// refunded requires: stock comes before orders in the lock order.
func (s *Service) LockForRefund(ctx context.Context, tx pgx.Tx, no ids.ID, units bool) (orderevent.Order, error) {
	if units {
		// Neither column changes after the insert, so the row need not be locked for them.
		row, err := read(ctx, tx, no)
		if errors.Is(err, pgx.ErrNoRows) {
			return orderevent.Order{}, ErrNotFound
		}
		if err != nil {
			return orderevent.Order{}, fmt.Errorf("order: read stock row of %s: %w", no, err)
		}
		if _, err := s.deps.Stock.Lock(ctx, tx, []inventory.Key{{ItemID: row.ItemID, Shard: row.Shard}}); err != nil {
			return orderevent.Order{}, fmt.Errorf("order: lock stock of %s: %w", no, err)
		}
	}
	row, err := lock(ctx, tx, no)
	if errors.Is(err, pgx.ErrNoRows) {
		return orderevent.Order{}, ErrNotFound
	}
	if err != nil {
		return orderevent.Order{}, fmt.Errorf("order: lock %s: %w", no, err)
	}
	return fromRow(row), nil
}

// refundFrom is which states lead to each state of a refund of the whole order.
var refundFrom = map[string][]string{
	orderevent.StatusRefunding:    {orderevent.StatusPaid, orderevent.StatusCompleted, orderevent.StatusRefundFailed},
	orderevent.StatusRefundFailed: {orderevent.StatusRefunding},
	orderevent.StatusRefunded:     {orderevent.StatusRefunding},
}

var refundSubjects = map[string]string{
	orderevent.StatusRefunding:    orderevent.SubjectRefunding,
	orderevent.StatusRefundFailed: orderevent.SubjectRefundFailed,
	orderevent.StatusRefunded:     orderevent.SubjectRefunded,
}

// MoveRefunding moves an order to a state of its refund inside payment's
// transaction, which holds the order's lock (see LockForRefund). Of a refunded order
// the units return to the stock, or are written off. It returns false, and the zero
// order, if the order is in none of the states that lead there. After the commit the
// caller calls Announce.
func (s *Service) MoveRefunding(ctx context.Context, tx pgx.Tx, no ids.ID, to string, writeOff bool, actor string) (orderevent.Order, bool, error) {
	row, err := orderdb.New(tx).MoveRefunding(ctx, orderdb.MoveRefundingParams{
		OrderNo: no, Bucket: no.Bucket(), Status: to, FromStatuses: refundFrom[to], Actor: actor,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return orderevent.Order{}, false, nil
	}
	if err != nil {
		return orderevent.Order{}, false, fmt.Errorf("order: move %s to %s: %w", no, to, err)
	}
	o := fromRow(orderdb.OrdersOrder(row))
	if to == orderevent.StatusRefunded {
		end := s.deps.Stock.Return
		if writeOff {
			end = s.deps.Stock.WriteOff
		}
		if err := end(ctx, tx, movements([]orderevent.Order{o})); err != nil {
			return orderevent.Order{}, false, fmt.Errorf("order: units of refunded %s: %w", no, err)
		}
		if err := s.returnCoupons(ctx, tx, []orderevent.Order{o}); err != nil {
			return orderevent.Order{}, false, err
		}
	}
	if _, err := appendEvents(ctx, tx, refundSubjects[to], []orderevent.Order{o}); err != nil {
		return orderevent.Order{}, false, fmt.Errorf("order: move %s to %s: %w", no, to, err)
	}
	return o, true, nil
}

// NoteTakenBack notes of a refunded order, inside payment's transaction, which holds the
// order's lock, whether a provider has taken a refund of it back. It stays refunded: its
// units and its coupon are gone, and only money is owed. After the commit the caller
// calls Show.
func (s *Service) NoteTakenBack(ctx context.Context, tx pgx.Tx, no ids.ID, takenBack bool, actor string) (orderevent.Order, error) {
	row, err := orderdb.New(tx).NoteRefund(ctx, orderdb.NoteRefundParams{TakenBack: takenBack, Actor: actor, OrderNo: no, Bucket: no.Bucket()})
	if err != nil {
		return orderevent.Order{}, fmt.Errorf("order: note of %s that its refund was taken back: %w", no, err)
	}
	o := fromRow(orderdb.OrdersOrder(row))
	_, err = appendEvents(ctx, tx, orderevent.SubjectAmended, []orderevent.Order{o})
	return o, err
}

// RefundRequest asks to refund a paid order, in whole or in part.
type RefundRequest struct {
	OrderNo ids.ID
	Amount  *int64 // minor units of the order's currency; nil is all that is left, and zero is refused
	Reason  string // RefundByShopper, RefundByOperator or RefundByDispute
	Note    string // in the words of who asks; at most 500 characters
	By      int64  // the user who asks; 0 is the system
	Units   string // UnitsReturn or UnitsWriteOff; empty leaves it to the activity's rule
	// Also, if not nil, runs in the transaction that asks for the refund, which may run it
	// again, and commits with it.
	Also func(ctx context.Context, tx pgx.Tx, refund ids.ID) error `json:"-"`
}

// Why a refund was asked for.
const (
	RefundByShopper  = "shopper"
	RefundByOperator = "operator"
	RefundByDispute  = "dispute"
)

// What becomes of the units of an order that is refunded in whole.
const (
	UnitsReturn   = "return"    // back on sale
	UnitsWriteOff = "write_off" // never sold again: with the shopper, damaged or lost
)
