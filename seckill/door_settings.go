package seckill

import (
	"slices"
	"strings"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/identity/humancheck"
	"stampede/seckill/internal/seckilldb"
)

// The door settings of a plan: which human check an activity requires, whether a
// user may take part in other activities as well, and when a session's items can
// be reserved. The checks themselves are elsewhere; they read these settings
// from the catalogue.

// humanChecks are the kinds that an activity may require.
var humanChecks = []string{string(humancheck.None), string(humancheck.Pow), string(humancheck.Slide), string(humancheck.Verifier)}

const (
	// maxHumanCheckRate is in paths a minute: far more than anyone requests
	// manually.
	maxHumanCheckRate = 1000
	// A cap is a multiple of the stock. Below 1, some units could never be
	// bought; above 1000 it no longer limits anything.
	minReservationCap, maxReservationCap = 1.0, 1000.0
	// capFixedBefore is how long before reservations open the existence of their
	// session's cap is fixed, so that either every reservation is counted or none
	// is. It is longer than any edit takes to commit.
	capFixedBefore = time.Minute
)

// activityDoor checks an activity's door settings.
func (f *flaws) activityDoor(a *seckilldb.SeckillActivity) {
	f.add(slices.Contains(humanChecks, a.HumanCheck), "body.human_check", a.HumanCheck,
		fault.T("The human check is one of {kinds}.", "人机验证须为：{kinds}。", "kinds", strings.Join(humanChecks, ", ")))
	f.add(a.HumanCheckRate >= 0 && a.HumanCheckRate <= maxHumanCheckRate, "body.human_check_rate", a.HumanCheckRate,
		fault.T("The rate above which a second check is required is 1 to {most} paths a minute, or 0 for none.",
			"二次验证的频率为每分钟 1 至 {most} 次，0 为不启用。", "most", maxHumanCheckRate))
}

// reservation checks when a session's items can be reserved.
func (f *flaws) reservation(location string, s *seckilldb.SeckillSession) {
	from, until := s.ReservationOpensAt, s.ReservationClosesAt
	f.add((from == nil) == (until == nil), location+".reservation_closes_at", nil,
		fault.T("A reservation has both reservation_opens_at and reservation_closes_at, or neither.",
			"预约开始和截止时间须同时填写，或同时留空。"))
	if s.ReservationCap != 0 {
		f.add(s.ReservationCap >= minReservationCap && s.ReservationCap <= maxReservationCap, location+".reservation_cap", s.ReservationCap,
			fault.T("The cap is 1 to 1000 times the stock, or 0 for none.", "预约上限为库存的 1 至 1000 倍，0 为不限。"))
		f.add(from != nil, location+".reservation_cap", s.ReservationCap,
			fault.T("A cap needs a reservation; give reservation_opens_at and reservation_closes_at.",
				"设置预约上限前，请先填写预约开始和截止时间。"))
	}
	if from == nil || until == nil {
		return
	}
	f.moment(location+".reservation_opens_at", *from)
	f.add(from.Before(*until), location+".reservation_closes_at", *until,
		fault.T("A reservation closes after it opens.", "预约截止须晚于预约开始。"))
	f.add(!until.After(s.OpensAt), location+".reservation_closes_at", *until,
		fault.T("A reservation closes no later than its session opens.", "预约截止不能晚于开抢时间。"))
}

// reservationOver applies the patch's reservation to a session's row.
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

// capHolds refuses to start or stop counting reservations while they are being
// made: the count would miss those made before or meanwhile. Replacing one cap by
// another is possible at any time and cancels no reservation.
func (c *change) capHolds(f *flaws, before, after *seckilldb.SeckillSession) {
	open := before.ReservationOpensAt
	if open == nil || (before.ReservationCap > 0) == (after.ReservationCap > 0) || after.ReservationOpensAt == nil {
		return
	}
	f.add(open.Sub(c.at) > capFixedBefore, "body.reservation_cap", after.ReservationCap,
		fault.T("From 60 seconds before reservations open, a cap can be changed but neither introduced nor removed; "+
			"to stop reservations, close them earlier.",
			"预约开始前 60 秒起，预约上限只能修改，不能新增或取消；如需停止预约，请提前截止时间。"))
}

// shiftReservation moves a session's reservation as its opening was moved. If the
// clocks change in between, the reservation still ends by the opening, and keeps
// its length rather than ending before it begins.
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

// moment returns a time that may be missing, as the zero time if it is.
func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
