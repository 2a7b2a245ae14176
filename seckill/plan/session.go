package plan

import (
	"fmt"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/external"
	"stampede/platform/store/pg"
	"stampede/seckill/internal/seckilldb"
)

// SessionDraft is the body that creates a session; it may include items.
type SessionDraft struct {
	Name                string            `json:"name" doc:"1 to 120 characters" example:"10:00"`
	OpensAt             time.Time         `json:"opens_at" doc:"When the items go on sale" example:"2030-11-11T12:00:00Z"`
	ClosesAt            time.Time         `json:"closes_at" doc:"When the sale closes, at least 10 s later" example:"2030-11-11T12:10:00Z"`
	ReservationOpensAt  *time.Time        `json:"reservation_opens_at,omitempty" doc:"When reservations open; if given, only shoppers who reserved the item get a rush path" example:"2030-11-01T00:00:00Z"`
	ReservationClosesAt *time.Time        `json:"reservation_closes_at,omitempty" doc:"When reservations close, no later than the session's opening" example:"2030-11-11T11:00:00Z"`
	ReservationCap      float64           `json:"reservation_cap,omitempty" minimum:"0" maximum:"1000" doc:"The most reservations of an item, as a multiple of its stock, at least 1; 0 is no cap" example:"20"`
	ExternalID          string            `json:"external_id,omitempty" maxLength:"64" pattern:"^[!-~]*$" patternDescription:"printable ASCII without spaces" doc:"What the shop's own system calls it, unique in its activity" example:"evening"`
	Metadata            external.Metadata `json:"metadata,omitempty"`
	Items               []ItemDraft       `json:"items,omitempty" maxItems:"1000" doc:"Items to create with it"`
}

// minSession is the shortest session: in a shorter one, shoppers could not get
// from the opening through a rush path to an attempt.
const minSession = 10 * time.Second

// Rows are the rows that the draft inserts.
func (in *SessionDraft) Rows() *Session {
	t := &Session{SeckillSession: seckilldb.SeckillSession{
		Name: in.Name, OpensAt: in.OpensAt, ClosesAt: in.ClosesAt, ReservationOpensAt: in.ReservationOpensAt,
		ReservationClosesAt: in.ReservationClosesAt, ReservationCap: in.ReservationCap,
		ExternalID: pg.Null(in.ExternalID), Metadata: in.Metadata.OrEmpty(),
	}}
	for i := range in.Items {
		t.Items = append(t.Items, in.Items[i].Row())
	}
	return t
}

// SessionDraft checks a session that is created together with its activity.
func (f *Flaws) SessionDraft(location string, in *SessionDraft, a *seckilldb.SeckillActivity) {
	f.Session(location, &in.Rows().SeckillSession, a)
	for i := range in.Items {
		f.ItemDraft(fmt.Sprintf("%s.items[%d]", location, i), &in.Items[i])
	}
}

// Session checks what an operator sets on a session.
func (f *Flaws) Session(location string, s *seckilldb.SeckillSession, a *seckilldb.SeckillActivity) {
	f.name(location+".name", s.Name)
	f.Moment(location+".opens_at", s.OpensAt)
	f.Moment(location+".closes_at", s.ClosesAt)
	f.Add(s.ClosesAt.After(s.OpensAt), location+".closes_at", s.ClosesAt,
		fault.T("A session ends after it starts: choose a later end time.", "结束时间须晚于开始时间。"))
	lasts := s.ClosesAt.Sub(s.OpensAt)
	f.Add(lasts <= 0 || lasts >= minSession, location+".closes_at", s.ClosesAt,
		fault.T("A session lasts at least 10 seconds.", "场次至少持续 10 秒。"))
	f.Add(!s.OpensAt.Before(a.StartsAt), location+".opens_at", s.OpensAt,
		fault.T("A session opens no earlier than its activity starts.", "场次开抢不能早于活动开始。"))
	f.Add(!s.ClosesAt.After(a.EndsAt), location+".closes_at", s.ClosesAt,
		fault.T("A session closes no later than its activity ends.", "场次结束不能晚于活动结束。"))
	if share := a.PaymentWindowShare; share != nil {
		window := time.Duration(*share * float64(s.ClosesAt.Sub(s.OpensAt)))
		f.Add(window >= MinPayWindow, location+".closes_at", s.ClosesAt,
			fault.T("The activity's share of this session is a payment window below 10 seconds.", "按比例计算的付款时限不足 10 秒。"))
	}
	f.reservation(location, s)
	f.external(location, s.ExternalID, s.Metadata)
}

// SpanHolds checks the existing sessions of an edited activity.
func (f *Flaws) SpanHolds(b *Activity) {
	for i := range b.Sessions {
		var inner Flaws
		inner.Session("body", &b.Sessions[i].SeckillSession, &b.SeckillActivity)
		if len(inner) > 0 {
			f.Add(false, inner[0].Location, inner[0].Value,
				fault.T("Session {session} would break a rule: {rule}",
					"场次 {session} 不符合规则：{rule}", "session", b.Sessions[i].ID, "rule", inner[0].Says))
		}
	}
}

// SessionSubject names a session in the audit log.
func SessionSubject(id int64) string { return fmt.Sprintf("session %d", id) }

// The door settings of a plan: which human check an activity requires, whether a
// user may take part in other activities as well, and when a session's items can
// be reserved. The checks themselves are elsewhere; they read these settings
// from the catalogue.

const (
	// maxHumanCheckRate is in paths a minute: far more than anyone requests
	// manually.
	maxHumanCheckRate = 1000
	// A cap is a multiple of the stock. Below 1, some units could never be
	// bought; above 1000 it no longer limits anything.
	minReservationCap, maxReservationCap = 1.0, 1000.0
)

// reservation checks when a session's items can be reserved.
func (f *Flaws) reservation(location string, s *seckilldb.SeckillSession) {
	from, until := s.ReservationOpensAt, s.ReservationClosesAt
	f.Add((from == nil) == (until == nil), location+".reservation_closes_at", nil,
		fault.T("A reservation has both reservation_opens_at and reservation_closes_at, or neither.",
			"预约开始和截止时间须同时填写，或同时留空。"))
	if s.ReservationCap != 0 {
		f.Add(s.ReservationCap >= minReservationCap && s.ReservationCap <= maxReservationCap, location+".reservation_cap", s.ReservationCap,
			fault.T("The cap is 1 to 1000 times the stock, or 0 for none.", "预约上限为库存的 1 至 1000 倍，0 为不限。"))
		f.Add(from != nil, location+".reservation_cap", s.ReservationCap,
			fault.T("A cap needs a reservation; give reservation_opens_at and reservation_closes_at.",
				"设置预约上限前，请先填写预约开始和截止时间。"))
	}
	if from == nil || until == nil {
		return
	}
	f.Moment(location+".reservation_opens_at", *from)
	f.Add(from.Before(*until), location+".reservation_closes_at", *until,
		fault.T("A reservation closes after it opens.", "预约截止须晚于预约开始。"))
	f.Add(!until.After(s.OpensAt), location+".reservation_closes_at", *until,
		fault.T("A reservation closes no later than its session opens.", "预约截止不能晚于开抢时间。"))
}
