package seckill

import (
	"slices"
	"strings"
	"time"

	"stampede/platform/identity/humancheck"
	"stampede/seckill/internal/seckilldb"
)

// What a plan says about its door: which human check an activity asks for,
// whether a user may take part in others besides, and when a session's items can
// be reserved. The checks themselves are not here; they read these settings from
// the catalogue.

// humanChecks are the kinds that an activity may ask for.
var humanChecks = []string{string(humancheck.None), string(humancheck.Pow), string(humancheck.Slide), string(humancheck.Verifier)}

const (
	// maxHumanCheckRate is in paths a minute: far more than anybody asks for by
	// hand.
	maxHumanCheckRate = 1000
	// A cap is a multiple of the stock. Below 1 units would stay that nobody may
	// ask for; above 1000 it is no cap any more.
	minReservationCap, maxReservationCap = 1.0, 1000.0
	// capFixedBefore is how long before reservations open their session's cap is
	// there or is not: every reservation is then counted, or none is. It is longer
	// than any edit takes to commit.
	capFixedBefore = time.Minute
)

// activityDoor checks what an activity asks for at its door.
func (f *flaws) activityDoor(a *seckilldb.SeckillActivity) {
	f.add(slices.Contains(humanChecks, a.HumanCheck), "body.human_check", a.HumanCheck,
		"The human check is one of %s.", strings.Join(humanChecks, ", "))
	f.add(a.HumanCheckRate >= 0 && a.HumanCheckRate <= maxHumanCheckRate, "body.human_check_rate", a.HumanCheckRate,
		"The rate above which a second check is asked for is 1 to %d paths a minute, or 0 for none.", maxHumanCheckRate)
}

// reservation checks when a session's items can be reserved.
func (f *flaws) reservation(location string, s *seckilldb.SeckillSession) {
	from, until := s.ReservationOpensAt, s.ReservationClosesAt
	f.add((from == nil) == (until == nil), location+".reservation_closes_at", nil,
		"A reservation has both reservation_opens_at and reservation_closes_at, or neither.")
	if s.ReservationCap != 0 {
		f.add(s.ReservationCap >= minReservationCap && s.ReservationCap <= maxReservationCap, location+".reservation_cap", s.ReservationCap,
			"The cap is 1 to 1000 times the stock, or 0 for none.")
		f.add(from != nil, location+".reservation_cap", s.ReservationCap, "A cap needs a reservation; give reservation_opens_at and reservation_closes_at.")
	}
	if from == nil || until == nil {
		return
	}
	f.moment(location+".reservation_opens_at", *from)
	f.add(from.Before(*until), location+".reservation_closes_at", *until, "A reservation closes after it opens.")
	f.add(!until.After(s.OpensAt), location+".reservation_closes_at", *until, "A reservation closes no later than its session opens.")
}

// reservationOver lays the patch's reservation over a session's row.
func (in *sessionPatch) reservationOver(row *seckilldb.SeckillSession) {
	if in.WithoutReservation {
		row.ReservationOpensAt, row.ReservationClosesAt, row.ReservationCap = nil, nil, 0
		return
	}
	if in.ReservationOpensAt != nil {
		row.ReservationOpensAt = in.ReservationOpensAt
	}
	if in.ReservationClosesAt != nil {
		row.ReservationClosesAt = in.ReservationClosesAt
	}
	row.ReservationCap = optional(in.ReservationCap, row.ReservationCap)
}

// capHolds refuses to begin or to stop counting reservations that are being made:
// the count would be short of those before, or of those meanwhile. Another cap in
// place of one is possible at any time, and takes nothing from anybody.
func (c *change) capHolds(f *flaws, before, after *seckilldb.SeckillSession) {
	open := before.ReservationOpensAt
	if open == nil || (before.ReservationCap > 0) == (after.ReservationCap > 0) || after.ReservationOpensAt == nil {
		return
	}
	f.add(open.Sub(c.at) > capFixedBefore, "body.reservation_cap", after.ReservationCap,
		"From 60 seconds before reservations open, a cap can be changed but neither introduced nor taken away; closing the reservation earlier stops it.")
}

// shiftReservation moves a session's reservation as its opening was moved. Where
// the clocks change in between it still ends by the opening, and keeps its length
// rather than end before it begins.
func shiftReservation(s *seckilldb.SeckillSession, by time.Duration, zone *time.Location) {
	if s.ReservationOpensAt == nil || s.ReservationClosesAt == nil {
		return
	}
	length := s.ReservationClosesAt.Sub(*s.ReservationOpensAt)
	from, until := shiftSpan(*s.ReservationOpensAt, *s.ReservationClosesAt, by, zone)
	until = earlier(until, s.OpensAt)
	if !from.Before(until) {
		from = until.Add(-length)
	}
	s.ReservationOpensAt, s.ReservationClosesAt = &from, &until
}

// moment returns a time that may be missing; the zero time then.
func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
