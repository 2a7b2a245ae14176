package order

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// statusLimit is how many numbers one query reads.
const statusLimit = 1000

// Reader reads orders from Postgres for the modules that order itself is built
// on: they need it before there is a Service.
type Reader struct{ DB *pgxpool.Pool }

// Statuses returns the status of each number that Postgres has a row for, as
// committed when it is called. There is no limit on how many numbers it takes.
func (r Reader) Statuses(ctx context.Context, nos []ids.ID) (map[ids.ID]string, error) {
	statuses := make(map[ids.ID]string, len(nos))
	for start := 0; start < len(nos); start += statusLimit {
		part := nos[start:min(start+statusLimit, len(nos))]
		rows, err := orderdb.New(r.DB).ReadStatuses(ctx, orderdb.ReadStatusesParams{OrderNos: part, Buckets: bucketsOf(part)})
		if err != nil {
			return nil, fmt.Errorf("order: read statuses: %w", err)
		}
		for _, r := range rows {
			statuses[r.OrderNo] = r.Status
		}
	}
	return statuses, nil
}

// ClosedWithin returns those of the orders that were closed within a duration
// before Postgres's time.
func (r Reader) ClosedWithin(ctx context.Context, nos []ids.ID, within time.Duration) (map[ids.ID]bool, error) {
	recent := make(map[ids.ID]bool)
	for len(nos) > 0 {
		part := nos[:min(statusLimit, len(nos))]
		nos = nos[len(part):]
		rows, err := orderdb.New(r.DB).ClosedWithin(ctx, orderdb.ClosedWithinParams{OrderNos: part, Buckets: bucketsOf(part), Within: within})
		if err != nil {
			return nil, fmt.Errorf("order: read recent closings: %w", err)
		}
		for _, no := range rows {
			recent[no] = true
		}
	}
	return recent, nil
}

// LiveUnits sums the units of every item's live orders.
func (r Reader) LiveUnits(ctx context.Context) (map[int64]inventory.Units, error) {
	rows, err := orderdb.New(r.DB).LiveUnits(ctx)
	if err != nil {
		return nil, fmt.Errorf("order: sum live units: %w", err)
	}
	units := make(map[int64]inventory.Units, len(rows))
	for _, r := range rows {
		units[r.ItemID] = inventory.Units{Held: r.Held, Sold: r.Sold}
	}
	return units, nil
}

// Closed returns the item's orders that were closed by timeout or by their
// shopper, with their users. It is used for items that a user may buy only
// once. Orders refused by the system are not included.
func (Reader) Closed(ctx context.Context, tx pgx.Tx, itemID int64) ([]inventory.Closed, error) {
	rows, err := orderdb.New(tx).ClosedOrdersOfItem(ctx, itemID)
	if err != nil {
		return nil, fmt.Errorf("order: read closed orders of item %d: %w", itemID, err)
	}
	closed := make([]inventory.Closed, len(rows))
	for i, r := range rows {
		closed[i] = inventory.Closed{No: r.OrderNo, User: r.UserID}
	}
	return closed, nil
}

// tombstoneFor is how long after its end a number is still passed to Load, which
// writes a tombstone for it: its rush path lives 120 s, and clock differences and
// slow requests get another 60 s; the rest is margin for the Load itself.
const tombstoneFor = 240 * time.Second

// Holds returns the item's live orders, and the numbers that ended so recently
// that their paths may still be used. It reads in the transaction of a Load, which
// has locked the item's stock rows, so that no order is added or ended meanwhile.
func (Reader) Holds(ctx context.Context, tx pgx.Tx, itemID int64) (live []inventory.Held, recent []inventory.Tombstone, err error) {
	q := orderdb.New(tx)
	rows, err := q.LiveOrdersOfItem(ctx, itemID)
	if err != nil {
		return nil, nil, fmt.Errorf("order: read live orders of item %d: %w", itemID, err)
	}
	live = make([]inventory.Held, len(rows))
	for i, r := range rows {
		live[i] = inventory.Held{No: r.OrderNo, User: r.UserID, Quantity: r.Quantity, Paid: r.Status != orderevent.StatusPending}
	}
	ended, err := q.EndedOrdersOfItem(ctx, orderdb.EndedOrdersOfItemParams{ItemID: itemID, WithinSeconds: tombstoneFor.Seconds()})
	if err != nil {
		return nil, nil, fmt.Errorf("order: read ended orders of item %d: %w", itemID, err)
	}
	recent = make([]inventory.Tombstone, len(ended))
	for i, r := range ended {
		recent[i] = inventory.Tombstone{No: r.OrderNo, Until: r.UpdatedAt.Add(tombstoneFor)}
	}
	return live, recent, nil
}
