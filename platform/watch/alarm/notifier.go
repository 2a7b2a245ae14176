package alarm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/base/signature"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/mail"
	"stampede/platform/edge/outbound"
	"stampede/platform/edge/sms"
	"stampede/platform/watch/alarm/channel"
	"stampede/platform/watch/alarm/internal/alarmdb"
)

const (
	// tellEvery is how late an alarm may be sent in normal operation. Each poll is one
	// indexed query for each address.
	tellEvery = 2 * time.Second
	// noteTimeout bounds storing an attempt's outcome.
	noteTimeout = 5 * time.Second
	// claimLife is how long a claim lasts: one attempt, and storing its outcome.
	claimLife = channel.Timeout + noteTimeout
	// firstPause and mostPause are the wait after the first failure and the longest
	// one: a receiver that is being deployed is back in seconds, a broken one is
	// repaired in hours. throttledPause is the least after a robot got too many messages,
	// which they count by the minute.
	firstPause     = 5 * time.Second
	mostPause      = 15 * time.Minute
	throttledPause = time.Minute
	// failingAfter is how many failed attempts raise an alarm: two and a half
	// minutes of retries.
	failingAfter = 5
	// restAfter consecutive failures, of any incidents, pause an address for
	// restPauses × firstPause: half a minute. A hanging receiver then gets one post
	// in that time and not one of each of hundreds of incidents in turn, which would
	// delay urgent ones when it is back.
	restAfter  = 5
	restPauses = 6
	// answerBytes is how much of a receiver's answer is read, for the detail of that
	// alarm and to reuse the connection.
	answerBytes = 512
	// messageGap is the time between two messages to people, far above what the robots of
	// WeCom and DingTalk take (20 a minute): a storm of alarms is a few messages.
	messageGap = 30 * time.Second
	// messageIncidents bounds what one message is about.
	messageIncidents = 200
	// settled is how long a problem must be over before a message says so, so that one that
	// comes and goes is not two messages each time.
	settled = 2 * time.Minute
)

// What was sent to an address about an incident; "" is nothing yet.
const (
	saidOpen = "open"
	saidOver = "over"
)

// Deps are what a Notifier works with. Nil senders cannot be named in the settings.
type Deps struct {
	Mail    mail.Sender
	SMS     sms.Sender
	Zone    *time.Location // of the on-call hours
	BaseURL string         // of the back office, for links
	Shop    string         // what an SMS begins with
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
}

// Notifier tells each incident once to each address. Several may run, in one process or
// in many; see the package's description. Make it with NewNotifier.
type Notifier struct {
	pool    *pgxpool.Pool
	log     *slog.Logger
	tellers []*teller
	pace    pace
}

// pace are the times that tests shorten.
type pace struct{ first, every, gap, settled time.Duration }

// teller tells one address.
type teller struct {
	name     string
	people   bool          // messages are grouped, and say when a problem is over
	after    time.Duration // an incident's time without an acknowledgement; 0 is none
	warnings func() bool   // whether it gets warnings now
	send     func(ctx context.Context, list []claimed) (answer string, err error)
	close    func()

	// Only its loop uses these.
	failures int // consecutive
	rests    time.Time
}

// NewNotifier makes a notifier, or returns what is wrong with the settings. Without an
// address its Run does nothing.
func NewNotifier(pool *pgxpool.Pool, set Settings, deps Deps) (*Notifier, error) {
	if err := errors.Join(set.Webhook.Check(), set.Check()); err != nil {
		return nil, err
	}
	n := &Notifier{pool: pool, log: deps.Log, pace: pace{firstPause, tellEvery, messageGap, settled}}
	if set.URL != "" {
		n.tellers = append(n.tellers, newWebhookTeller(set.Webhook, channel.Timeout, deps.Metrics))
	}
	say := speaker{lang: httpx.LanguageOf(set.InLanguage), base: deps.BaseURL, shop: deps.Shop}
	onCall, err := parseHours(set.Hours)
	first, then, failed := set.addresses()
	err = errors.Join(err, failed)
	for i, a := range append(first, then...) {
		c, failed := channel.Open(a, channel.Deps{Mail: deps.Mail, SMS: deps.SMS, Metrics: deps.Metrics})
		if failed != nil {
			flag := map[bool]string{true: "--alarm-to", false: "--alarm-then"}[i < len(first)]
			err = errors.Join(err, fmt.Errorf("%s: %w", flag, failed))
			continue
		}
		t := &teller{name: a.Name, people: true, close: c.Close, send: func(ctx context.Context, list []claimed) (string, error) {
			return c.Send(ctx, say.message(list))
		}}
		t.warnings = func() bool { return !a.CriticalOnly && onCall.contain(time.Now().In(cmp.Or(deps.Zone, time.UTC))) }
		if i >= len(first) {
			t.after, t.warnings = set.ThenAfter, func() bool { return false }
		}
		n.tellers = append(n.tellers, t)
	}
	return n, err
}

// newWebhookTeller posts each incident by itself, as the package's description says.
func newWebhookTeller(hook Webhook, timeout time.Duration, metrics prometheus.Registerer) *teller {
	client := outbound.New(outbound.Config{Peer: webhookName, Timeout: timeout, Attempts: 1, Conns: 1, MaxBytes: answerBytes, Metrics: metrics})
	return &teller{
		name: "webhook", close: client.CloseIdleConnections, warnings: func() bool { return true },
		send: func(ctx context.Context, list []claimed) (answer string, err error) {
			c := list[0]
			body, err := json.Marshal(map[string]any{"id": strconv.FormatInt(c.ID, 10) + "-" + strconv.Itoa(c.Incident), "alarm": c.Alarm})
			if err != nil {
				return "", fmt.Errorf("alarm: encode: %w", err)
			}
			err = client.Do(ctx, outbound.Request{ // signed now, so that a retry has a fresh timestamp
				URL: hook.URL, Body: body, Type: "application/json",
				Head: func(h http.Header) { signature.Stampede.Sign(h, []byte(hook.Secret), time.Now(), body) },
			}, func(r outbound.Reply) error {
				if answer = strconv.Itoa(r.Status); r.Status/100 != 2 {
					return fmt.Errorf("alarm: the receiver answered %d", r.Status) // a page of errors repeats the URL, which is a secret
				}
				return nil
			})
			return answer, err
		},
	}
}

// webhookName is the webhook's in metrics.
const webhookName = "alarm-webhook"

// Run tells incidents until ctx ends, and then returns nil. No error ends it. Each
// address has a loop, so that one that hangs delays no other.
func (n *Notifier) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, t := range n.tellers {
		all.Go(func() {
			defer t.close()
			_ = app.Loop{Every: n.pace.every, Log: n.log.With("address", t.name), Failed: "telling alarms failed", Do: func(ctx context.Context) error {
				for {
					if told, err := n.tell(ctx, t); err != nil || !told {
						return err
					}
				}
			}}.Run(ctx) // ends only with ctx
		})
	}
	<-ctx.Done()
	all.Wait()
	return nil
}

// tell claims what is due for an address, if anything is, and makes one attempt. It
// reports whether there was something.
func (n *Notifier) tell(ctx context.Context, t *teller) (bool, error) {
	if time.Now().Before(t.rests) {
		return false, nil
	}
	claim := ids.New()
	list, err := n.claim(ctx, t, claim)
	if err != nil || len(list) == 0 {
		return false, err
	}
	answer, failure := t.send(ctx, list)
	q := alarmdb.New(n.pool)
	if ctx.Err() != nil && failure != nil {
		return false, failure // the process stops; the claim expires and another attempt follows
	}
	if failure == nil {
		t.failures = 0
		// Stored even if the process stops now; otherwise the incidents would be
		// sent twice. A newer one that began meanwhile is sent as well.
		note, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
		defer cancel()
		if err := q.ClaimTold(note, alarmdb.ClaimToldParams{Address: t.name, Claim: claim}); err != nil {
			return true, fmt.Errorf("alarm: mark %d alarms as sent (%s): %w", len(list), answer, err)
		}
		return true, nil
	}
	if t.failures++; t.failures >= restAfter {
		t.rests = time.Now().Add(restPauses * n.pace.first)
	}
	attempts, worth := 0, false
	for _, c := range list {
		attempts = max(attempts, c.attempts)
		worth = worth || c.Code != WebhookFailing.Code
	}
	pause := min(n.pace.first<<min(attempts-1, 20), mostPause)
	if channel.Throttled(failure) {
		pause = max(pause, throttledPause)
	}
	n.log.WarnContext(ctx, "alarms were not accepted", "address", t.name, "alarms", len(list), "code", string(list[0].Code), "subject", list[0].Subject,
		"attempts", attempts, "again_in", pause.String(), "error", failure)
	if err := q.ClaimFailed(ctx, alarmdb.ClaimFailedParams{Address: t.name, Claim: claim, Pause: pause}); err != nil {
		return true, fmt.Errorf("alarm: schedule a retry of %d alarms: %w", len(list), err)
	}
	if attempts >= failingAfter && worth {
		return true, WebhookFailing.Raise(ctx, n.pool, t.name, failure.Error())
	}
	return true, nil
}

// claimed is an incident that this process is about to tell.
type claimed struct {
	Alarm
	said     string     // to this address before
	over     *time.Time // when the problem was over
	attempts int        // including this one
}

// claim takes what is due for an address, the most urgent first.
func (n *Notifier) claim(ctx context.Context, t *teller, claim ids.ID) ([]claimed, error) {
	p := alarmdb.ClaimIncidentsParams{
		Address: t.name, Severities: []string{string(Critical)}, SaysOver: t.people, Settled: n.pace.settled, After: t.after,
		AtMost: 1, Claim: claim, ClaimFor: claimLife,
	}
	if t.people {
		p.AtMost, p.Gap = messageIncidents, n.pace.gap
	}
	if t.warnings() {
		p.Severities = append(p.Severities, string(Warning))
		if t.people {
			p.Severities = append(p.Severities, string(Info))
		}
	}
	rows, err := alarmdb.New(n.pool).ClaimIncidents(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("alarm: claim: %w", err)
	}
	list := make([]claimed, len(rows))
	for i, row := range rows {
		list[i] = claimed{alarmOf(row.PlatformAlarm), row.Said, row.PlatformAlarm.OverAt, int(row.Attempts)}
	}
	return list, nil
}
