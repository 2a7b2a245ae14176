package reservation

import (
	"errors"
	"time"

	"stampede/platform/base/batch"
	"stampede/platform/base/fault"
)

var (
	errNotAsked = fault.New(fault.Conflict, "no-reservation", fault.T("No reservation is needed", "该商品无需预约"),
		fault.T("This item needs no reservation; request a rush path shortly before the opening.",
			"该商品无需预约，请在开抢前获取抢购链接。"),
		fault.T("Request a rush path shortly before the opening.", "无需预约，请在开抢前获取抢购链接。"))
	// ErrNotOpen refuses a reservation before reservation_opens_at.
	ErrNotOpen = fault.New(fault.TooEarly, "reservation-not-open",
		fault.T("Reservations are not open yet", "预约尚未开始"),
		fault.T("Reservations for this item are not open yet; they open at reservation_opens_at.",
			"该商品的预约尚未开始，开始时间见 reservation_opens_at。"),
		fault.T("Come back at reservation_opens_at.", "请在预约开始后再来。"))
	// ErrClosed refuses a reservation after reservation_closes_at.
	ErrClosed = fault.New(fault.Gone, "reservation-closed", fault.T("Reservations are closed", "预约已结束"),
		fault.T("Reservations for this item are closed.", "该商品的预约已截止。"),
		fault.T("Look for another session of the activity.", "请关注活动的其他场次。"))
	errFull = fault.New(fault.Conflict, "reservation-full", fault.T("All reservations are taken", "预约名额已满"),
		fault.T("All reservations for this item are taken; try again later, a place may become free before the "+
			"reservation closes.",
			"该商品的预约名额已满；截止前可能有人取消，可稍后再试。"),
		fault.T("Look for another session of the activity.", "预约名额已满，请关注其他场次。"))
	errNone = fault.Plain(fault.NotFound, fault.T("You have no reservation for this item.", "您没有预约该商品。"))

	// ErrNotHeld has two texts for one code: what a shopper can still do differs.
	ErrNotHeld = fault.New(fault.Forbidden, "no-reservation-held",
		fault.T("Only for shoppers with a reservation", "您未预约，无法参与抢购"),
		fault.T("Only shoppers who reserved this item can take part, and the reservation is closed.",
			"仅限已预约的顾客参加，预约已截止。"),
		fault.T("Reserve in time for another session.", "请提前预约其他场次。"))
	errNotHeldYet = ErrNotHeld.Saying(
		fault.T("Only shoppers who reserved this item can take part; reserve it before reservation_closes_at and try "+
			"again.",
			"仅限已预约的顾客参加，请在 reservation_closes_at 之前预约后重试。"))

	// errBusy hides the cause; the log has it.
	errBusy = fault.Plain(fault.Unavailable,
		fault.T("Reservations cannot be looked up right now; try again in a moment.", "暂时无法查询预约，请稍后重试。")).After(time.Second)
)

// inWords is the shopper's error for a full queue.
func inWords(err error) error {
	if errors.Is(err, batch.ErrBusy) {
		return errBusy.Because(err)
	}
	return err
}
