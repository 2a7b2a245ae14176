package seckill

import (
	"encoding/json"

	"stampede/platform/watch/audit"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/seckillevent"
)

// activityView is an activity as operators see it.
type activityView struct {
	ID                   wire.ID               `json:"id"`
	Name                 string                `json:"name"`
	Status               string                `json:"status" enum:"draft,scheduled,running,ended,terminated" doc:"draft is seen by operators only; scheduled is published; running from its first opening; ended when its time is over; terminated by an operator"`
	Paused               bool                  `json:"paused" doc:"No rush is taken until it is resumed"`
	StartsAt             wire.Time             `json:"starts_at"`
	EndsAt               wire.Time             `json:"ends_at"`
	LimitPerUser         int32                 `json:"limit_per_user" doc:"Units of one item that one user may hold"`
	OneItemPerUser       bool                  `json:"one_item_per_user" doc:"A user may hold one item of the activity only"`
	PaymentWindowSeconds int32                 `json:"payment_window_seconds" doc:"How long an order may stay unpaid, unless a share is set"`
	PaymentWindowShare   *float64              `json:"payment_window_share" doc:"Replaces the seconds where set"`
	RebuyAfterClose      bool                  `json:"rebuy_after_close" doc:"A user whose unpaid order was closed may buy again"`
	HumanCheck           string                `json:"human_check" enum:"none,pow,slide,verifier" doc:"How a shopper proves to be a person before a rush path"`
	HumanCheckRate       int32                 `json:"human_check_rate" doc:"Paths a minute above which a second check is required; 0 never"`
	Exclusive            bool                  `json:"exclusive" doc:"A user takes part in one exclusive activity at a time"`
	RefundWithinHours    int32                 `json:"refund_within_hours" doc:"How long after paying a shopper may return an order that is not completed; 0 is never"`
	RefundUnits          string                `json:"refund_units" enum:"return,write_off" doc:"What becomes of the units of a refunded order unless an operator decides"`
	Checkout             seckillevent.Checkout `json:"checkout" doc:"What is settled between the order and its payment"`
	EditableUntil        *wire.Time            `json:"editable_until,omitempty" doc:"Given for one scheduled activity, not in lists: 60 s before its first opening. From then on stock can be added and the activity paused or terminated, but not edited. It lies in the past if the activity was published later than that"`
	Version              int32                 `json:"version" doc:"Send it back with an edit"`
	CreatedAt            wire.Time             `json:"created_at"`
	UpdatedAt            wire.Time             `json:"updated_at"`
	Sessions             []sessionView         `json:"sessions,omitempty" nullable:"false" doc:"Given when one activity is read, not in lists"`
	Preflight            *preflightView        `json:"preflight,omitempty" doc:"Given when it is published: the lines above ok, to be put right before the opening"`
}

// sessionView is a session as operators see it.
type sessionView struct {
	ID                  wire.ID    `json:"id"`
	ActivityID          wire.ID    `json:"activity_id"`
	Name                string     `json:"name"`
	OpensAt             wire.Time  `json:"opens_at"`
	ClosesAt            wire.Time  `json:"closes_at"`
	ReservationOpensAt  *wire.Time `json:"reservation_opens_at" nullable:"true" doc:"null when no reservation is required"`
	ReservationClosesAt *wire.Time `json:"reservation_closes_at" nullable:"true" doc:"Until when an item can be reserved; null when no reservation is required"`
	ReservationCap      float64    `json:"reservation_cap" doc:"The most reservations of an item, as a multiple of its stock; 0 is no cap"`
	RepeatOf            *wire.ID   `json:"repeat_of" nullable:"true" doc:"The session that this one repeats on another day; null if it repeats none"`
	Version             int32      `json:"version" doc:"Send it back with an edit"`
	CreatedAt           wire.Time  `json:"created_at"`
	UpdatedAt           wire.Time  `json:"updated_at"`
	Items               []itemView `json:"items,omitempty" nullable:"false" doc:"Given when one session is read, not in lists"`
}

// itemView is an item as operators see it.
type itemView struct {
	ID         wire.ID `json:"id"`
	SessionID  wire.ID `json:"session_id"`
	ActivityID wire.ID `json:"activity_id"`
	wire.Goods
	Stock           *int32    `json:"stock" doc:"Units of goods put on sale so far; the funnel says how many are left; null when unlimited"`
	OversellPercent int16     `json:"oversell_percent" doc:"Units on sale beyond the stock by agreement, as a share of it"`
	OversellReason  string    `json:"oversell_reason" doc:"Why that was agreed; empty at 0 %"`
	OnSale          *int32    `json:"on_sale" doc:"stock + floor(stock × oversell_percent / 100); null when unlimited"`
	Backup          int32     `json:"backup" doc:"Units held back beside the stock so far, for payments that arrive after their order was closed; the funnel says how many are left"`
	Unlimited       bool      `json:"unlimited" doc:"Nothing is counted down"`
	Paused          bool      `json:"paused" doc:"No rush for this item is taken until it is resumed; a pause of its activity counts besides"`
	Admission       *int32    `json:"admission" doc:"Attempts a second that each instance admits to the line; 0 admits none, null all"`
	LimitPerUser    int32     `json:"limit_per_user" doc:"0 is the activity's limit"`
	Reservations    *int64    `json:"reservations,omitempty" doc:"How many shoppers hold one; given when items are read or listed"`
	Changed         *int32    `json:"changed,omitempty" doc:"Given when the stock is changed: by how many units, below 0 for units taken off"`
	Version         int32     `json:"version" doc:"Send it back with an edit"`
	CreatedAt       wire.Time `json:"created_at"`
	UpdatedAt       wire.Time `json:"updated_at"`
}

// auditEntry is one action in the audit log.
type auditEntry struct {
	ID      wire.ID         `json:"id"`
	At      wire.Time       `json:"at"`
	Actor   string          `json:"actor" doc:"The operator's user id; 0 is the system"`
	Role    string          `json:"role" doc:"The operator's role at that time"`
	Action  string          `json:"action" example:"activity.publish" doc:"The thing and what was done to it; refused.… was requested and not allowed"`
	Subject string          `json:"subject" example:"activity 12" doc:"What it was done to"`
	Detail  json.RawMessage `json:"detail" doc:"What was before and after the change, one of them left out of what is new or gone, and the reason if one was given; of a search or an export, what was asked for"`
}

// The views hide how rows are stored: 0 means that the item has no limit besides
// the activity's, a null repeat that the session is no copy, and the units on
// sale are computed, never stored twice.

func viewActivity(a *seckilldb.SeckillActivity) activityView {
	return activityView{
		ID: wire.ID(a.ID), Name: a.Name, Status: a.Status, Paused: a.Paused, StartsAt: wire.Time(a.StartsAt), EndsAt: wire.Time(a.EndsAt),
		LimitPerUser: a.LimitPerUser, OneItemPerUser: a.OneItemPerUser, PaymentWindowSeconds: a.PaymentWindowSeconds,
		PaymentWindowShare: a.PaymentWindowShare, RebuyAfterClose: a.RebuyAfterClose, HumanCheck: a.HumanCheck,
		HumanCheckRate: a.HumanCheckRate, Exclusive: a.Exclusive, RefundWithinHours: a.RefundWithinHours, RefundUnits: a.RefundUnits, Checkout: a.Checkout, Version: a.Version,
		CreatedAt: wire.Time(a.CreatedAt), UpdatedAt: wire.Time(a.UpdatedAt),
	}
}

func viewSession(s *seckilldb.SeckillSession) sessionView {
	return sessionView{
		ID: wire.ID(s.ID), ActivityID: wire.ID(s.ActivityID), Name: s.Name, OpensAt: wire.Time(s.OpensAt), ClosesAt: wire.Time(s.ClosesAt),
		ReservationOpensAt: (*wire.Time)(s.ReservationOpensAt), ReservationClosesAt: (*wire.Time)(s.ReservationClosesAt),
		ReservationCap: s.ReservationCap, RepeatOf: (*wire.ID)(s.RepeatOf), Version: s.Version, CreatedAt: wire.Time(s.CreatedAt), UpdatedAt: wire.Time(s.UpdatedAt),
	}
}

func viewItem(i *seckilldb.SeckillItem) itemView {
	v := itemView{
		ID: wire.ID(i.ID), SessionID: wire.ID(i.SessionID), ActivityID: wire.ID(i.ActivityID), Goods: goodsOf(i),
		OversellPercent: i.OversellPercent, OversellReason: i.OversellReason, Backup: i.Backup, Unlimited: i.Unlimited, Paused: i.Paused, Admission: i.Admission,
		LimitPerUser: optional(i.LimitPerUser, 0), Version: i.Version, CreatedAt: wire.Time(i.CreatedAt), UpdatedAt: wire.Time(i.UpdatedAt),
	}
	if !i.Unlimited {
		v.Stock, v.OnSale = new(i.Stock), new(unitsOnSale(i))
	}
	return v
}

// viewTwig is a session with its items.
func viewTwig(t *twig) sessionView {
	v := viewSession(&t.session)
	for i := range t.items {
		v.Items = append(v.Items, viewItem(&t.items[i]))
	}
	return v
}

// view returns the activity with its sessions and items.
func (b *branch) view() activityView {
	v := viewActivity(&b.activity)
	for i := range b.sessions {
		v.Sessions = append(v.Sessions, viewTwig(&b.sessions[i]))
	}
	if opens := b.firstOpening(); b.activity.Status == statusScheduled && !opens.IsZero() {
		v.EditableUntil = new(wire.Time(opens.Add(-freezeBefore)))
	}
	return v
}

func viewAudit(e audit.Entry) auditEntry {
	return auditEntry{
		ID: wire.ID(e.ID), At: wire.Time(e.At), Actor: wire.ID(e.Actor).String(), Role: e.Role, Action: e.Action, Subject: e.Subject, Detail: e.Detail,
	}
}
