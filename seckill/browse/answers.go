package browse

import (
	"time"

	"stampede/inventory"
	"stampede/platform/identity/humancheck"
	"stampede/seckill/internal/wire"
)

// Statuses that shoppers see. Upcoming, on sale, paused and ended also fit a
// session; the others are an item's.
const (
	shopUpcoming  = "upcoming"
	shopOnSale    = "on_sale"
	shopPreparing = "preparing" // on sale, but not loaded at the moment; a rush is told to come back
	shopAllHeld   = "all_held"  // none left, but unpaid ones may come back
	shopSoldOut   = "sold_out"  // every unit is paid for
	shopPaused    = "paused"
	shopEnded     = "ended"
)

// Entry is what a shopper has to do before a rush path is given out. It is
// exported because huma documents embedded fields of exported types only.
type Entry struct {
	ReservationOpensAt  *wire.Time      `json:"reservation_opens_at" nullable:"true" doc:"From when an item can be reserved; null when no reservation is asked for"`
	ReservationClosesAt *wire.Time      `json:"reservation_closes_at" nullable:"true" doc:"Until when; only those who reserved it in time get a rush path"`
	HumanCheck          humancheck.Kind `json:"human_check" enum:"none,pow,slide,verifier" doc:"How a shopper proves to be a person; pow is earned at the reservation where there is one"`
}

// shopSession is a session as shoppers see it.
type shopSession struct {
	ID           wire.ID   `json:"id"`
	ActivityID   wire.ID   `json:"activity_id"`
	ActivityName string    `json:"activity_name"`
	Name         string    `json:"name"`
	OpensAt      wire.Time `json:"opens_at"`
	ClosesAt     wire.Time `json:"closes_at"`
	Entry
	Status         string     `json:"status" enum:"upcoming,on_sale,paused,ended" doc:"upcoming, on_sale, paused by an operator, or ended"`
	OneItemPerUser bool       `json:"one_item_per_user" doc:"Whoever has one item of the activity cannot have another"`
	ItemCount      int        `json:"item_count" doc:"How many items it has"`
	Items          []shopItem `json:"items,omitempty" nullable:"false" doc:"Given when one session is read, not in lists"`
}

// shopItem is an item as shoppers see it.
type shopItem struct {
	ID         wire.ID `json:"id"`
	SessionID  wire.ID `json:"session_id"`
	ActivityID wire.ID `json:"activity_id"`
	wire.Goods
	LimitPerUser         int32     `json:"limit_per_user" doc:"Units of it that one user may hold"`
	OneItemPerUser       bool      `json:"one_item_per_user" doc:"Whoever has one item of the activity cannot have another"`
	PaymentWindowSeconds int64     `json:"payment_window_seconds" doc:"How long an order may stay unpaid"`
	OpensAt              wire.Time `json:"opens_at"`
	ClosesAt             wire.Time `json:"closes_at"`
	Entry
	Status    string `json:"status" enum:"upcoming,on_sale,preparing,all_held,sold_out,paused,ended" doc:"preparing: on sale, but a rush is told to come back in a moment; all_held: none is left now, unpaid ones may come back; sold_out: every unit is paid for"`
	Unlimited bool   `json:"unlimited" doc:"Nothing is counted down"`
	Total     *int64 `json:"total" doc:"Units on sale; null when unlimited"`
	Remaining *int64 `json:"remaining" doc:"Units nobody holds, up to 2 s old; null when unlimited, and while nobody knows"`
}

// entryOf is what stands before a session's paths. A view that was written
// before there were human checks asks for none.
func entryOf(s *Session) Entry {
	e := Entry{ReservationOpensAt: s.ReserveFrom, ReservationClosesAt: s.ReserveUntil, HumanCheck: s.HumanCheck}
	if e.HumanCheck == "" {
		e.HumanCheck = humancheck.None
	}
	return e
}

// sessionStatus is what the clock and the operator say about a session.
func sessionStatus(s *Session, now time.Time) string {
	switch {
	case s.Over || !now.Before(time.Time(s.ClosesAt)):
		return shopEnded
	case s.Paused:
		return shopPaused
	case now.Before(time.Time(s.OpensAt)):
		return shopUpcoming
	default:
		return shopOnSale
	}
}

// shopSessionOf shows a session without its items.
func shopSessionOf(s *Session, now time.Time) shopSession {
	return shopSession{
		ID: s.ID, ActivityID: s.ActivityID, ActivityName: s.ActivityName, Name: s.Name, OpensAt: s.OpensAt, ClosesAt: s.ClosesAt,
		Entry: entryOf(s), Status: sessionStatus(s, now), OneItemPerUser: s.PerActivity, ItemCount: s.ItemCount,
	}
}

// shopItemOf shows an item with what its stock state says; loaded is false
// while Redis has none that counts.
func shopItemOf(s *Session, i *Item, state inventory.State, loaded bool, now time.Time) shopItem {
	v := shopItem{
		ID: i.ID, SessionID: s.ID, ActivityID: s.ActivityID, Goods: i.Goods, LimitPerUser: i.LimitPerUser, OneItemPerUser: s.PerActivity,
		PaymentWindowSeconds: i.PayWindowSeconds, OpensAt: s.OpensAt, ClosesAt: s.ClosesAt, Status: sessionStatus(s, now),
		Entry: entryOf(s), Unlimited: i.Unlimited,
	}
	total, remaining := int64(i.OnSale), int64(i.OnSale)
	if loaded {
		total, remaining = state.Total, max(state.Remaining, 0)
	}
	if !i.Unlimited {
		v.Total, v.Remaining = &total, &remaining
	}
	if v.Status != shopOnSale {
		return v
	}
	switch {
	case !loaded:
		// How many are left is not known to anybody at the moment; a guess would be a promise.
		v.Status, v.Remaining = shopPreparing, nil
	case state.Paused:
		v.Status = shopPaused
	case i.Unlimited || remaining > 0:
	case state.Committed >= state.Total:
		v.Status = shopSoldOut
	default:
		v.Status = shopAllHeld
	}
	return v
}

// nextChange is the next moment at which the clock alone changes what a session
// shows; the zero time when there is none.
func nextChange(s *Session, now time.Time) time.Time {
	for _, t := range []time.Time{time.Time(s.OpensAt), time.Time(s.ClosesAt)} {
		if t.After(now) {
			return t
		}
	}
	return time.Time{}
}
