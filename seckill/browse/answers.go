package browse

import (
	"time"

	"stampede/inventory"
	"stampede/platform/base/currency"
	"stampede/platform/identity/humancheck"
	"stampede/seckill/internal/wire"
	"stampede/seckill/seckillevent"
)

// Statuses that shoppers see. Upcoming, on sale, paused and ended also apply to
// a session; the others only to an item.
const (
	shopUpcoming  = "upcoming"
	shopOnSale    = "on_sale"
	shopPreparing = "preparing" // on sale, but not loaded at the moment; a rush must be retried
	shopAllHeld   = "all_held"  // none left, but unpaid ones may come back
	shopSoldOut   = "sold_out"  // every unit is paid for
	shopPaused    = "paused"
	shopEnded     = "ended"
)

// Entry is what a shopper has to do to get a rush path. It is exported because
// huma documents embedded fields of exported types only.
type Entry struct {
	ReservationOpensAt  *wire.Time      `json:"reservation_opens_at" nullable:"true" doc:"When reservations open; null when no reservation is required"`
	ReservationClosesAt *wire.Time      `json:"reservation_closes_at" nullable:"true" doc:"When reservations close; only shoppers who reserved in time get a rush path"`
	HumanCheck          humancheck.Kind `json:"human_check" enum:"none,pow,slide,verifier" doc:"How a shopper proves to be a person; pow is earned at the reservation where there is one"`
}

// Delivery is how an activity's goods reach the shopper, and at which price, as Redis has
// it: in minor units of the items' currency, 0 for none.
type Delivery struct {
	Ways     []seckillevent.Way `json:"ways"`
	Freight  int64              `json:"freight,omitempty"`
	FreeFrom int64              `json:"free_from,omitempty"`
}

// DeliveryView is a Delivery as shoppers read it.
type DeliveryView struct {
	Ways     []seckillevent.Way `json:"ways" enum:"delivery,pickup" nullable:"false"`
	Freight  *currency.Money    `json:"freight,omitempty" doc:"What a delivery adds to an order; left out, it is free"`
	FreeFrom *currency.Money    `json:"free_from,omitempty" doc:"Goods of this amount or more are delivered free; left out, none are"`
}

// in shows a delivery with its amounts in a currency.
func (d *Delivery) in(code string) *DeliveryView {
	if d == nil {
		return nil
	}
	checkout := seckillevent.Checkout{Freight: d.Freight, FreeFrom: d.FreeFrom, Currency: code}
	v := checkout.View()
	return &DeliveryView{Ways: d.Ways, Freight: v.Freight, FreeFrom: v.FreeFrom}
}

// DeliveryOf is what an activity's checkout says of it; nil where nothing is handed over.
func DeliveryOf(c *seckillevent.Checkout) *Delivery {
	if len(c.Ways) == 0 {
		return nil
	}
	return &Delivery{Ways: c.Ways, Freight: c.Freight, FreeFrom: c.FreeFrom}
}

type shopSession struct {
	ID           wire.ID   `json:"id"`
	ActivityID   wire.ID   `json:"activity_id"`
	ActivityName string    `json:"activity_name" example:"Singles' Day"`
	Name         string    `json:"name"`
	OpensAt      wire.Time `json:"opens_at"`
	ClosesAt     wire.Time `json:"closes_at"`
	Entry
	Status         string     `json:"status" enum:"upcoming,on_sale,paused,ended" doc:"upcoming, on_sale, paused by an operator, or ended"`
	OneItemPerUser bool       `json:"one_item_per_user" doc:"A shopper may hold only one item of the activity"`
	ItemCount      int        `json:"item_count" doc:"How many items it has"`
	Items          []shopItem `json:"items,omitempty" nullable:"false" doc:"Given when one session is read, not in lists"`
}

type shopItem struct {
	ID         wire.ID `json:"id"`
	SessionID  wire.ID `json:"session_id"`
	ActivityID wire.ID `json:"activity_id"`
	wire.Goods
	LimitPerUser         int32         `json:"limit_per_user" doc:"Units of it that one user may hold"`
	OneItemPerUser       bool          `json:"one_item_per_user" doc:"A shopper may hold only one item of the activity"`
	PaymentWindowSeconds int64         `json:"payment_window_seconds" doc:"How long an order may stay unpaid"`
	Delivery             *DeliveryView `json:"delivery,omitempty" doc:"How the goods reach the shopper; left out where they do not"`
	OpensAt              wire.Time     `json:"opens_at"`
	ClosesAt             wire.Time     `json:"closes_at"`
	Entry
	Status    string `json:"status" enum:"upcoming,on_sale,preparing,all_held,sold_out,paused,ended" doc:"preparing: on sale, but a rush must be retried in a moment; all_held: none is left now, unpaid ones may come back; sold_out: every unit is paid for"`
	Unlimited bool   `json:"unlimited" doc:"Nothing is counted down"`
	Total     *int64 `json:"total" doc:"Units on sale; null when unlimited"`
	Remaining *int64 `json:"remaining" doc:"Units left, up to 2 s old; null when unlimited or not known at the moment"`
}

// entryOf is the entry requirements of a session. A view written before human
// checks existed requires none.
func entryOf(s *Session) Entry {
	e := Entry{ReservationOpensAt: s.ReserveFrom, ReservationClosesAt: s.ReserveUntil, HumanCheck: s.HumanCheck}
	if e.HumanCheck == "" {
		e.HumanCheck = humancheck.None
	}
	return e
}

// sessionStatus derives a session's status from the clock and the operator's
// actions.
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

// shopSessionOf renders a session without its items.
func shopSessionOf(s *Session, now time.Time) shopSession {
	return shopSession{
		ID: s.ID, ActivityID: s.ActivityID, ActivityName: s.ActivityName, Name: s.Name, OpensAt: s.OpensAt, ClosesAt: s.ClosesAt,
		Entry: entryOf(s), Status: sessionStatus(s, now), OneItemPerUser: s.PerActivity, ItemCount: s.ItemCount,
	}
}

// shopItemOf renders an item with its stock state; loaded is false while Redis
// has no valid state for it.
func shopItemOf(s *Session, i *Item, state inventory.State, loaded bool, now time.Time) shopItem {
	v := shopItem{
		ID: i.ID, SessionID: s.ID, ActivityID: s.ActivityID, Goods: i.Goods, LimitPerUser: i.LimitPerUser, OneItemPerUser: s.PerActivity,
		PaymentWindowSeconds: i.PayWindowSeconds, Delivery: s.Delivery.in(i.SalePrice.Currency), OpensAt: s.OpensAt, ClosesAt: s.ClosesAt, Status: sessionStatus(s, now),
		Entry: entryOf(s), Unlimited: i.Unlimited,
	}
	total, remaining := int64(i.OnSale), int64(i.OnSale)
	if loaded {
		total, remaining = state.Total, max(state.Remaining, 0)
	}
	if !i.Unlimited {
		v.Total, v.Remaining = &total, &remaining
	}
	if i.Paused && v.Status != shopEnded {
		v.Status = shopPaused
	}
	if v.Status != shopOnSale {
		return v
	}
	switch {
	case !loaded:
		// The remaining units are unknown at the moment; a guess would be a promise.
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

// nextChange is the next moment at which time alone changes a session's status;
// the zero time if there is none.
func nextChange(s *Session, now time.Time) time.Time {
	for _, t := range []time.Time{time.Time(s.OpensAt), time.Time(s.ClosesAt)} {
		if t.After(now) {
			return t
		}
	}
	return time.Time{}
}
