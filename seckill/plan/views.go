package plan

import (
	"stampede/platform/edge/external"
	"stampede/platform/store/pg"
	"stampede/platform/watch/preflight"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/seckillevent"
)

// ActivityView is an activity as operators see it.
type ActivityView struct {
	ID                   wire.ID                   `json:"id"`
	Name                 string                    `json:"name"`
	Status               string                    `json:"status" enum:"draft,scheduled,running,ended,terminated" doc:"draft is seen by operators only; scheduled is published; running from its first opening; ended when its time is over; terminated by an operator"`
	Paused               bool                      `json:"paused" doc:"No rush is taken until it is resumed"`
	StartsAt             wire.Time                 `json:"starts_at"`
	EndsAt               wire.Time                 `json:"ends_at"`
	LimitPerUser         int32                     `json:"limit_per_user" doc:"Units of one item that one user may hold, all in one order"`
	OneItemPerUser       bool                      `json:"one_item_per_user" doc:"A user may hold one item of the activity only"`
	PaymentWindowSeconds int32                     `json:"payment_window_seconds" doc:"How long an order may stay unpaid, unless a share is set"`
	PaymentWindowShare   *float64                  `json:"payment_window_share" doc:"Replaces the seconds where set"`
	RebuyAfterClose      bool                      `json:"rebuy_after_close" doc:"A user whose unpaid order was closed, or whose order was refunded, may buy again"`
	HumanCheck           string                    `json:"human_check" enum:"none,pow,slide,verifier" doc:"How a shopper proves to be a person before a rush path"`
	HumanCheckRate       int32                     `json:"human_check_rate" doc:"Paths a minute above which a second check is required; 0 never"`
	Exclusive            bool                      `json:"exclusive" doc:"A user takes part in one exclusive activity at a time"`
	RefundWithinHours    int32                     `json:"refund_within_hours" doc:"How long after paying a shopper may return an order that is not completed; 0 is never"`
	RefundUnits          string                    `json:"refund_units" enum:"return,write_off" doc:"What becomes of the units of a refunded order unless an operator decides"`
	PointsRate           int32                     `json:"points_rate" doc:"Points that a shopper earns for each 100 minor units paid, such as 1 for each yuan; rounded down for an order, 0 is none"`
	Checkout             seckillevent.CheckoutView `json:"checkout" doc:"What is settled between the order and its payment"`
	EditableUntil        *wire.Time                `json:"editable_until,omitempty" doc:"Given for one scheduled activity, not in lists: 60 s before its first opening. From then on stock can be added and the activity paused or terminated, but not edited. It lies in the past if the activity was published later than that"`
	ExternalID           *string                   `json:"external_id" doc:"What the shop's own system calls it; null when it was not given"`
	Metadata             external.Metadata         `json:"metadata"`
	Version              int32                     `json:"version" doc:"Send it back with an edit"`
	CreatedAt            wire.Time                 `json:"created_at"`
	UpdatedAt            wire.Time                 `json:"updated_at"`
	Sessions             []SessionView             `json:"sessions,omitempty" nullable:"false" doc:"Given when one activity is read, not in lists"`
	Preflight            *PreflightView            `json:"preflight,omitempty" doc:"Given when it is published: the lines above ok, to be put right before the opening"`
}

// SessionView is a session as operators see it.
type SessionView struct {
	ID                  wire.ID           `json:"id"`
	ActivityID          wire.ID           `json:"activity_id"`
	Name                string            `json:"name"`
	OpensAt             wire.Time         `json:"opens_at"`
	ClosesAt            wire.Time         `json:"closes_at"`
	ReservationOpensAt  *wire.Time        `json:"reservation_opens_at" nullable:"true" doc:"null when no reservation is required"`
	ReservationClosesAt *wire.Time        `json:"reservation_closes_at" nullable:"true" doc:"Until when an item can be reserved; null when no reservation is required"`
	ReservationCap      float64           `json:"reservation_cap" doc:"The most reservations of an item, as a multiple of its stock; 0 is no cap"`
	RepeatOf            *wire.ID          `json:"repeat_of" nullable:"true" doc:"The session that this one repeats on another day; null if it repeats none"`
	ExternalID          *string           `json:"external_id" doc:"What the shop's own system calls it; null when it was not given"`
	Metadata            external.Metadata `json:"metadata"`
	Version             int32             `json:"version" doc:"Send it back with an edit"`
	CreatedAt           wire.Time         `json:"created_at"`
	UpdatedAt           wire.Time         `json:"updated_at"`
	Items               []ItemView        `json:"items,omitempty" nullable:"false" doc:"Given when one session is read, not in lists"`
}

// ItemView is an item as operators see it.
type ItemView struct {
	ID         wire.ID `json:"id"`
	SessionID  wire.ID `json:"session_id"`
	ActivityID wire.ID `json:"activity_id"`
	wire.Goods
	Stock           *int32            `json:"stock" doc:"Units of goods put on sale so far; the funnel says how many are left; null when unlimited"`
	OversellPercent int16             `json:"oversell_percent" doc:"Units on sale beyond the stock by agreement, as a share of it"`
	OversellReason  string            `json:"oversell_reason" doc:"Why that was agreed; empty at 0 %" example:"The supplier ships 10 more by Friday."`
	OnSale          *int32            `json:"on_sale" doc:"stock + floor(stock × oversell_percent / 100); null when unlimited"`
	Backup          int32             `json:"backup" doc:"Units held back beside the stock so far, for payments that arrive after their order was closed; the funnel says how many are left"`
	Unlimited       bool              `json:"unlimited" doc:"Nothing is counted down"`
	Paused          bool              `json:"paused" doc:"No rush for this item is taken until it is resumed; a pause of its activity counts besides"`
	Admission       *int32            `json:"admission" doc:"Attempts a second that are let in evenly, on all instances together; 0 lets none in, null all at once"`
	LimitPerUser    int32             `json:"limit_per_user" doc:"0 is the activity's limit"`
	Reservations    *int64            `json:"reservations,omitempty" doc:"How many shoppers hold one; given when items are read or listed"`
	Changed         *int32            `json:"changed,omitempty" doc:"Given when the stock is changed: by how many units, below 0 for units taken off"`
	ExternalID      *string           `json:"external_id" doc:"What the shop's own system calls it; null when it was not given"`
	Metadata        external.Metadata `json:"metadata"`
	Version         int32             `json:"version" doc:"Send it back with an edit"`
	CreatedAt       wire.Time         `json:"created_at"`
	UpdatedAt       wire.Time         `json:"updated_at"`
}

// The views hide how rows are stored: 0 means that the item has no limit besides
// the activity's, a null repeat that the session is no copy, and the units on
// sale are computed, never stored twice.

// ViewActivity is an activity by itself.
func ViewActivity(a *seckilldb.SeckillActivity) ActivityView {
	return ActivityView{
		ID: wire.ID(a.ID), Name: a.Name, Status: a.Status, Paused: a.Paused, StartsAt: wire.Time(a.StartsAt), EndsAt: wire.Time(a.EndsAt),
		LimitPerUser: a.LimitPerUser, OneItemPerUser: a.OneItemPerUser, PaymentWindowSeconds: a.PaymentWindowSeconds,
		PaymentWindowShare: a.PaymentWindowShare, RebuyAfterClose: a.RebuyAfterClose, HumanCheck: a.HumanCheck,
		HumanCheckRate: a.HumanCheckRate, Exclusive: a.Exclusive, RefundWithinHours: a.RefundWithinHours, RefundUnits: a.RefundUnits, PointsRate: a.PointsRate, Checkout: a.Checkout.View(),
		ExternalID: a.ExternalID, Metadata: a.Metadata, Version: a.Version,
		CreatedAt: wire.Time(a.CreatedAt), UpdatedAt: wire.Time(a.UpdatedAt),
	}
}

// ViewSession is a session by itself.
func ViewSession(s *seckilldb.SeckillSession) SessionView {
	return SessionView{
		ID: wire.ID(s.ID), ActivityID: wire.ID(s.ActivityID), Name: s.Name, OpensAt: wire.Time(s.OpensAt), ClosesAt: wire.Time(s.ClosesAt),
		ReservationOpensAt: (*wire.Time)(s.ReservationOpensAt), ReservationClosesAt: (*wire.Time)(s.ReservationClosesAt),
		ReservationCap: s.ReservationCap, RepeatOf: (*wire.ID)(s.RepeatOf),
		ExternalID: s.ExternalID, Metadata: s.Metadata, Version: s.Version, CreatedAt: wire.Time(s.CreatedAt), UpdatedAt: wire.Time(s.UpdatedAt),
	}
}

// ViewItem is an item.
func ViewItem(i *seckilldb.SeckillItem) ItemView {
	v := ItemView{
		ID: wire.ID(i.ID), SessionID: wire.ID(i.SessionID), ActivityID: wire.ID(i.ActivityID), Goods: goodsOf(i),
		OversellPercent: i.OversellPercent, OversellReason: i.OversellReason, Backup: i.Backup, Unlimited: i.Unlimited, Paused: i.Paused, Admission: i.Admission,
		LimitPerUser: pg.ValueOr(i.LimitPerUser, 0), ExternalID: i.ExternalID, Metadata: i.Metadata, Version: i.Version,
		CreatedAt: wire.Time(i.CreatedAt), UpdatedAt: wire.Time(i.UpdatedAt),
	}
	if !i.Unlimited {
		v.Stock, v.OnSale = new(i.Stock), new(UnitsOnSale(i))
	}
	return v
}

// View is the session with its items.
func (t *Session) View() SessionView {
	v := ViewSession(&t.SeckillSession)
	for i := range t.Items {
		v.Items = append(v.Items, ViewItem(&t.Items[i]))
	}
	return v
}

// View returns the activity with its sessions and items.
func (b *Activity) View() ActivityView {
	v := ViewActivity(&b.SeckillActivity)
	for i := range b.Sessions {
		v.Sessions = append(v.Sessions, b.Sessions[i].View())
	}
	if opens := b.FirstOpening(); b.Status == StatusScheduled && !opens.IsZero() {
		v.EditableUntil = new(wire.Time(opens.Add(-FreezeBefore)))
	}
	return v
}

// PreflightView is the answer of a preflight.
type PreflightView struct {
	ActivityID wire.ID          `json:"activity_id"`
	At         wire.Time        `json:"at"`
	Level      preflight.Level  `json:"level" enum:"ok,warning,stop" doc:"The highest level of all lines"`
	Units      int64            `json:"units" doc:"Counted units on sale in the largest session"`
	Shoppers   int              `json:"shoppers,omitempty" doc:"Those expected, as asked"`
	Lines      []preflight.Line `json:"lines" nullable:"false" doc:"Stops first, then warnings"`
}
