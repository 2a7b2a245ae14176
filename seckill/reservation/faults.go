package reservation

import (
	"errors"
	"time"

	"stampede/platform/fault"
	"stampede/platform/gather"
)

var (
	errItemUnknown = fault.New(fault.NotFound, "not-found", "There is no such item; GET /api/v1/sessions lists what is on sale.")
	errNotAsked    = fault.New(fault.Conflict, "no-reservation", "This item needs no reservation; ask for a rush path shortly before the opening.")
	errNotOpen     = fault.New(fault.TooEarly, "reservation-not-open", "Reservations for this item are not open yet; they are from reservation_opens_at on.")
	errClosed      = fault.New(fault.Gone, "reservation-closed", "Reservations for this item are closed.")
	errEnded       = fault.New(fault.Gone, "ended", "The sale of this item has ended.")
	errFull        = fault.New(fault.Conflict, "reservation-full",
		"All reservations for this item are taken; ask again later, somebody may give theirs back before the reservation closes.")
	errNone = fault.New(fault.NotFound, "not-found", "You have no reservation for this item.")

	// Two sentences for one code: what a shopper can still do differs.
	errNotHeld = fault.New(fault.Forbidden, "no-reservation-held",
		"Only shoppers who reserved this item can take part, and the reservation is closed.")
	errNotHeldYet = fault.New(fault.Forbidden, "no-reservation-held",
		"Only shoppers who reserved this item can take part; reserve it until reservation_closes_at and ask again.")

	// errBusy hides what failed; the log has it.
	errBusy = fault.New(fault.Unavailable, "unavailable", "Reservations cannot be looked up right now; try again in a moment.").After(time.Second)
)

// inWords is what a shopper is told when the line is full.
func inWords(err error) error {
	if errors.Is(err, gather.ErrBusy) {
		return errBusy.Because(err)
	}
	return err
}
