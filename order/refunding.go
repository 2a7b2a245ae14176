package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/order/actions"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// LockForRefund returns an order with its row locked until tx ends, or ErrNotFound.
// units also locks the stock row that its units come from, as MoveRefunding to
// refunded requires: stock comes before orders in the lock order.
func (s *Service) LockForRefund(ctx context.Context, tx pgx.Tx, no ids.ID, units bool) (orderevent.Order, error) {
	if units {
		// The row need not be locked for them: its item never changes, and its shard only when a Load gives the item
		// more of them; then the units move at a row that is locked out of turn, and a deadlock is tried again.
		row, err := table.Read(ctx, tx, no, ErrNotFound)
		if err != nil {
			return orderevent.Order{}, err
		}
		if _, err := s.deps.Stock.Lock(ctx, tx, []inventory.Key{{ItemID: row.ItemID, Shard: row.Shard}}); err != nil {
			return orderevent.Order{}, fmt.Errorf("order: lock stock of %s: %w", no, err)
		}
	}
	row, err := table.Lock(ctx, tx, no, ErrNotFound)
	return row.Order(), err
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
// caller calls Committed.
func (s *Service) MoveRefunding(ctx context.Context, tx pgx.Tx, no ids.ID, to string, writeOff bool, actor string) (orderevent.Order, bool, error) {
	row, err := orderdb.New(tx).MoveRefunding(ctx, orderdb.MoveRefundingParams{
		OrderNo: no, Bucket: no.Bucket(), Status: to, FromStatuses: refundFrom[to], Actor: actor,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return orderevent.Order{}, false, nil
	}
	o, err := table.Announce(ctx, tx, refundSubjects[to], row, err)
	if err != nil {
		return orderevent.Order{}, false, fmt.Errorf("order: move %s to %s: %w", no, to, err)
	}
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
	return o, true, nil
}

// NoteTakenBack notes of a refunded order, inside payment's transaction, which holds the
// order's lock, whether a provider has taken a refund of it back. It stays refunded: its
// units and its coupon are gone, and only money is owed. After the commit the caller
// calls Refresh.
func (s *Service) NoteTakenBack(ctx context.Context, tx pgx.Tx, no ids.ID, takenBack bool, actor string) (orderevent.Order, error) {
	row, err := orderdb.New(tx).NoteRefund(ctx, orderdb.NoteRefundParams{TakenBack: takenBack, Actor: actor, OrderNo: no, Bucket: no.Bucket()})
	o, err := table.Announce(ctx, tx, orderevent.SubjectAmended, row, err)
	if err != nil {
		return orderevent.Order{}, fmt.Errorf("order: note of %s that its refund was taken back: %w", no, err)
	}
	return o, nil
}

// NoteRefund adds to an order's history that the operator in ctx asked for a refund of
// it, and why; in the transaction that does.
func NoteRefund(ctx context.Context, tx pgx.Tx, o *orderevent.Order, why string) error {
	return actions.Record(ctx, tx, o, actions.Refund, why)
}

// SentAt returns when an order's parcel left the shop; false if none did.
func SentAt(ctx context.Context, tx pgx.Tx, no ids.ID) (at time.Time, ok bool, err error) {
	row, err := orderdb.New(tx).ShipmentOf(ctx, orderdb.ShipmentOfParams{OrderNo: no, Bucket: no.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) {
		return at, false, nil
	}
	if err != nil {
		return at, false, fmt.Errorf("order: read the shipment of %s: %w", no, err)
	}
	return row.At, true, nil
}
