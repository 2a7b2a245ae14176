package webhook

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/notify/webhook/internal/webhookdb"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/outbox"
	"stampede/platform/watch/audit"
)

// Attempt is a delivery, as operators see it.
type Attempt struct {
	ID      string `json:"id" example:"77"`
	EventID string `json:"event_id"`
	Type    string `json:"type" example:"order.paid"`
	About   string `json:"about" doc:"An order number, or an activity" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Attempt int32  `json:"attempt" doc:"1 is the first; 0 was sent by an operator"`
	Status  int32  `json:"status" doc:"HTTP status of the answer; 0 without one"`
	Error   string `json:"error,omitempty" example:"The receiver answered 503."`
	TookMS  int32  `json:"took_ms"`
	At      string `json:"at" format:"date-time"`
}

type attemptsInput struct {
	OneInput
	Failed bool `query:"failed" doc:"Only those that were not taken"`
	httpx.ChangesInput
}

func (s *Service) attempts(ctx context.Context, in *attemptsInput) (*httpx.PageOutput[Attempt], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	q := webhookdb.New(s.deps.DB)
	if _, err := q.Webhook(ctx, id); errors.Is(err, pgx.ErrNoRows) {
		return nil, errNone
	} else if err != nil {
		return nil, unreachable(err)
	}
	made := func(a webhookdb.NotifyWebhookAttempt) time.Time { return a.At }
	return httpx.PageOfChanges(in.ChangesInput, func(page httpx.PageInput) ([]webhookdb.NotifyWebhookAttempt, error) {
		before, err := page.BeforeID()
		if err != nil {
			return nil, err
		}
		rows, err := q.Attempts(ctx, webhookdb.AttemptsParams{WebhookID: id, Before: before, Failed: in.Failed, AtMost: int32(page.Ask())}) //nolint:gosec // a page
		return httpx.MadeSince(rows, in.UpdatedFrom, made), unreachable(err)
	}, made, func(a webhookdb.NotifyWebhookAttempt) Attempt {
		return Attempt{httpx.FormatID(a.ID), a.EventID, a.Type, a.About, a.Attempt, a.Status, a.Error, a.TookMs, httpx.Moment(a.At)}
	}, func(a webhookdb.NotifyWebhookAttempt) string { return httpx.FormatID(a.ID) })
}

func (s *Service) test(ctx context.Context, in *OneInput) (*httpx.Output[Attempt], error) {
	return s.sendNow(ctx, in.ID, "webhook.test",
		Event{ID: ids.New().String() + "-0", Type: typeTest, Timestamp: httpx.Moment(time.Now()), Data: []byte(`{}`)})
}

type sendInput struct {
	OneInput
	Body struct {
		EventID string `json:"event_id" minLength:"34" maxLength:"40" pattern:"^[0-9a-f]{32}-[0-9]{1,6}$" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60-0"`
	} `nameHint:"EventSending"`
}

func (s *Service) send(ctx context.Context, in *sendInput) (*httpx.Output[Attempt], error) {
	// Read before the webhook's row is locked: a transaction that waits for a second connection could wait for itself.
	message, number, _ := strings.Cut(in.Body.EventID, "-")
	var no ids.ID
	if err := no.UnmarshalText([]byte(message)); err != nil {
		return nil, errNoEvent
	}
	m, found, err := outbox.Get(ctx, s.deps.DB, no)
	if err != nil {
		return nil, unreachable(err)
	}
	n, err := strconv.Atoi(number)
	if _, public := kinds[m.Subject]; !found || !public || err != nil {
		return nil, errNoEvent
	}
	events, err := eventsOf(outbox.Logged{ID: m.ID, Subject: m.Subject, Payload: m.Payload, CreatedAt: m.CreatedAt})
	if err != nil {
		return nil, err
	}
	if n >= len(events) {
		return nil, errNoEvent
	}
	return s.sendNow(ctx, in.ID, "webhook.send", events[n])
}

// sendNow posts an event outside the order of deliveries, and answers with what came back.
func (s *Service) sendNow(ctx context.Context, raw, action string, event Event) (*httpx.Output[Attempt], error) {
	w, err := s.locked(ctx, raw, func(tx pgx.Tx, _ *webhookdb.Queries, had webhookdb.NotifyWebhook) (webhookdb.NotifyWebhook, error) {
		return had, audit.Note(ctx, tx, action, subjectOf(had.ID), map[string]any{"event": event.ID})
	})
	if err != nil {
		return nil, err
	}
	made := s.post(ctx, w, event, 0)
	if err := s.note(ctx, s.deps.DB, w.ID, made); err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(Attempt{
		EventID: event.ID, Type: event.Type, About: event.about, Status: made.status, Error: made.says(), TookMS: made.ms(), At: httpx.Moment(made.at),
	}), nil
}
