package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stampede/notify/webhook/internal/webhookdb"
	"stampede/platform/edge/outbound"
	"stampede/platform/store/pg"
)

// made is an attempt.
type made struct {
	Event
	number     int32
	status     int32
	err        error
	at         time.Time
	took       time.Duration
	retryAfter time.Duration
}

func (m made) ms() int32 { return int32(m.took.Milliseconds()) } //nolint:gosec // bounded by the timeout

// says is the error in a bounded number of bytes.
func (m made) says() string {
	if m.err == nil {
		return ""
	}
	text := strings.ToValidUTF8(m.err.Error(), "?")
	return strings.ToValidUTF8(text[:min(len(text), errorBytes)], "")
}

// note writes attempts, and deletes the oldest.
func (s *Service) note(ctx context.Context, db pg.DB, webhook int64, tried ...made) error {
	if len(tried) == 0 {
		return nil
	}
	p := webhookdb.NoteAttemptsParams{WebhookID: webhook}
	for _, m := range tried {
		p.EventIds, p.Types, p.Abouts, p.Attempts = append(p.EventIds, m.ID), append(p.Types, m.Type), append(p.Abouts, m.about), append(p.Attempts, m.number)
		p.Statuses, p.Errors, p.TookMs, p.Ats = append(p.Statuses, m.status), append(p.Errors, m.says()), append(p.TookMs, m.ms()), append(p.Ats, m.at)
	}
	q := webhookdb.New(db)
	if err := q.NoteAttempts(ctx, p); err != nil {
		return err
	}
	return q.ForgetAttempts(ctx, webhookdb.ForgetAttemptsParams{WebhookID: webhook, Keep: keepAttempts})
}

// post posts an event, signed.
func (s *Service) post(ctx context.Context, w webhookdb.NotifyWebhook, e Event, number int32) made {
	m := made{Event: e, number: number, at: time.Now()}
	body, err := json.Marshal(e)
	var head http.Header
	if err == nil {
		head, err = s.sign(w, e.ID, m.at, body)
	}
	if err != nil {
		m.err = err
		return m
	}
	m.err = s.client.Do(ctx, outbound.Request{URL: w.Url, Body: body, Type: "application/json", Head: func(h http.Header) { maps.Copy(h, head) }}, func(reply outbound.Reply) error {
		m.status = int32(reply.Status) //nolint:gosec // three digits
		if seconds, err := strconv.Atoi(reply.Header.Get("Retry-After")); err == nil && seconds > 0 {
			m.retryAfter = time.Duration(min(seconds, int(retryAfterMost/time.Second))) * time.Second
		}
		if reply.Status < 200 || reply.Status > 299 {
			return fmt.Errorf("HTTP %d", reply.Status)
		}
		return nil
	})
	if errors.Is(m.err, outbound.ErrPrivate) {
		m.err = errors.New("the address is private, which --webhook-private allows")
	}
	m.took = time.Since(m.at)
	return m
}

// sign returns the headers of Standard Webhooks, with a signature by the former secret too
// while that is valid and can be opened: a secret is renewed also because a signing key is gone.
func (s *Service) sign(w webhookdb.NotifyWebhook, id string, at time.Time, body []byte) (http.Header, error) {
	secret, err := s.open(w.Secret)
	if err != nil {
		return nil, err
	}
	secrets := [][]byte{secret}
	if w.FormerUntil != nil && at.Before(*w.FormerUntil) {
		if former, err := s.open(w.FormerSecret); err == nil {
			secrets = append(secrets, former)
		}
	}
	var signatures []string
	for _, secret := range secrets {
		signer, err := standardwebhooks.NewWebhookRaw(secret)
		if err != nil {
			return nil, err
		}
		signature, err := signer.Sign(id, at, body)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, signature)
	}
	h := http.Header{}
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return h, nil
}
