package order

import (
	"context"
	"fmt"
	"slices"
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
	for part := range slices.Chunk(nos, statusLimit) {
		rows, err := orderdb.New(r.DB).ReadStatuses(ctx, orderdb.ReadStatusesParams{OrderNos: part, Buckets: ids.BucketsOf(part)})
		if err != nil {
			return nil, fmt.Errorf("order: read statuses: %w", err)
		}
		for _, r := range rows {
			statuses[r.OrderNo] = r.Status
		}
	}
	return statuses, nil
}

// EndedWithin returns those of the orders that were closed, or refunded, within a duration
// before Postgres's time.
func (r Reader) EndedWithin(ctx context.Context, nos []ids.ID, within time.Duration) (map[ids.ID]bool, error) {
	recent := make(map[ids.ID]bool)
	for part := range slices.Chunk(nos, statusLimit) {
		rows, err := orderdb.New(r.DB).EndedWithin(ctx, orderdb.EndedWithinParams{OrderNos: part, Buckets: ids.BucketsOf(part), Within: within})
		if err != nil {
			return nil, fmt.Errorf("order: read recent closings: %w", err)
		}
		for _, no := range rows {
			recent[no] = true
		}
	}
	return recent, nil
}

// ChangedWithin returns the users whose orders changed within a duration before Postgres's
// time, by item; a new order is no change.
func (r Reader) ChangedWithin(ctx context.Context, within time.Duration) (map[int64][]int64, error) {
	rows, err := orderdb.New(r.DB).ChangedWithin(ctx, within)
	if err != nil {
		return nil, fmt.Errorf("order: read recent changes: %w", err)
	}
	users := make(map[int64][]int64)
	for _, r := range rows {
		users[r.ItemID] = append(users[r.ItemID], r.UserID)
	}
	return users, nil
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

// cursor passes a query to Postgres as a cursor's: the first call of a generated
// method declares it, and each call returns the next rows.
type cursor struct {
	pgx.Tx
	name string // empty before the first call
}

// cursorRows is how many rows a call returns: some hundred kilobytes, of which
// the reader works off a thousand at a time.
const cursorRows = 4000

// Query returns the next rows.
func (c *cursor) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	// No statement is prepared for later: the name is used once.
	const mode = pgx.QueryExecModeDescribeExec
	if c.name == "" {
		name := "c" + ids.New().String()
		if _, err := c.Exec(ctx, "DECLARE "+name+" NO SCROLL CURSOR FOR "+sql, append([]any{mode}, args...)...); err != nil {
			return nil, err
		}
		c.name = name
	}
	return c.Tx.Query(ctx, fmt.Sprintf("FETCH %d FROM %s", cursorRows, c.name), mode)
}

// inChunks passes the rows of a query for what to each, as of converts them; each may read
// other queries in the same way.
func inChunks[Row, T any](ctx context.Context, tx pgx.Tx, what string, query func(*orderdb.Queries) ([]Row, error), of func(Row) T,
	each func([]T) error,
) error {
	c := &cursor{Tx: tx}
	q := orderdb.New(c)
	var part []T
	for {
		rows, err := query(q)
		if err != nil {
			return fmt.Errorf("order: read %s: %w", what, err)
		}
		if len(rows) == 0 {
			_, err := tx.Exec(ctx, "CLOSE "+c.name, pgx.QueryExecModeDescribeExec)
			return err
		}
		part = part[:0]
		for _, r := range rows {
			part = append(part, of(r))
		}
		if err := each(part); err != nil {
			return err
		}
	}
}

// Live passes the item's live orders to each.
func (Reader) Live(ctx context.Context, tx pgx.Tx, itemID int64, each func([]inventory.Held) error) error {
	return inChunks(ctx, tx, "live orders", func(q *orderdb.Queries) ([]orderdb.LiveOrdersOfItemRow, error) {
		return q.LiveOrdersOfItem(ctx, itemID)
	}, func(r orderdb.LiveOrdersOfItemRow) inventory.Held {
		return inventory.Held{No: r.OrderNo, User: r.UserID, Quantity: r.Quantity, Paid: r.Status != orderevent.StatusPending}
	}, each)
}

// Rehome moves the item's orders to the shards of their users, and sums the units
// of the live ones by shard.
func (Reader) Rehome(ctx context.Context, tx pgx.Tx, itemID int64, shards int16) (map[int16]int64, error) {
	q := orderdb.New(tx)
	if err := q.RehomeOrders(ctx, orderdb.RehomeOrdersParams{ItemID: itemID, Shards: shards}); err != nil {
		return nil, fmt.Errorf("order: move orders of item %d to %d shards: %w", itemID, shards, err)
	}
	rows, err := q.LiveUnitsByShard(ctx, itemID)
	if err != nil {
		return nil, fmt.Errorf("order: read live units of item %d: %w", itemID, err)
	}
	units := make(map[int16]int64, len(rows))
	for _, r := range rows {
		units[r.Shard] = r.Units
	}
	return units, nil
}

// tombstoneFor is how long after its end a number is still passed to Load, which
// writes a tombstone for it: its rush path lives 120 s, and clock differences and
// slow requests get another 60 s; the rest is margin for the Load itself.
const tombstoneFor = 240 * time.Second

// Ended passes the numbers that ended so recently that their paths may still be
// used.
func (Reader) Ended(ctx context.Context, tx pgx.Tx, itemID int64, each func([]inventory.Tombstone) error) error {
	return inChunks(ctx, tx, "ended orders", func(q *orderdb.Queries) ([]orderdb.EndedOrdersOfItemRow, error) {
		return q.EndedOrdersOfItem(ctx, orderdb.EndedOrdersOfItemParams{ItemID: itemID, WithinSeconds: tombstoneFor.Seconds()})
	}, func(r orderdb.EndedOrdersOfItemRow) inventory.Tombstone {
		return inventory.Tombstone{No: r.OrderNo, Until: r.UpdatedAt.Add(tombstoneFor)}
	}, each)
}

// Closed passes the item's orders that were refunded, or closed by timeout or by
// their shopper, the last one of each user without a live order. Orders refused by
// the system are not included.
func (Reader) Closed(ctx context.Context, tx pgx.Tx, itemID int64, each func([]inventory.Held) error) error {
	return inChunks(ctx, tx, "closed orders", func(q *orderdb.Queries) ([]orderdb.ClosedOrdersOfItemRow, error) {
		return q.ClosedOrdersOfItem(ctx, itemID)
	}, func(r orderdb.ClosedOrdersOfItemRow) inventory.Held {
		return inventory.Held{No: r.OrderNo, User: r.UserID, Closed: true}
	}, each)
}
