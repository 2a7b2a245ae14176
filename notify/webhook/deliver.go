package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/sync/errgroup"

	"stampede/notify/webhook/internal/webhookdb"
	"stampede/platform/base/app"
	"stampede/platform/edge/outbound"
	"stampede/platform/store/lease"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
)

const (
	// concurrency bounds the deliveries to one webhook at a time: 16 to a receiver that
	// takes 50 ms are 320 events a second.
	concurrency = 16
	// batch is how many events a round takes from the log.
	batch = 256
	// mostWaiting bounds the events that are set aside; above it the cursor stands until
	// some are delivered or given up.
	mostWaiting = 1000
	// failuresOpen consecutive failures are the receiver's, not an event's: then one
	// event at a time is tried, after probeFirst, and twice as long each time up to
	// probeMost, and the others wait in the log.
	failuresOpen = 5
	probeFirst   = 5 * time.Second
	probeMost    = 5 * time.Minute
	// retryAfterMost bounds what a receiver may ask for.
	retryAfterMost = time.Hour
	// idleEvery is how often the log is looked at: three reads of an index.
	idleEvery = 500 * time.Millisecond
	// leaderLife is how soon another instance goes on after one has died.
	leaderLife = 10 * time.Second
	// keepAttempts is how many attempts operators see of a webhook.
	keepAttempts = 10_000
	// errorBytes bounds a stored error.
	errorBytes = 300
)

// backoff is when an event is tried again, 26 hours in all, as Standard Webhooks advises.
var backoff = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 10 * time.Hour,
}

// deliver leads the deliveries until ctx ends, if no other instance does.
func (s *Service) deliver(ctx context.Context) error {
	return app.Loop{
		Every: leaderLife / 3, Log: s.deps.Log, Failed: "webhooks are not delivered, trying again",
		Do: func(ctx context.Context) error {
			if _, err := lease.Hold(ctx, s.deps.DB, s.deps.Log, "webhooks", s.holder, leaderLife, s.lead); ctx.Err() == nil {
				return err
			}
			return nil // the end of ctx is no outage
		},
	}.Run(ctx)
}

// lead runs a courier for each webhook until ctx ends.
func (s *Service) lead(ctx context.Context, _ int64) error {
	ctx, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	running := map[int64]bool{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		rows, err := webhookdb.New(s.deps.DB).Webhooks(ctx)
		if err != nil {
			return fmt.Errorf("webhook: read webhooks: %w", err)
		}
		for _, w := range rows {
			if !running[w.ID] {
				running[w.ID] = true
				all.Go(func() { s.courier(ctx, w.ID) })
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// courier delivers to one webhook until ctx ends or it is removed.
func (s *Service) courier(ctx context.Context, id int64) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	_ = app.Loop{ // ends only with ctx
		Every: s.idle, Retry: leaderLife / 3, Log: s.deps.Log.With("webhook", id), Failed: "a webhook's events cannot be read or noted, trying again",
		Do: func(ctx context.Context) error {
			for more := true; more && ctx.Err() == nil; {
				var err error
				more, err = s.round(ctx, id)
				if errors.Is(err, pgx.ErrNoRows) {
					end()
					return nil
				}
				if err != nil && ctx.Err() == nil {
					return err
				}
			}
			return nil
		},
	}.Run(ctx)
}

// todo is an event that a round may deliver.
type todo struct {
	Event
	attempts int32 // that it had
	waits    bool  // it was set aside before
}

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

// round delivers what is due of a webhook, and reports whether more may be due at once.
func (s *Service) round(ctx context.Context, id int64) (more bool, err error) {
	q := webhookdb.New(s.deps.DB)
	w, err := q.Webhook(ctx, id)
	if err != nil {
		return false, fmt.Errorf("webhook: read webhook %d: %w", id, err)
	}
	now := time.Now()
	probing := w.Failures >= failuresOpen
	if !w.Enabled || probing && w.NextTry != nil && w.NextTry.After(now) {
		return false, nil
	}
	waiting, err := q.Waiting(ctx, id)
	if err != nil {
		return false, fmt.Errorf("webhook: read waiting events: %w", err)
	}
	from := place{w.Place, w.Number}
	if err := s.missed(ctx, w, from); err != nil {
		return false, err
	}
	r := &work{service: s, webhook: w, behind: map[string]bool{}, failures: w.Failures, probing: probing}
	for _, wait := range waiting {
		r.behind[wait.About] = true
	}
	next := from
	if len(waiting) < mostWaiting {
		var events []Event
		atMost := batch
		if probing {
			atMost = 1
		}
		if events, next, err = s.fresh(ctx, w, from, atMost); err != nil {
			return false, err
		}
		for _, e := range events {
			r.add(todo{Event: e})
		}
		more = len(events) == atMost
	}
	if err := r.addWaiting(ctx, waiting, now); err != nil {
		return false, err
	}
	r.run(ctx)
	if err := ctx.Err(); err != nil { // nothing is noted: it is done again
		return false, err
	}
	moved, err := r.note(ctx, from, next)
	return moved && (more || r.delivered) && r.failures < failuresOpen, err
}

// missed raises an alarm if events were deleted before the webhook had them.
func (s *Service) missed(ctx context.Context, w webhookdb.NotifyWebhook, from place) error {
	dropped, err := outbox.DroppedPlace(ctx, s.deps.DB)
	if err != nil || dropped == 0 || from.Message > dropped {
		return err
	}
	return alarmMissed.Raise(ctx, s.deps.DB, subjectOf(w.ID), fmt.Sprintf("It had events up to place %d, and those up to place %d are deleted.", from.Message, dropped))
}

// fresh reads the webhook's next events from the log, and the place after them.
func (s *Service) fresh(ctx context.Context, w webhookdb.NotifyWebhook, from place, atMost int) (events []Event, next place, err error) {
	last, err := outbox.LastPlace(ctx, s.deps.DB)
	for next = from; err == nil && len(events) == 0 && next.Message <= last; from = next {
		if events, next, err = read(ctx, s.deps.DB, from, wanting(w.Types), atMost); next == from {
			break
		}
	}
	return events, next, err
}

// work is one round of a webhook.
type work struct {
	service *Service
	webhook webhookdb.NotifyWebhook
	behind  map[string]bool // what events wait about
	probing bool

	chains [][]todo       // to be delivered, each in its order
	about  map[string]int // a chain's place in chains
	aside  []todo         // to wait, untried

	mu        sync.Mutex
	failures  int32 // in a row
	delivered bool
	gone      bool // the receiver answered 410
	tried     []made
	settled   []todo
	failed    []todo // to wait after an attempt, which tried has
	retries   []time.Time
}

// add takes an event from the log: to be delivered, or behind what waits.
func (r *work) add(t todo) {
	if r.behind[t.about] {
		r.aside = append(r.aside, t)
		return
	}
	if r.about == nil {
		r.about = map[string]int{}
	}
	i, known := r.about[t.about]
	if !known {
		i = len(r.chains)
		r.about[t.about], r.chains = i, append(r.chains, nil)
	}
	r.chains[i] = append(r.chains[i], t)
}

// addWaiting adds the waiting events about each thing whose first one's time has come. A
// probe takes the first one whose time comes first, where the log has no new event.
func (r *work) addWaiting(ctx context.Context, waiting []webhookdb.NotifyWebhookWaiting, now time.Time) error {
	first := map[string]webhookdb.NotifyWebhookWaiting{}
	var probe *webhookdb.NotifyWebhookWaiting
	for i, w := range waiting {
		if _, seen := first[w.About]; seen {
			continue
		}
		if first[w.About] = w; probe == nil || w.NextTry.Before(probe.NextTry) {
			probe = &waiting[i]
		}
	}
	var due []webhookdb.NotifyWebhookWaiting
	switch {
	case !r.probing:
		for _, w := range waiting {
			if len(due) < batch && !first[w.About].NextTry.After(now) {
				due = append(due, w)
			}
		}
	case probe != nil && len(r.chains) == 0:
		due = append(due, *probe)
	}
	if len(due) == 0 {
		return nil
	}
	events, err := r.service.at(ctx, due)
	if err != nil {
		return err
	}
	clear(r.behind)
	for _, w := range due {
		at := place{w.Place, w.Number}
		t := todo{Event: Event{at: at, about: w.About}, attempts: w.Attempts, waits: true}
		if event, kept := events[at]; kept {
			t.Event = event
			r.add(t)
		} else {
			r.settled = append(r.settled, t) // it is deleted for its age
		}
	}
	return nil
}

// at reads the events that wait.
func (s *Service) at(ctx context.Context, waiting []webhookdb.NotifyWebhookWaiting) (map[place]Event, error) {
	wanted := map[place]Event{}
	var places []int64
	for _, w := range waiting {
		wanted[place{w.Place, w.Number}] = Event{}
		if len(places) == 0 || places[len(places)-1] != w.Place {
			places = append(places, w.Place)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	messages, err := outbox.ReadLogAt(ctx, s.deps.DB, places)
	if err != nil {
		return nil, err
	}
	found := map[place]Event{}
	for _, m := range messages {
		events, err := eventsOf(m)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if _, ok := wanted[e.at]; ok {
				found[e.at] = e
			}
		}
	}
	return found, nil
}

// run delivers the chains side by side.
func (r *work) run(ctx context.Context) {
	var all errgroup.Group
	all.SetLimit(concurrency)
	for _, chain := range r.chains {
		all.Go(func() error {
			for i, t := range chain {
				if !r.open() {
					r.leave(chain[i:])
					return nil
				}
				if !r.result(t, r.service.post(ctx, r.webhook, t.Event, t.attempts+1)) {
					r.leave(chain[i+1:])
					return nil
				}
			}
			return nil
		})
	}
	_ = all.Wait() // none fails
}

// open reports whether another delivery makes sense.
func (r *work) open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.gone && (r.probing || r.failures < failuresOpen)
}

// leave sets events aside that come from the log; those that waited do so anyway.
func (r *work) leave(chain []todo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range chain {
		if !t.waits {
			r.aside = append(r.aside, t)
		}
	}
}

// result takes note of an attempt, and reports whether the event was taken.
func (r *work) result(t todo, m made) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = append(r.tried, m)
	if m.err == nil {
		r.failures, r.delivered = 0, true
		if t.waits {
			r.settled = append(r.settled, t)
		}
		return true
	}
	// Deliveries side by side fail together: only a failed probe lengthens the pause.
	r.failures = min(r.failures+1, max(failuresOpen, r.webhook.Failures+1))
	r.gone = r.gone || m.status == http.StatusGone
	if !r.probing { // a probe is about the receiver, not about the event
		t.attempts++
	}
	again := backoffOf(r.service.backoff, t.attempts)
	r.failed, r.retries = append(r.failed, t), append(r.retries, m.at.Add(max(again, m.retryAfter)))
	return false
}

// backoffOf is the wait after a number of attempts.
func backoffOf(steps []time.Duration, attempts int32) time.Duration {
	return steps[min(max(int(attempts), 1), len(steps))-1]
}

// note writes what the round has done, unless another process has moved the cursor.
func (r *work) note(ctx context.Context, from, next place) (moved bool, err error) {
	if next == from && len(r.tried) == 0 && len(r.settled) == 0 {
		return false, nil
	}
	w, now := r.webhook, time.Now()
	to := webhookdb.AdvanceParams{
		ID: w.ID, Url: w.Url, Place: from.Message, Number: from.Number, ToPlace: next.Message, ToNumber: next.Number,
		Failures: r.failures, FailingSince: w.FailingSince, LastError: w.LastError,
	}
	if r.delivered {
		to.DeliveredAt = &now
		to.FailingSince, to.LastError = nil, ""
	}
	for _, m := range r.tried {
		if m.err != nil {
			to.LastError = m.says()
		}
	}
	if r.failures > 0 && to.FailingSince == nil {
		to.FailingSince = &now
	}
	if r.failures >= failuresOpen {
		to.NextTry = new(now.Add(min(r.service.probe<<min(r.failures-failuresOpen, 10), probeMost)))
	}
	err = pg.InTx(ctx, r.service.deps.DB, func(tx pgx.Tx) error {
		q := webhookdb.New(tx)
		n, err := q.Advance(ctx, to)
		if err != nil || n == 0 {
			return err
		}
		moved = true
		if r.gone {
			if err := q.Disable(ctx, webhookdb.DisableParams{ID: w.ID, LastError: "the receiver answered 410: it wants no more events"}); err != nil {
				return err
			}
		}
		if err := r.noteWaiting(ctx, tx, now); err != nil {
			return err
		}
		return r.service.note(ctx, tx, w.ID, r.tried...)
	})
	if err != nil {
		return false, fmt.Errorf("webhook: note deliveries: %w", err)
	}
	return moved, nil
}

// noteWaiting writes which events wait, and which do no more.
func (r *work) noteWaiting(ctx context.Context, tx pgx.Tx, now time.Time) error {
	set := webhookdb.SetAsideParams{WebhookID: r.webhook.ID}
	wait := func(t todo, at time.Time) {
		set.Places, set.Numbers, set.Abouts = append(set.Places, t.at.Message), append(set.Numbers, t.at.Number), append(set.Abouts, t.about)
		set.Attempts, set.NextTries = append(set.Attempts, t.attempts), append(set.NextTries, at)
	}
	for _, t := range r.aside {
		wait(t, now)
	}
	for i, t := range r.failed {
		if int(t.attempts) <= len(r.service.backoff) {
			wait(t, r.retries[i])
			continue
		}
		r.settled = append(r.settled, t)
		if err := alarmGivenUp.Raise(ctx, tx, subjectOf(r.webhook.ID), "Event "+t.ID+" ("+t.Type+") about "+t.about+"."); err != nil {
			return err
		}
	}
	q := webhookdb.New(tx)
	if len(set.Places) > 0 {
		if err := q.SetAside(ctx, set); err != nil {
			return err
		}
	}
	done := webhookdb.SettleParams{WebhookID: r.webhook.ID}
	for _, t := range r.settled {
		done.Places, done.Numbers = append(done.Places, t.at.Message), append(done.Numbers, t.at.Number)
	}
	if len(done.Places) == 0 {
		return nil
	}
	return q.Settle(ctx, done)
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
	if err == nil {
		m.err = s.client.Do(ctx, outbound.Request{URL: w.Url, Body: body, Type: "application/json", Head: func(h http.Header) {
			err = s.sign(h, w, e.ID, m.at, body)
		}}, func(reply outbound.Reply) error {
			m.status = int32(reply.Status) //nolint:gosec // three digits
			if seconds, err := strconv.Atoi(reply.Header.Get("Retry-After")); err == nil && seconds > 0 {
				m.retryAfter = min(time.Duration(min(seconds, int(retryAfterMost/time.Second)))*time.Second, retryAfterMost)
			}
			if reply.Status < 200 || reply.Status > 299 {
				return fmt.Errorf("HTTP %d", reply.Status)
			}
			return nil
		})
	}
	if err != nil {
		m.err = err
	}
	if errors.Is(m.err, outbound.ErrPrivate) {
		m.err = errors.New("the address is private, which --webhook-private allows")
	}
	m.took = time.Since(m.at)
	return m
}

// sign sets the headers of Standard Webhooks, with a signature by the former secret too
// while that is valid.
func (s *Service) sign(h http.Header, w webhookdb.NotifyWebhook, id string, at time.Time, body []byte) error {
	secrets := [][]byte{w.Secret}
	if w.FormerUntil != nil && at.Before(*w.FormerUntil) {
		secrets = append(secrets, w.FormerSecret)
	}
	var signatures []string
	for _, sealed := range secrets {
		secret, err := s.open(sealed)
		if err != nil {
			return err
		}
		signer, err := standardwebhooks.NewWebhookRaw(secret)
		if err != nil {
			return err
		}
		signature, err := signer.Sign(id, at, body)
		if err != nil {
			return err
		}
		signatures = append(signatures, signature)
	}
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return nil
}
