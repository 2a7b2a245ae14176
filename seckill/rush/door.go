package rush

import (
	"context"
	"net/netip"
	"time"

	"stampede/platform/base/ids"
	"stampede/seckill/catalogue"
)

// Applicant is a shopper who requests a rush path and has passed the checks of
// the catalogue: the item is on sale, paths for it are issued, the quantity is
// within its limit. A DoorCheck may make the path stricter, never looser.
type Applicant struct {
	User     int64
	Device   string     // the token's; empty when it was not stated at login
	Address  netip.Addr // the client's; an invalid one when it is not known
	Item     *catalogue.Item
	Quantity int32
	OrderNo  ids.ID // of this attempt
	Proof    string // the solution of a human check; empty when none was sent
	Now      time.Time

	// UsableFrom is when the path may be sent, initially the opening. A check
	// may only move it later.
	UsableFrom time.Time
	// PayWithin is the payment window, initially the item's. A check may only
	// shorten it.
	PayWithin time.Duration
}

// DoorCheck decides whether an applicant gets a path: nil, or the shopper's
// fault. It may be called concurrently, must return when ctx ends, and must be
// harmless to repeat for one user and item. A check that takes something from
// other users (a place, a claim) must itself ensure that it is released.
type DoorCheck func(ctx context.Context, a *Applicant) error
