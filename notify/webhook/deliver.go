package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"stampede/notify/webhook/internal/webhookdb"
	"stampede/platform/base/app"
	"stampede/platform/store/lease"
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
	probeMost    = 30 * time.Second
	// retryAfterMost bounds what a receiver may ask for.
	retryAfterMost = time.Hour
	// idleEvery is how often the log is looked at: three reads of an index.
	idleEvery = 500 * time.Millisecond
	// changes is another number after each change of a webhook.
	changes = `SELECT hashtextextended(string_agg(id || ':' || enabled || updated_at, ',' ORDER BY id), 0) FROM notify.webhooks`
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
	return lease.Campaign(ctx, s.deps.DB, s.deps.Log, "webhooks", s.holder, leaderLife, "webhooks are not delivered, trying again", s.lead)
}

// running is a courier.
type running struct {
	of   time.Time // when its webhook was changed last; another address or secret needs another courier
	end  context.CancelFunc
	done chan struct{}
}

func (r running) stop() {
	r.end()
	<-r.done
}

// lead runs a courier for each enabled webhook until ctx ends.
func (s *Service) lead(ctx context.Context, _ int64) error {
	if err := s.reseal(ctx); err != nil {
		return err
	}
	couriers := map[int64]running{}
	ctx, end := context.WithCancel(ctx)
	defer func() {
		end()
		for _, c := range couriers {
			c.stop()
		}
	}()
	return app.Loop{
		Every: time.Second, Due: s.deps.Pulse.Changed("webhooks", changes), Log: s.deps.Log, Failed: "webhooks not read, retrying",
		Do: func(context.Context) error { return s.follow(ctx, couriers) },
	}.Run(ctx)
}

// follow ends the couriers of webhooks that were changed or disabled, and starts those of
// the enabled ones that have none.
func (s *Service) follow(ctx context.Context, couriers map[int64]running) error {
	rows, err := webhookdb.New(s.deps.DB).Webhooks(ctx)
	if err != nil {
		return fmt.Errorf("webhook: read webhooks: %w", err)
	}
	enabled := map[int64]time.Time{}
	for _, w := range rows {
		if w.Enabled {
			enabled[w.ID] = w.UpdatedAt
		}
	}
	for id, c := range couriers {
		if changed, ok := enabled[id]; !ok || !changed.Equal(c.of) {
			c.stop()
			delete(couriers, id)
		}
	}
	for id, changed := range enabled {
		if _, runs := couriers[id]; !runs {
			couriers[id] = s.start(ctx, id, changed)
		}
	}
	return nil
}

// reseal seals secrets with the current signing key, so that the one before it can go.
func (s *Service) reseal(ctx context.Context) error {
	q := webhookdb.New(s.deps.DB)
	rows, err := q.Webhooks(ctx)
	if err != nil {
		return fmt.Errorf("webhook: read secrets: %w", err)
	}
	for _, w := range rows {
		to := webhookdb.ResealParams{ID: w.ID, Had: w.Secret, Secret: s.sealedNow(w.Secret), Former: s.sealedNow(w.FormerSecret)}
		if bytes.Equal(to.Secret, w.Secret) && bytes.Equal(to.Former, w.FormerSecret) {
			continue
		}
		if err := q.Reseal(ctx, to); err != nil {
			return fmt.Errorf("webhook: seal the secret of webhook %d again: %w", w.ID, err)
		}
	}
	return nil
}

// sealedNow is a sealed secret under the current key: as it was, if it is, or if its key
// is gone, which deliveries say.
func (s *Service) sealedNow(sealed []byte) []byte {
	if _, current := s.keys[:1].Open(sealed, aboutSecret); current {
		return sealed
	}
	if secret, ok := s.keys.Open(sealed, aboutSecret); ok {
		return s.keys.Seal(secret, aboutSecret)
	}
	return sealed
}

func (s *Service) start(ctx context.Context, id int64, changed time.Time) running {
	ctx, end := context.WithCancel(ctx)
	r := running{changed, end, make(chan struct{})}
	go func() {
		defer close(r.done)
		s.courier(ctx, id)
	}()
	return r
}

// courier delivers to one webhook until ctx ends.
func (s *Service) courier(ctx context.Context, id int64) {
	_ = app.Loop{ // ends only with ctx
		Every: s.idle, Retry: leaderLife / 3, Log: s.deps.Log.With("webhook", id), Failed: "a webhook's events cannot be read or noted, trying again",
		Do: func(ctx context.Context) error {
			for more := true; more && ctx.Err() == nil; {
				var err error
				more, err = s.round(ctx, id)
				if unreadable := (*unreadableError)(nil); errors.As(err, &unreadable) {
					err = errors.Join(err, alarmFailing.Raise(ctx, s.deps.DB, subjectOf(id), err.Error()))
				}
				if err != nil && ctx.Err() == nil {
					return err
				}
			}
			return nil
		},
	}.Run(ctx)
}
