// Package messages shows operators the events of the outbox (platform/store/outbox):
// pending, sent and failed ones, with the attempts that the bus refused and the last
// error, and redrives the failed ones. Messages that arrived, and that their consumer
// gave up on, are dead letters (platform/watch/deadletters); both show payloads by
// [ContentOf] and long errors by [Beginning].
package messages

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

const (
	// redriveAtMost bounds one request for all failed messages: the relay sends a
	// hundred within seconds, and each has a row in the audit log.
	redriveAtMost = 100
	// listTimeout bounds a list: a subject that is rare among millions of sent messages
	// has to be searched for.
	listTimeout = 5 * time.Second
)

var (
	errNotFound = fault.Plain(fault.NotFound,
		fault.T("There is no such message; sent ones are kept for 30 days.", "没有该消息，已发送的消息保留 30 天。"))
	errNothing = fault.Plain(fault.NotFound,
		fault.T("There is no such failed message; another operator may already have redriven it.",
			"没有该失败消息，可能已由其他运营人员重新投递。"))
	errNoSpan  = fault.Plain(fault.Invalid, fault.T("from must be before until.", "from 须早于 until。"))
	errTooWide = fault.Plain(fault.Unavailable,
		fault.T("Finding these messages takes too long. Narrow the list by from and until.", "查找耗时过长，请用 from 和 until 缩小范围。")).After(time.Second)
)

// Waker is notified when an event is due, so that the relay need not wait for its poll.
type Waker interface{ Wake() }

type routes struct {
	pool  *pgxpool.Pool
	relay Waker
}

// Routes registers the operators' routes for the events of the outbox: list them, read
// one, redrive one or all that have failed.
func Routes(rt *httpx.Router, pool *pgxpool.Pool, relay Waker) {
	r := routes{pool, relay}
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/messages", ID: "list-messages", Tag: "operator", Role: auth.Viewer, Load: httpx.Costly,
		Summary: "Events on their way from Postgres to NATS, newest first",
		Description: "`pending`: not sent yet, or refused by NATS and tried again (then with attempts and the last error). `sent`: stored by NATS, kept for 30 days. " +
			"`failed`: refused for `--retry-refused` and kept for `--keep-records`; each has the alarm `outbox-failed`. An outage of NATS fails nothing: its " +
			"events stay pending. Messages that arrived and that a consumer gave up on are `dead-letters`.",
	}, r.list)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/messages/{id}", ID: "get-message", Tag: "operator", Role: auth.Viewer,
		Summary: "An event with its payload and its whole error",
	}, r.get)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/messages/{id}/redrive", ID: "redrive-message", Tag: "operator", Role: auth.Operator,
		Summary: "Try a failed event again, now and for as long as a new one", Audit: "message.redrive", NoKey: httpx.KeepsItsID,
		Description: "It is pending then. Also for a pending event that NATS has refused: it is tried at once. It keeps its id, so its effects happen once, " +
			"however often it is sent.",
	}, r.redrive)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/messages/redrive", ID: "redrive-messages", Tag: "operator", Role: auth.Operator,
		Summary: "Try all failed events again, or those of a subject, the oldest first", Audit: "message.redrive", NoKey: httpx.KeepsItsID,
		Description: "At most 100 at a time; `left` says how many remain failed, and repeating the request continues with them.",
	}, r.redriveAll)
}

// Message is an event in a list. It is exported because huma requires that of embedded
// fields.
type Message struct {
	ID        ids.ID `json:"id" doc:"Also the message's id on NATS"`
	Status    string `json:"status" enum:"pending,sent,failed"`
	Subject   string `json:"subject" example:"events.example"`
	Bytes     int    `json:"bytes" doc:"Size of the payload"`
	Attempts  int    `json:"attempts" doc:"How often NATS refused it; 0 once it is sent"`
	Error     string `json:"error,omitempty" doc:"The last refusal; in a list, its beginning"`
	CreatedAt string `json:"created_at" format:"date-time" doc:"When it was committed"`
	SentAt    string `json:"sent_at,omitempty" format:"date-time" doc:"When NATS acknowledged it"`
	NextTry   string `json:"next_try_at,omitempty" format:"date-time" doc:"When an event that was refused is tried again"`
	FailedAt  string `json:"failed_at,omitempty" format:"date-time"`
}

func view(m outbox.Message) Message {
	return Message{
		ID: m.ID, Status: string(m.Status), Subject: m.Subject, Bytes: m.Bytes, Attempts: m.Attempts, Error: m.Error,
		CreatedAt: httpx.Moment(m.CreatedAt), SentAt: httpx.MomentOrNone(m.SentAt), NextTry: httpx.MomentOrNone(m.NextTry), FailedAt: httpx.MomentOrNone(m.FailedAt),
	}
}

type listInput struct {
	Status  string    `query:"status" enum:"pending,sent,failed" default:"failed" doc:"Only in this state"`
	Subject string    `query:"subject" maxLength:"256" doc:"Only of this subject" example:"events.example"`
	From    time.Time `query:"from" doc:"Events committed at this time or later" example:"2026-11-11T20:00:00+08:00"`
	To      time.Time `query:"until" doc:"Events committed before this time" example:"2026-11-11T21:00:00+08:00"`
	httpx.ChangesInput
}

// list returns a page of events without their payloads, which may be large.
func (r routes) list(ctx context.Context, in *listInput) (*httpx.PageOutput[Message], error) {
	if !in.From.IsZero() && !in.To.IsZero() && !in.From.Before(in.To) {
		return nil, errNoSpan
	}
	f := outbox.Filter{Status: outbox.Status(in.Status), Subject: in.Subject, Since: in.From, Until: in.To}
	reading, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	read := func(p httpx.PageInput) (found []outbox.Message, err error) {
		if p.Cursor != "" {
			if f.BeforeDay, f.Before, err = parsePlace(p.Cursor); err != nil {
				return nil, httpx.ErrCursor.Because(err)
			}
		}
		f.Limit = p.Ask()
		found, err = outbox.List(reading, r.pool, f)
		if err != nil && reading.Err() != nil && ctx.Err() == nil {
			return nil, errTooWide.Because(err)
		}
		return found, unreachable(err)
	}
	inList := func(m outbox.Message) Message {
		v := view(m)
		v.Error = Beginning(v.Error)
		return v
	}
	return httpx.PageOfChanges(in.ChangesInput, read, changed, inList, place)
}

// changed is when an event came into its state; one that NATS refuses is tried again
// all the time.
func changed(m outbox.Message) time.Time {
	switch {
	case m.SentAt != nil:
		return *m.SentAt
	case m.FailedAt != nil:
		return *m.FailedAt
	case m.NextTry != nil:
		return time.Now()
	default:
		return m.CreatedAt
	}
}

// place is the cursor after an event: its day, by which sent ones are ordered first,
// and its id.
func place(m outbox.Message) string { return m.Day.Format(time.DateOnly) + "." + m.ID.String() }

func parsePlace(s string) (day time.Time, id ids.ID, err error) {
	date, no, _ := strings.Cut(s, ".")
	if day, err = time.Parse(time.DateOnly, date); err != nil {
		return day, id, err
	}
	id, err = ids.Parse(no)
	return day, id, err
}

type messageInput struct {
	ID string `path:"id" maxLength:"64" doc:"The event's id"`
}

func (in *messageInput) id(otherwise *fault.Error) (ids.ID, error) {
	id, err := ids.Parse(in.ID)
	if err != nil {
		return ids.ID{}, otherwise.Because(err)
	}
	return id, nil
}

type messageOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Message
		Content
	} `nameHint:"MessageDetail"`
}

func (r routes) get(ctx context.Context, in *messageInput) (*messageOutput, error) {
	id, err := in.id(errNotFound)
	if err != nil {
		return nil, err
	}
	m, ok, err := outbox.Get(ctx, r.pool, id)
	if err != nil {
		return nil, unreachable(err)
	}
	if !ok {
		return nil, errNotFound
	}
	out := &messageOutput{CacheControl: httpx.NoStore}
	out.Body.Message, out.Body.Content = view(m), ContentOf(m.Payload)
	return out, nil
}

type redriveOutput struct {
	Body struct {
		Redriven int `json:"redriven" doc:"Events that are tried again"`
		Left     int `json:"left" doc:"Events that are failed now, of the same subject if one was given"`
	} `nameHint:"MessagesRedriven"`
}

func (r routes) redrive(ctx context.Context, in *messageInput) (*redriveOutput, error) {
	id, err := in.id(errNothing)
	if err != nil {
		return nil, err
	}
	out, err := r.release(ctx, "", func(tx pgx.Tx) ([]outbox.Redriven, error) { return outbox.Redrive(ctx, tx, id) })
	if err == nil && out.Body.Redriven == 0 {
		return nil, errNothing
	}
	return out, err
}

type redriveAllInput struct {
	Body struct {
		Subject string `json:"subject,omitempty" maxLength:"256" doc:"Only events of this subject" example:"events.example"`
	} `nameHint:"MessagesRedrive"`
}

func (r routes) redriveAll(ctx context.Context, in *redriveAllInput) (*redriveOutput, error) {
	return r.release(ctx, in.Body.Subject, func(tx pgx.Tx) ([]outbox.Redriven, error) {
		return outbox.RedriveFailed(ctx, tx, in.Body.Subject, redriveAtMost)
	})
}

// release redrives events and audits each in the same transaction.
func (r routes) release(ctx context.Context, subject string, redrive func(pgx.Tx) ([]outbox.Redriven, error)) (*redriveOutput, error) {
	out := new(redriveOutput)
	err := pg.InTx(ctx, r.pool, func(tx pgx.Tx) error {
		events, err := redrive(tx)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := audit.Record(ctx, tx, "message.redrive", "message "+e.ID.String(), redriven(e)); err != nil {
				return err
			}
		}
		out.Body.Redriven = len(events)
		out.Body.Left, err = outbox.CountFailed(ctx, tx, subject)
		return err
	})
	if err != nil {
		return nil, unreachable(err)
	}
	r.relay.Wake()
	return out, nil
}

// redriven is a redriven event in the audit log.
func redriven(e outbox.Redriven) audit.Change {
	state := func(s outbox.Status) map[string]any {
		return map[string]any{"subject": e.Subject, "attempts": e.Attempts, "status": s}
	}
	c := audit.Change{Before: state(outbox.Pending), After: state(outbox.Pending)}
	if e.Failed {
		c.Before = state(outbox.Failed)
	}
	return c
}

// unreachable is the answer to an operator whose query failed.
func unreachable(err error) error { return httpx.Unreachable(fault.T("Messages", "消息"), err) }
