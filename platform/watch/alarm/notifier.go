package alarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
	"stampede/platform/edge/outbound"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm/internal/alarmdb"
)

const (
	// tellEvery is how late an alarm may be posted in normal operation. Each poll is
	// one indexed query.
	tellEvery = 2 * time.Second
	// attemptTimeout bounds one post, including the receiver's answer.
	attemptTimeout = 10 * time.Second
	// noteTimeout bounds storing an attempt's outcome.
	noteTimeout = 5 * time.Second
	// claimLife is how long a claim lasts: one attempt, and storing its outcome.
	claimLife = attemptTimeout + noteTimeout
	// firstPause and mostPause are the wait after the first failure and the longest
	// one: a receiver that is being deployed is back in seconds, a broken one is
	// repaired in hours.
	firstPause = 5 * time.Second
	mostPause  = 15 * time.Minute
	// failingAfter is how many failed attempts raise an alarm: two and a half
	// minutes of retries.
	failingAfter = 5
	// restAfter consecutive failures, of any incidents, pause all posts for
	// restPauses × firstPause: half a minute. A hanging receiver then gets one post
	// in that time and not one of each of hundreds of incidents in turn, which would
	// delay urgent ones when it is back.
	restAfter  = 5
	restPauses = 6
	// answerBytes is how much of a receiver's answer is read, for the detail of that
	// alarm and to reuse the connection.
	answerBytes = 512
)

// Notifier posts each incident once to a webhook. Several may run, in one process or
// in many; see the package's description. Make it with NewNotifier.
type Notifier struct {
	pool   *pgxpool.Pool
	hook   Webhook
	client *outbound.Client
	log    *slog.Logger

	first time.Duration // firstPause, except in tests
	every time.Duration // tellEvery, except in tests
}

// NewNotifier makes a notifier for hook, or returns what is wrong with hook. Without
// a URL its Run does nothing. metrics may be nil.
func NewNotifier(pool *pgxpool.Pool, hook Webhook, log *slog.Logger, metrics prometheus.Registerer) (*Notifier, error) {
	if err := hook.Check(); err != nil {
		return nil, err
	}
	return &Notifier{
		pool: pool, hook: hook, log: log, first: firstPause, every: tellEvery,
		client: newClient(attemptTimeout, firstPause, metrics),
	}, nil
}

// newClient pauses calls for restPauses × pause after restAfter failures. Only Run
// uses it, one call at a time.
func newClient(timeout, pause time.Duration, metrics prometheus.Registerer) *outbound.Client {
	return outbound.New(outbound.Config{
		Peer: "alarm-webhook", Timeout: timeout, Attempts: 1, BreakerFailures: restAfter, BreakerDelay: restPauses * pause,
		Conns: 1, MaxBytes: answerBytes, Metrics: metrics,
	})
}

// Run posts incidents until ctx ends, and then returns nil. No error ends it.
func (n *Notifier) Run(ctx context.Context) error {
	if n.hook.URL == "" {
		<-ctx.Done()
		return nil
	}
	defer n.client.CloseIdleConnections()
	return app.Loop{Every: n.every, Log: n.log, Failed: "posting alarms failed", Do: func(ctx context.Context) error {
		for {
			if told, err := n.tellOne(ctx); err != nil || !told {
				return err
			}
		}
	}}.Run(ctx)
}

// tellOne claims one incident, if any is due, and makes one attempt. It reports
// whether there was one.
func (n *Notifier) tellOne(ctx context.Context) (bool, error) {
	if !n.client.Available() {
		return false, nil
	}
	c, ok, err := claim(ctx, n.pool)
	if err != nil || !ok {
		return false, err
	}
	failure := n.post(ctx, c)
	q, incident := alarmdb.New(n.pool), int32(c.Incident) // which was read from such a column
	if ctx.Err() != nil && failure != nil {
		return false, failure // the process stops; the claim expires and another attempt follows
	}
	if failure == nil {
		// Stored even if the process stops now; otherwise the incident would be
		// posted twice. A newer one that began meanwhile is posted as well.
		note, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
		defer cancel()
		if err := q.IncidentAccepted(note, alarmdb.IncidentAcceptedParams{ID: c.ID, Incident: incident}); err != nil {
			return true, fmt.Errorf("alarm: mark alarm %d as posted: %w", c.ID, err)
		}
		return true, nil
	}
	pause := min(n.first<<min(c.attempts-1, 20), mostPause)
	n.log.WarnContext(ctx, "alarm webhook did not accept a message", "code", string(c.Code), "subject", c.Subject, "attempts", c.attempts,
		"again_in", pause.String(), "error", failure)
	if err := q.IncidentRefused(ctx, alarmdb.IncidentRefusedParams{ID: c.ID, Incident: incident, Pause: pause}); err != nil {
		return true, fmt.Errorf("alarm: schedule a retry for alarm %d: %w", c.ID, err)
	}
	if c.attempts >= failingAfter && c.Code != WebhookFailing.Code {
		return true, WebhookFailing.Raise(ctx, n.pool, "webhook", failure.Error())
	}
	return true, nil
}

// post sends one incident, signed now, so that a retry has a fresh timestamp.
func (n *Notifier) post(ctx context.Context, c claimed) error {
	body, err := json.Marshal(map[string]any{"id": strconv.FormatInt(c.ID, 10) + "-" + strconv.Itoa(c.Incident), "alarm": c.Alarm})
	if err != nil {
		return fmt.Errorf("alarm: encode: %w", err)
	}
	return n.client.Do(ctx, outbound.Request{
		URL: n.hook.URL, Body: body, Type: "application/json",
		Head: func(h http.Header) { scheme.Sign(h, []byte(n.hook.Secret), time.Now(), body) },
	}, func(r outbound.Reply) error {
		if r.Status/100 != 2 {
			return fmt.Errorf("alarm: the receiver answered %d: %q", r.Status, r.Body)
		}
		return nil
	})
}

// claimed is an incident that this process is about to post.
type claimed struct {
	Alarm
	attempts int // including this one
}

// claim takes the incident that has waited longest, until the claim expires: a
// process that dies leaves it to the others.
func claim(ctx context.Context, db pg.DB) (claimed, bool, error) {
	row, err := alarmdb.New(db).ClaimIncident(ctx, claimLife)
	if errors.Is(err, pgx.ErrNoRows) {
		return claimed{}, false, nil
	}
	if err != nil {
		return claimed{}, false, fmt.Errorf("alarm: claim: %w", err)
	}
	return claimed{Alarm: alarmOf(row), attempts: int(row.TellAttempts)}, true, nil
}
