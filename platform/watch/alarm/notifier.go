package alarm

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
	"stampede/platform/edge/outbound"
)

const (
	// tellEvery is how late an alarm may be told when nothing else is wrong. One
	// indexed query each time.
	tellEvery = 2 * time.Second
	// attemptTimeout bounds one post, the receiver's answer included.
	attemptTimeout = 10 * time.Second
	// noteTimeout bounds writing an attempt's outcome down.
	noteTimeout = 5 * time.Second
	// claimLife is how long a claimed incident is this process's: an attempt, and
	// its outcome.
	claimLife = attemptTimeout + noteTimeout
	// firstPause and mostPause are the wait after the first failure and the
	// longest: a receiver that is being deployed is back in seconds, one that is
	// broken is repaired in hours.
	firstPause = 5 * time.Second
	mostPause  = 15 * time.Minute
	// failingAfter is how many attempts have failed when an alarm says so: two
	// and a half minutes of trying.
	failingAfter = 5
	// restAfter failures one after another, of whichever incidents, the receiver is
	// left alone for restPauses × firstPause: half a minute. One that hangs is then
	// asked by one incident in that time and not by each of hundreds in turn, which
	// would keep what is urgent waiting behind them when it is back.
	restAfter  = 5
	restPauses = 6
	// answerBytes is what is read of a receiver's answer, for the detail of that
	// alarm and to use the connection again.
	answerBytes = 512
)

// Notifier tells a webhook of each incident once. Several may run, in one
// process or in many; see the package's description. Make it with NewNotifier.
type Notifier struct {
	pool   *pgxpool.Pool
	hook   Webhook
	client *outbound.Client
	log    *slog.Logger
	posts  *prometheus.CounterVec

	first time.Duration // firstPause, except in tests
	every time.Duration // tellEvery, except in tests
}

// NewNotifier makes a notifier for hook, or returns what is wrong with hook.
// Without a URL its Run does nothing. metrics may be nil.
func NewNotifier(pool *pgxpool.Pool, hook Webhook, log *slog.Logger, metrics prometheus.Registerer) (*Notifier, error) {
	if err := hook.Check(); err != nil {
		return nil, err
	}
	return &Notifier{
		pool: pool, hook: hook, log: log, first: firstPause, every: tellEvery,
		client: newClient(attemptTimeout, firstPause, metrics),
		posts: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_alarm_posts_total", Help: "Messages to the alarm webhook, by whether the receiver accepted them.",
		}, []string{"result"}),
	}, nil
}

// newClient leaves a receiver alone for restPauses × pause after restAfter failures.
// Only Run uses it, one call at a time.
func newClient(timeout, pause time.Duration, metrics prometheus.Registerer) *outbound.Client {
	return outbound.New(outbound.Config{
		Peer: "alarm-webhook", Timeout: timeout, Attempts: 1, BreakerFailures: restAfter, BreakerDelay: restPauses * pause,
		Conns: 1, MaxBytes: answerBytes, Metrics: metrics,
	})
}

// Run tells incidents until ctx ends, and then returns nil. No error ends it.
func (n *Notifier) Run(ctx context.Context) error {
	if n.hook.URL == "" {
		<-ctx.Done()
		return nil
	}
	defer n.client.CloseIdleConnections()
	return app.Loop{Every: n.every, Log: n.log, Failed: "alarms not told yet", Do: func(ctx context.Context) error {
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
	if ctx.Err() != nil && failure != nil {
		return false, failure // the process stops; the claim runs out and another attempt follows
	}
	if failure == nil {
		n.posts.WithLabelValues("accepted").Inc()
		// Noted also when the process stops in this moment, or it would be told twice.
		note, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
		defer cancel()
		return true, accepted(note, n.pool, c)
	}
	n.posts.WithLabelValues("refused").Inc()
	pause := min(n.first<<min(c.attempts-1, 20), mostPause)
	n.log.WarnContext(ctx, "alarm webhook did not accept", "code", string(c.Code), "subject", c.Subject, "attempts", c.attempts,
		"again_in", pause.String(), "error", failure)
	if err := refused(ctx, n.pool, c, pause); err != nil {
		return true, err
	}
	if c.attempts >= failingAfter && c.Code != WebhookFailing.Code {
		return true, WebhookFailing.Raise(ctx, n.pool, "webhook", failure.Error())
	}
	return true, nil
}

// message is what a receiver gets.
type message struct {
	ID    string `json:"id"` // names the incident
	Alarm Alarm  `json:"alarm"`
}

// post sends one incident, signed at this moment, so that a retry is fresh again.
func (n *Notifier) post(ctx context.Context, c claimed) error {
	body, err := json.Marshal(message{ID: strconv.FormatInt(c.ID, 10) + "-" + strconv.Itoa(c.Incident), Alarm: c.Alarm})
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
