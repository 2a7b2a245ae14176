package stock

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// Holds reads an item's orders in the snapshot that a Load has of them. What may be many is passed in chunks, each
// valid until the function returns; the function's error ends the reading and is returned. order implements it.
type Holds interface {
	// Live passes the live orders: one per user.
	Live(ctx context.Context, tx pgx.Tx, itemID int64, each func([]Held) error) error
	// Ended passes the numbers that ended so recently that their paths may still be used.
	Ended(ctx context.Context, tx pgx.Tx, itemID int64, each func([]Tombstone) error) error
	// Closed passes the orders that were closed unpaid or refunded, the last one of each user without a live order. It
	// is only called for items that a user may buy only once.
	Closed(ctx context.Context, tx pgx.Tx, itemID int64, each func([]Held) error) error
	// Rehome moves the item's orders to the shards of their users, of which there are so many now, and returns the
	// units of the live ones by shard.
	Rehome(ctx context.Context, tx pgx.Tx, itemID int64, shards int16) (live map[int16]int64, err error)
}

// Books reads what the orders say about units, for the checks. order implements it.
type Books interface {
	// LiveUnits sums the units of live orders per item.
	LiveUnits(ctx context.Context) (map[int64]Units, error)
	// Statuses returns the status of each number that has an order row.
	Statuses(ctx context.Context, nos []ids.ID) (map[ids.ID]string, error)
	// ChangedWithin returns the users whose orders changed that recently, by item, by Postgres's clock; a new order is
	// no change.
	ChangedWithin(ctx context.Context, within time.Duration) (map[int64][]int64, error)
	// EndedWithin returns those of the orders that were closed, or refunded, that recently, by Postgres's clock.
	EndedWithin(ctx context.Context, nos []ids.ID, within time.Duration) (map[ids.ID]bool, error)
}

// Units are an item's units in live orders.
type Units struct {
	Held int64 // not paid yet
	Sold int64
}

const (
	// MostReturnWithin is the longest that an operator may let units of ended orders wait, and what every check
	// allows them: verify runs without the settings of the servers.
	MostReturnWithin = time.Minute
	// returnSlack is added to it for the event that announces the end.
	returnSlack = 5 * time.Second
)

// ReturnsLater reports whether the units of orders with this status return at a random moment. A refused order's
// shopper never had a unit.
func ReturnsLater(status string) bool {
	return status == orderevent.StatusClosed || status == orderevent.StatusRefunded
}

// StatusReturning is the status of an order that waits, and whose units may not have returned yet.
const StatusReturning = "returning"

// Statuses returns the status of each number that has an order row. Units may wait for so long after the end of their
// order, unless they return at once.
func (s *Store) Statuses(ctx context.Context, itemID int64, nos []ids.ID, wait time.Duration) (map[ids.ID]string, error) {
	status, err := s.Books.Statuses(ctx, nos)
	if err != nil {
		return nil, fmt.Errorf("inventory: read orders of item %d: %w", itemID, err)
	}
	var recently []ids.ID
	for no, is := range status {
		if ReturnsLater(is) && s.UnitsReturnWithin > 0 {
			recently = append(recently, no)
		}
	}
	if len(recently) == 0 {
		return status, nil
	}
	recent, err := s.Books.EndedWithin(ctx, recently, wait+returnSlack)
	if err != nil {
		return nil, fmt.Errorf("inventory: read when orders of item %d ended: %w", itemID, err)
	}
	for no := range recent {
		status[no] = StatusReturning
	}
	return status, nil
}

// Held is a live order's claim on an item's units, or what is left of a closed or refunded one: its user may not buy again.
type Held struct {
	No       ids.ID
	User     int64
	Quantity int32 // 0 if closed
	Paid     bool
	Closed   bool
}

// Tombstone is a number that has ended and must not be granted again while its path may still be used.
type Tombstone struct {
	No    ids.ID
	Until time.Time
}

// Ended reports whether orders of a status no longer hold units.
func Ended(status string) bool {
	switch status {
	case orderevent.StatusClosed, orderevent.StatusRefused, orderevent.StatusRefunded, StatusReturning:
		return true
	default:
		return false
	}
}
