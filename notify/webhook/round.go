package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"stampede/notify/webhook/internal/webhookdb"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
)

// due is an event that a round may deliver.
type due struct {
	Event
	attempts int32 // that it had
	waits    bool  // it was set aside before
}

// round delivers what is due of a webhook, and reports whether more may be due at once.
func (s *Service) round(ctx context.Context, id int64) (more bool, err error) {
	q := webhookdb.New(s.deps.DB)
	w, err := q.Webhook(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil // removed; lead stops this courier
	}
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
	var unreadable *unreadableError // what waits happened before it, and is tried again meanwhile
	if len(waiting) < mostWaiting {
		var events []Event
		atMost := batch
		if probing {
			atMost = 1
		}
		if events, next, err = s.after(ctx, from, wanting(w.Types), atMost); err != nil && !errors.As(err, &unreadable) {
			return false, err
		}
		for _, e := range events {
			r.add(due{Event: e})
		}
		more = len(events) == atMost
	}
	held := r.addWaiting(ctx, waiting, now)
	if held != nil && !errors.As(held, new(*unreadableError)) {
		return false, held
	}
	r.run(ctx)
	if err := ctx.Err(); err != nil { // nothing is noted: it is done again
		return false, err
	}
	moved, err := r.note(ctx, from, next)
	if unreadable != nil {
		return false, errors.Join(unreadable, err)
	}
	if more = moved && (more || r.delivered) && r.failures < failuresOpen; !more {
		err = errors.Join(err, held) // the others come first
	}
	return more, err
}

// missed raises an alarm if events after the cursor were deleted.
func (s *Service) missed(ctx context.Context, w webhookdb.NotifyWebhook, from place) error {
	dropped, err := outbox.DroppedPlace(ctx, s.deps.DB)
	if err != nil || dropped == 0 || from.Message > dropped {
		return err
	}
	return alarmMissed.Raise(ctx, s.deps.DB, subjectOf(w.ID),
		fmt.Sprintf("It had events up to place %d, and those up to place %d are deleted.", from.Message, dropped))
}

// work is one round of a webhook.
type work struct {
	service *Service
	webhook webhookdb.NotifyWebhook
	behind  map[string]bool // what events wait about
	probing bool

	chains [][]due        // to be delivered, each in its order
	about  map[string]int // a chain's place in chains
	aside  []due          // to wait, untried

	mu        sync.Mutex
	failures  int32 // in a row
	delivered bool
	gone      bool // the receiver answered 410
	lost      int  // events that waited until the log deleted them
	tried     []made
	settled   []due
	failed    []due // to wait after an attempt, which tried has
	retries   []time.Time
}

// add takes an event from the log: to be delivered, or behind what waits.
func (r *work) add(t due) {
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
// probe takes the first one whose time comes first, where the log has no new event. Where it
// returns an unreadableError, that event and those behind it wait on, and the others are added.
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
	var ready []webhookdb.NotifyWebhookWaiting
	switch {
	case !r.probing:
		for _, w := range waiting {
			if len(ready) < batch && !first[w.About].NextTry.After(now) {
				ready = append(ready, w)
			}
		}
	case probe != nil && len(r.chains) == 0:
		ready = append(ready, *probe)
	}
	if len(ready) == 0 {
		return nil
	}
	events, err := r.service.at(ctx, ready)
	if err != nil && !errors.As(err, new(*unreadableError)) {
		return err
	}
	clear(r.behind)
	held := map[string]bool{}
	for _, w := range ready {
		at := place{w.Place, w.Number}
		t := due{Event: Event{at: at, about: w.About}, attempts: w.Attempts, waits: true}
		event, kept := events[at]
		switch {
		case held[w.About]:
		case !kept:
			r.settled = append(r.settled, t) // it is deleted for its age
			r.lost++
		case event.ID == "":
			held[w.About] = true
		default:
			t.Event = event
			r.add(t)
		}
	}
	return err
}

// at reads the events that wait. One that cannot be decoded is the zero Event, and the error is an unreadableError.
func (s *Service) at(ctx context.Context, waiting []webhookdb.NotifyWebhookWaiting) (map[place]Event, error) {
	var places []int64
	for _, w := range waiting {
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
	var unreadable error
	for _, m := range messages {
		events, err := eventsOf(m)
		if err != nil {
			unreadable = err
		}
		for _, w := range waiting {
			switch at := (place{w.Place, w.Number}); {
			case w.Place != m.Place:
			case err != nil:
				found[at] = Event{}
			case int(w.Number) < len(events):
				found[at] = events[w.Number]
			}
		}
	}
	return found, unreadable
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
func (r *work) leave(chain []due) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range chain {
		if !t.waits {
			r.aside = append(r.aside, t)
		}
	}
}

// result takes note of an attempt, and reports whether the event was taken.
func (r *work) result(t due, m made) bool {
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
			const says = "the receiver answered 410: it wants no more events"
			if err := q.Disable(ctx, webhookdb.DisableParams{ID: w.ID, LastError: says}); err != nil {
				return err
			}
			if err := alarmDisabled.Raise(ctx, tx, subjectOf(w.ID), hostOf(w.Url)); err != nil {
				return err
			}
		}
		if r.lost > 0 { // missed, which compares the cursor, does not see them
			says := fmt.Sprintf("%d events that waited for another try are deleted.", r.lost)
			if err := alarmMissed.Raise(ctx, tx, subjectOf(w.ID), says); err != nil {
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

// hostOf is an address as alarms name it, which other receivers get too: the rest of some
// addresses is a secret.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// noteWaiting writes which events wait, and which do no more.
func (r *work) noteWaiting(ctx context.Context, tx pgx.Tx, now time.Time) error {
	q, id := webhookdb.New(tx), r.webhook.ID
	aside := webhookdb.SetAsideParams{WebhookID: id}
	retry := webhookdb.RetryParams{WebhookID: id}
	done := webhookdb.SettleParams{WebhookID: id}
	wait := func(t due, at time.Time) {
		if t.waits { // only while it does: another process may have settled it
			retry.Places, retry.Numbers = append(retry.Places, t.at.Message), append(retry.Numbers, t.at.Number)
			retry.Attempts, retry.NextTries = append(retry.Attempts, t.attempts), append(retry.NextTries, at)
			return
		}
		aside.Places, aside.Numbers, aside.Abouts = append(aside.Places, t.at.Message), append(aside.Numbers, t.at.Number), append(aside.Abouts, t.about)
		aside.Attempts, aside.NextTries = append(aside.Attempts, t.attempts), append(aside.NextTries, at)
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
		if err := alarmGivenUp.Raise(ctx, tx, subjectOf(id), "Event "+t.ID+" ("+t.Type+") about "+t.about+"."); err != nil {
			return err
		}
	}
	for _, t := range r.settled {
		done.Places, done.Numbers = append(done.Places, t.at.Message), append(done.Numbers, t.at.Number)
	}
	if err := q.SetAside(ctx, aside); err != nil {
		return err
	}
	if err := q.Retry(ctx, retry); err != nil {
		return err
	}
	return q.Settle(ctx, done)
}
