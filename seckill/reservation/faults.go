package reservation

import (
	"errors"
	"time"

	"stampede/platform/base/batch"
	"stampede/platform/base/fault"
)

var (
	errItemUnknown = fault.Plain(fault.NotFound, "There is no such item; GET /api/v1/sessions lists what is on sale.")
	errNotAsked    = fault.New(fault.Conflict, "no-reservation", fault.Titles{"No reservation is needed", "该商品无需预约"}, "This item needs no reservation; request a rush path shortly before the opening.")
	errNotOpen     = fault.New(fault.TooEarly, "reservation-not-open", fault.Titles{"Reservations are not open yet", "预约尚未开始"}, "Reservations for this item are not open yet; they open at reservation_opens_at.")
	errClosed      = fault.New(fault.Gone, "reservation-closed", fault.Titles{"Reservations are closed", "预约已结束"}, "Reservations for this item are closed.")
	errEnded       = fault.New(fault.Gone, "ended", fault.Titles{"The sale has ended", "抢购已结束"}, "The sale of this item has ended.")
	errFull        = fault.New(fault.Conflict, "reservation-full", fault.Titles{"All reservations are taken", "预约名额已满"},
		"All reservations for this item are taken; try again later, a place may become free before the reservation closes.")
	errNone = fault.Plain(fault.NotFound, "You have no reservation for this item.")

	// Two texts for one code: what a shopper can still do differs.
	errNotHeld = fault.New(fault.Forbidden, "no-reservation-held", fault.Titles{"Only for shoppers with a reservation", "您未预约，无法参与抢购"},
		"Only shoppers who reserved this item can take part, and the reservation is closed.")
	errNotHeldYet = errNotHeld.Saying("Only shoppers who reserved this item can take part; reserve it before reservation_closes_at and try again.")

	// errBusy hides the cause; the log has it.
	errBusy = fault.Plain(fault.Unavailable, "Reservations cannot be looked up right now; try again in a moment.").After(time.Second)
)

// inWords is the shopper's error for a full queue.
func inWords(err error) error {
	if errors.Is(err, batch.ErrBusy) {
		return errBusy.Because(err)
	}
	return err
}
