package risk

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/store/pulse"
	"stampede/seckill/risk/internal/riskdb"
	"stampede/seckill/rush"
)

const (
	// pausePeriod is how long an unpaid closing counts for pauses, and the longest
	// pause: a day, in which most activities begin and end.
	pausePeriod = 24 * time.Hour
	// pauseGrowth is by how much each further closing prolongs the pause: the fifth
	// one in a day costs four hours at the default.
	pauseGrowth = 4
	// leastWindow is the shortest payment window that closings lead to: enough for a
	// shopper who is ready to pay.
	leastWindow = time.Minute
	// unpaidEvery is how soon an instance that missed the broadcast reads new
	// closings, and unpaidOverlap is for how long before its last read it reads
	// again what other transactions committed late.
	unpaidEvery   = time.Second
	unpaidOverlap = 10 * time.Second
	// unpaidAll is how often all closings are read again, which forgets old ones and
	// those that were paid after all.
	unpaidAll = 5 * time.Minute
)

// subjectUnpaid tells instances that unpaid closings were recorded.
const subjectUnpaid = "broadcast.risk.unpaid"

// taking is one user's part in one activity.
type taking struct{ user, activity int64 }

// closings are the orders of a taking that were closed unpaid.
type closings struct {
	count  int64
	latest time.Time
}

// unpaid are the takings with unpaid closings within pausePeriod, at most
// MaxOffenders of them, those with the latest closings. Every instance has them in
// memory: a rush asks for its user, and must not query a store.
type unpaid struct {
	some atomic.Bool // of has entries; read before the lock, so that a sale without closings never takes it
	mu   sync.RWMutex
	of   map[taking]closings
}

// find returns a user's unpaid closings in an activity.
func (u *unpaid) find(user, activity int64) (closings, bool) {
	if !u.some.Load() {
		return closings{}, false
	}
	u.mu.RLock()
	defer u.mu.RUnlock()
	c, ok := u.of[taking{user, activity}]
	return c, ok
}

// pauseAfter is the length of the pause after so many closings.
func pauseAfter(first time.Duration, count int64) time.Duration {
	pause := first
	for ; count > 1 && pause < pausePeriod; count-- {
		pause *= pauseGrowth
	}
	return min(pause, pausePeriod)
}

// Paused returns how long a user's pause in an activity still lasts, 0 if there is
// none. It reads only memory and allocates nothing.
func (s *Service) Paused(user, activity int64, now time.Time) time.Duration {
	c, ok := s.unpaid.find(user, activity)
	if !ok {
		return 0
	}
	return max(0, c.latest.Add(pauseAfter(s.set.UnpaidPause, c.count)).Sub(now))
}

// pause refuses a path during a pause, and halves the payment window for each
// unpaid closing in the activity. Items without a limited stock are not affected:
// holding one keeps no unit from another shopper.
func (s *Service) pause(a *rush.Applicant) error {
	if a.Item.Unlimited || s.set.UnpaidPause == 0 {
		return nil
	}
	c, ok := s.unpaid.find(a.User, a.Item.ActivityID)
	if !ok {
		return nil
	}
	note := ruleNote{Kind: "unpaid_in_activity"}
	if wait := s.Paused(a.User, a.Item.ActivityID, a.Now); wait > 0 {
		s.decide(a, 0, note, inputs{Count: c.count, Until: a.Now.Add(wait)}, resultPaused)
		return rush.ErrCoolingDown.After(wait)
	}
	if within := max(a.PayWithin>>min(c.count, 16), leastWindow); within < a.PayWithin {
		a.PayWithin = within
		s.decide(a, 0, note, inputs{Count: c.count}, resultShortWindow)
	}
	return nil
}

// followUnpaid keeps the unpaid closings in memory up to date until ctx ends.
func (s *Service) followUnpaid(ctx context.Context) error {
	news, stop, err := s.deps.Bus.Kicks(subjectUnpaid)
	if err != nil {
		return fmt.Errorf("risk: listen to %s: %w", subjectUnpaid, err)
	}
	defer stop()
	var all, last time.Time
	return app.Loop{
		Every: unpaidEvery, Kick: news, Due: s.deps.Pulse.Changed("unpaid closings", pulse.Commits), Log: s.deps.Log, Failed: "unpaid closings not read, will be retried",
		Do: func(ctx context.Context) error {
			now := time.Now()
			since := now.Sub(last) + unpaidOverlap
			if now.Sub(all) >= unpaidAll {
				since = pausePeriod
			}
			if err := s.readUnpaid(ctx, since); err != nil {
				return err
			}
			if last = now; since == pausePeriod {
				all = now
			}
			return nil
		},
	}.Run(ctx)
}

// readUnpaid reads what was recorded within a duration before now; pausePeriod
// reads everything and forgets the rest. An instance without pauses reads nothing.
func (s *Service) readUnpaid(ctx context.Context, since time.Duration) error {
	if s.set.UnpaidPause == 0 {
		return nil
	}
	rows, err := riskdb.New(s.deps.DB).Unpaid(ctx, riskdb.UnpaidParams{Period: pausePeriod, Since: since, AtMost: int32(s.set.MaxOffenders)}) //nolint:gosec // a setting
	if err != nil {
		return fmt.Errorf("risk: read unpaid closings: %w", err)
	}
	u := &s.unpaid
	u.mu.Lock()
	defer u.mu.Unlock()
	if since >= pausePeriod {
		u.of = make(map[taking]closings, len(rows))
	}
	for _, r := range rows {
		key := taking{r.UserID, r.ActivityID}
		if _, has := u.of[key]; !has && len(u.of) >= s.set.MaxOffenders {
			for earlier := range u.of { // any one, until all are read again
				delete(u.of, earlier)
				break
			}
		}
		u.of[key] = closings{count: r.Closings, latest: r.Latest}
	}
	u.some.Store(len(u.of) > 0)
	return nil
}
