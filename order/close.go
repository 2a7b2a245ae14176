package order

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/order/actions"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/failpoint"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// ordersClosed is where a test ends the process or makes a closing fail.
var ordersClosed = failpoint.NewErr("orders-closed",
	"Orders are closed in Postgres, and the release of their units has not left the outbox.")

// Closing an order is a protocol of three steps, because its payment may have
// to be closed at a provider, and no transaction may wait for a provider:
//
//	1 claim   closing_until is set; from then on no payment can start
//	2 close   the order's open payment is closed at its provider (payment)
//	3 settle  the order is closed and its units return, if it is still pending
//
// If a closing by request fails, it gives its claim back. If the process dies in
// between, its claim expires and the sweeper claims the order again. A capture that
// arrives meanwhile wins: step 3 finds no pending order.

// Claimed is an order that its claimer may close; the zero until is no claim.
type Claimed struct {
	orderevent.Order
	until time.Time
}

// Claim makes the first step for one order, at its shopper's request. It fails as
// Missing says, with ErrNotCancelable, or with ErrClosing if the order is already
// being closed. The claim is in force for ClosingFor.
func (s *Service) Claim(ctx context.Context, no ids.ID, user int64) (Claimed, error) {
	if no.Bucket() != ids.Bucket(user) {
		return Claimed{}, ErrNotFound
	}
	row, err := orderdb.New(s.deps.DB).ClaimOrder(ctx, orderdb.ClaimOrderParams{
		OrderNo: no, Bucket: no.Bucket(), UserID: user, ClosingSeconds: ClosingFor.Seconds(),
	})
	if err == nil {
		return Claimed{row.Order(), *row.ClosingUntil}, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return Claimed{}, fmt.Errorf("order: claim %s: %w", no, err)
	}
	// Not claimed; the row says why. It may have changed since; the caller then
	// gets a reason that was true a moment ago and can retry.
	row, err = table.Read(ctx, s.deps.DB, no, ErrNotFound)
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && row.UserID != user:
		return Claimed{}, s.Missing(ctx, no, user)
	case err != nil:
		return Claimed{}, err
	case row.Status != orderevent.StatusPending:
		return Claimed{}, whatItIs(ErrNotCancelable, row)
	default:
		return Claimed{}, ErrClosing
	}
}

// GiveBack ends a claim whose order could not be closed, so that the order can be paid
// or canceled at once. It does nothing to an order that was closed or paid meanwhile.
func (s *Service) GiveBack(ctx context.Context, c Claimed) error {
	err := orderdb.New(s.deps.DB).GiveBackClaim(ctx, orderdb.GiveBackClaimParams{
		OrderNo: c.No, Bucket: c.No.Bucket(), ClaimedUntil: c.until,
	})
	if err != nil {
		return fmt.Errorf("order: give back the claim of %s: %w", c.No, err)
	}
	return nil
}

// SomeDue is whether orders are due, in SQL. Those that a sweeper has claimed count too:
// to leave them out, each look would pass over all of them.
const SomeDue = `EXISTS (SELECT FROM orders.orders WHERE status = 'pending_payment' AND pay_deadline <= statement_timestamp())`

// ClaimDue makes the first step for at most limit orders whose deadline has
// passed by Postgres's clock. Several sweepers share the work: each gets orders
// that no other sweeper has.
func (s *Service) ClaimDue(ctx context.Context, limit int) ([]ids.ID, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	nos, err := orderdb.New(s.deps.DB).ClaimDue(ctx, orderdb.ClaimDueParams{
		ClosingSeconds: ClosingFor.Seconds(), Most: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("order: claim due orders: %w", err)
	}
	return nos, nil
}

// CloseClaimed makes the third step: of the given orders it closes those that
// are still pending and whose claim is in force, returns their units to the
// stock and writes the events, in one transaction. If another transaction keeps
// one of their rows locked, it closes each item's orders in a transaction of
// their own. reason is ReasonTimeout or ReasonCanceled. It returns the orders
// that it closed and has announced, also with an error about the others.
func (s *Service) CloseClaimed(ctx context.Context, nos []ids.ID, reason string) ([]orderevent.Order, error) {
	how := closeAs{reason: reason, actor: "system"}
	if reason == orderevent.ReasonCanceled {
		how.actor = ShopperIn(ctx)
	}
	closed, err := s.closeTogether(ctx, nos, how)
	if !pg.LockTimedOut(err) || len(nos) == 1 {
		return closed, err
	}
	rows, unread := table.Many(ctx, s.deps.DB, nos)
	if unread != nil {
		return nil, errors.Join(err, unread)
	}
	items := make(map[int64][]ids.ID)
	for _, no := range nos {
		items[rows[no].ItemID] = append(items[rows[no].ItemID], no)
	}
	if len(items) == 1 {
		return nil, err
	}
	var errs []error
	for _, of := range items {
		some, err := s.closeTogether(ctx, of, how)
		closed, errs = append(closed, some...), append(errs, err)
	}
	return closed, errors.Join(errs...)
}

// ClaimAny is Claim at an operator's request, whose order it is does not matter.
func (s *Service) ClaimAny(ctx context.Context, no ids.ID) (Claimed, error) {
	row, err := table.Read(ctx, s.deps.DB, no, ErrNoOrder)
	if err != nil {
		return Claimed{}, err
	}
	if row.Status == orderevent.StatusClosed && row.Reason == orderevent.ReasonWithdrawn {
		return Claimed{Order: row.Order()}, nil // a repetition
	}
	return s.Claim(ctx, no, row.UserID)
}

// Withdraw is CloseClaimed at the request of the operator in ctx, who says why. It
// returns false if the order is no longer pending or its claim has expired.
func (s *Service) Withdraw(ctx context.Context, no ids.ID, why string) (orderevent.Order, bool, error) {
	closed, err := s.closeTogether(ctx, []ids.ID{no}, closeAs{
		reason: orderevent.ReasonWithdrawn, actor: actions.OperatorIn(ctx),
		also: func(ctx context.Context, tx pgx.Tx, closed []orderevent.Order) error {
			for i := range closed {
				o := &closed[i]
				if err := actions.Record(ctx, tx, o, actions.Cancel, why); err != nil {
					return err
				}
				change := audit.Change{
					Before: map[string]string{"status": orderevent.StatusPending}, After: map[string]string{"status": o.Status, "reason": o.Reason}, Reason: why,
				}
				if err := audit.Record(ctx, tx, "order.cancel", "order "+o.No.String(), change); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil || len(closed) == 0 {
		return orderevent.Order{}, false, err
	}
	return closed[0], true, nil
}

// closeAs is why orders are closed and at whose request; also, if not nil, runs in the
// transaction that closes them.
type closeAs struct {
	reason, actor string
	also          func(ctx context.Context, tx pgx.Tx, closed []orderevent.Order) error
}

func (s *Service) closeTogether(ctx context.Context, nos []ids.ID, how closeAs) ([]orderevent.Order, error) {
	if len(nos) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	wait := s.cfg.LockWait
	if how.reason == orderevent.ReasonTimeout {
		wait /= 4 // the orders of other items wait behind it, and no person does
	}
	var closed []orderevent.Order
	err := pg.InTxWaiting(ctx, s.deps.DB, wait, func(tx pgx.Tx) error {
		q := orderdb.New(tx)
		stock, err := q.StockOfOrders(ctx, orderdb.StockOfOrdersParams{OrderNos: nos, Buckets: ids.BucketsOf(nos)})
		if err != nil {
			return fmt.Errorf("read stock rows: %w", err)
		}
		keys := make([]inventory.Key, len(stock))
		for i, r := range stock {
			keys[i] = inventory.Key{ItemID: r.ItemID, Shard: r.Shard}
		}
		if _, err := s.deps.Stock.Lock(ctx, tx, keys); err != nil {
			return fmt.Errorf("lock stock: %w", err)
		}
		rows, err := q.CloseClaimed(ctx, orderdb.CloseClaimedParams{
			OrderNos: nos, Buckets: ids.BucketsOf(nos), Reason: how.reason, Actor: how.actor,
		})
		if err != nil {
			return fmt.Errorf("close: %w", err)
		}
		closed = table.Orders(rows...)
		if err := s.deps.Stock.Return(ctx, tx, movements(closed)); err != nil {
			return fmt.Errorf("return units: %w", err)
		}
		if err := s.returnCoupons(ctx, tx, closed); err != nil {
			return err
		}
		if how.also != nil {
			if err := how.also(ctx, tx, closed); err != nil {
				return err
			}
		}
		_, err = table.Publish(ctx, tx, orderevent.SubjectClosed, closed...)
		return err
	})
	if err == nil {
		err = ordersClosed.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("order: close %d orders: %w", len(nos), err)
	}
	if len(closed) > 0 {
		s.Committed(ctx, closed...)
	}
	return closed, nil
}

// movements sums the orders' units per stock row, in lock order.
func movements(orders []orderevent.Order) []inventory.Movement {
	sums := make(map[inventory.Key]int32, 1)
	for i := range orders {
		sums[inventory.Key{ItemID: orders[i].ItemID, Shard: orders[i].Shard}] += orders[i].Quantity
	}
	moved := make([]inventory.Movement, 0, len(sums))
	for key, quantity := range sums {
		moved = append(moved, inventory.Movement{Key: key, Quantity: quantity})
	}
	slices.SortFunc(moved, func(a, b inventory.Movement) int { return compareKeys(a.Key, b.Key) })
	return moved
}
