package rush

import (
	"context"
	"net/netip"
	"time"

	"stampede/platform/base/ids"
	"stampede/seckill/catalogue"
)

// Applicant is a shopper who asks for a rush path and has passed the checks of
// the catalogue: the item is on sale, paths for it are given out, the quantity is
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

	// UsableFrom is when the path may be sent, at first the opening. Only later
	// than that is possible.
	UsableFrom time.Time
	// PayWithin is the payment window, at first the item's. Only shorter than
	// that is possible.
	PayWithin time.Duration
}

// DoorCheck decides whether an applicant gets a path: nil, or a fault that the
// shopper is told. It may be called by many goroutines at once, must end when ctx
// does, and repeating it for one user and item must do no harm. A check that
// takes something that others could have (a place, a claim) makes sure by itself
// that it comes back.
type DoorCheck func(ctx context.Context, a *Applicant) error
