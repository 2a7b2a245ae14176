package order

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
)

// The archive has the orders that ended long ago, by month of their number; see ADR 0039. An archived order is read
// like any other, and whatever is to change one locks it, which brings it back (see lock). So the archive needs no
// rule about what may still happen to an order: what ended and has rested is moved, and what stirs returns.

const (
	// archiveAge is the least age of an archived order, whatever the setting: younger numbers are looked up while a
	// sale runs, and readers of theirs need not look at the archive.
	archiveAge = 24 * time.Hour
	// archiveLimit is how many orders one transaction reads and moves: it takes some 30 ms and locks only what has
	// ended.
	archiveLimit = 1000
	// archiveRound is how many such transactions one round of housekeeping makes, a million orders per hour.
	archiveRound = 20
	// archiveRests is how long around an opening nothing is moved: the rush needs all of Postgres.
	archiveRests = 10 * time.Minute
)

// mayBeArchived reports whether an order of this number can be in the archive. Half of archiveAge is the margin for
// clocks that differ.
func mayBeArchived(no ids.ID) bool { return time.Since(no.Time()) > archiveAge/2 }

// archiveOld moves orders that ended ArchiveOrdersAfter ago, the oldest first. It goes on where the round before ended:
// orders that stay, because they wait for something, are passed once in each walk through all old numbers.
func (s *Service) archiveOld(ctx context.Context) error {
	if s.cfg.ArchiveOrdersAfter == 0 {
		return nil
	}
	opens, err := orderdb.New(s.deps.DB).SaleOpens(ctx, archiveRests)
	if err != nil {
		return fmt.Errorf("order: archive: look for openings: %w", err)
	}
	if opens {
		return nil
	}
	total := int64(0)
	for range archiveRound {
		moved, last, err := s.archiveNext(ctx, s.archived)
		if err != nil {
			return err
		}
		total += moved
		s.metrics.archived.Add(float64(moved))
		if s.archived = last; last.IsZero() {
			break
		}
	}
	if total > 0 {
		s.deps.Log.InfoContext(ctx, "old orders archived", "orders", total)
	}
	return nil
}

// archiveNext moves what it may of the archiveLimit next orders after a number, in one transaction. last is where the
// next call goes on, the zero number after the end. Instances share the work: each leaves out what another has locked.
func (s *Service) archiveNext(ctx context.Context, after ids.ID) (moved int64, last ids.ID, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	age := max(s.cfg.ArchiveOrdersAfter, archiveAge)
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		moved, last = 0, ids.ID{} // InTx may run this again
		q := orderdb.New(tx)
		rows, err := q.OldOrders(ctx, orderdb.OldOrdersParams{After: after, Age: age, Most: archiveLimit})
		if err != nil {
			return fmt.Errorf("find old orders: %w", err)
		}
		var nos []ids.ID
		for _, r := range rows {
			if r.Over {
				nos = append(nos, r.OrderNo)
			}
		}
		if len(rows) == archiveLimit {
			last = rows[archiveLimit-1].OrderNo
		}
		month := ""
		for _, no := range nos {
			if m := no.Time().UTC().Format("200601"); m != month {
				if err := q.EnsureArchive(ctx, no); err != nil {
					return fmt.Errorf("make the partition of %s: %w", no, err)
				}
				month = m
			}
		}
		if len(nos) > 0 {
			moved, err = q.MoveToArchive(ctx, orderdb.MoveToArchiveParams{OrderNos: nos, Buckets: bucketsOf(nos), Age: age})
		}
		return err
	})
	if err != nil {
		return 0, after, fmt.Errorf("order: archive: %w", err)
	}
	return moved, last, nil
}

// lock returns an order's row, locked until tx ends, or pgx.ErrNoRows. An archived order is brought back first: who
// locks it is about to change it, and changes are made to orders alone. If none is made, it is archived again.
func lock(ctx context.Context, tx pgx.Tx, no ids.ID) (orderdb.OrdersOrder, error) {
	q, key := orderdb.New(tx), orderdb.LockOrderParams{OrderNo: no, Bucket: no.Bucket()}
	row, err := q.LockOrder(ctx, key)
	if !errors.Is(err, pgx.ErrNoRows) || !mayBeArchived(no) {
		return row, err
	}
	if err := q.BringBack(ctx, orderdb.BringBackParams(key)); err != nil {
		return row, fmt.Errorf("bring back from the archive: %w", err)
	}
	return q.LockOrder(ctx, key)
}

// read returns an order's row, archived or not, or pgx.ErrNoRows.
func read(ctx context.Context, db orderdb.DBTX, no ids.ID) (orderdb.OrdersOrder, error) {
	row, err := orderdb.New(db).ReadOrder(ctx, orderdb.ReadOrderParams{OrderNo: no, Bucket: no.Bucket()})
	return orderdb.OrdersOrder(row), err
}

// readMany returns the rows of many numbers, archived or not; numbers without one are left out. Of young numbers, which
// are what polls ask for, it looks at orders alone.
func readMany(ctx context.Context, db orderdb.DBTX, nos []ids.ID) ([]orderevent.Order, error) {
	young, old := apart(nos)
	orders := make([]orderevent.Order, 0, len(nos))
	if len(young) > 0 {
		rows, err := orderdb.New(db).ReadOrders(ctx, orderdb.ReadOrdersParams{OrderNos: young, Buckets: bucketsOf(young)})
		if err != nil {
			return nil, fmt.Errorf("order: read %d orders: %w", len(young), err)
		}
		for _, r := range rows {
			orders = append(orders, fromRow(r))
		}
	}
	if len(old) > 0 {
		rows, err := orderdb.New(db).ReadOldOrders(ctx, orderdb.ReadOldOrdersParams{OrderNos: old, Buckets: bucketsOf(old)})
		if err != nil {
			return nil, fmt.Errorf("order: read %d old orders: %w", len(old), err)
		}
		for _, r := range rows {
			orders = append(orders, fromRow(orderdb.OrdersOrder(r)))
		}
	}
	return orders, nil
}

// readOwn returns a shopper's orders, archived or not, the newest first. A page of young ones needs no look at the
// archive. It reads them one after the other, unlike the operators' lists, because a plan for both would be made anew
// for each of the many shoppers who ask.
func readOwn(ctx context.Context, db orderdb.DBTX, p orderdb.OrdersOfUserParams) ([]orderdb.OrdersOrder, error) {
	q := orderdb.New(db)
	rows, err := q.OrdersOfUser(ctx, p)
	if err != nil || len(rows) == int(p.Most) && !mayBeArchived(rows[len(rows)-1].OrderNo) {
		return rows, err
	}
	old, err := q.ArchivedOrdersOfUser(ctx, orderdb.ArchivedOrdersOfUserParams(p))
	if err != nil {
		return nil, err
	}
	back, err := q.OrdersOfUser(ctx, p) // one of them may have come back after the first look, before the second
	if err != nil {
		return nil, err
	}
	rows = append(back, rows...)
	for _, r := range old {
		rows = append(rows, orderdb.OrdersOrder(r))
	}
	slices.SortStableFunc(rows, func(a, b orderdb.OrdersOrder) int { return bytes.Compare(b.OrderNo[:], a.OrderNo[:]) })
	rows = slices.CompactFunc(rows, func(a, b orderdb.OrdersOrder) bool { return a.OrderNo == b.OrderNo }) // it moved in between
	return rows[:min(len(rows), int(p.Most))], nil
}

// apart divides numbers by whether their orders may be in the archive.
func apart(nos []ids.ID) (young, old []ids.ID) {
	for _, no := range nos {
		if mayBeArchived(no) {
			old = append(old, no)
		} else {
			young = append(young, no)
		}
	}
	return young, old
}
