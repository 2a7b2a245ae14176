package inventory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"stampede/platform/base/app"
)

// A Load must not count while a grant that was made before its fence may still
// be on its way to the stream: the shopper would be told "queued" and then be
// refused, because the writer does not take grants of an older epoch. Nothing
// is oversold by that; it is unfair. A publisher has PublishDeadline from its
// grant on. How much of that is left is known better than "all of it" in three
// cases:
//
//   - Alone. Only this process publishes: it holds the database's lock, and its
//     NATS server runs inside it, so that what a predecessor was still sending
//     died with the server that it was sent to. What had arrived is in the
//     recovered stream, where the drain sees it. So only what this process has
//     been granted since its start counts, or been told of as granted and not
//     written, and that is noted below by item. A process that has just started
//     waits for nothing.
//   - Another run. The state names another run of Redis than the one that
//     answers, so no grant of this item was made since that run began: each
//     decision compares the two. The deadline of the last one began before this
//     process first met the new run, and one wait from then on serves all items.
//   - Settled or unused, see quiet.
//
// In all others the deadline begins at the fence.

// granting is when this process was given grants of one item to publish.
type granting struct {
	// deciding is read-held while Redis decides. A Load that takes it once, after
	// its fence, has seen every grant that was made before.
	deciding sync.RWMutex
	mu       sync.Mutex
	last     time.Time // when grants were last handed to somebody who publishes them
}

func (g *granting) note(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = now
}

// since returns when grants made before the call were last handed over; zero
// for never.
func (g *granting) since() time.Time {
	g.deciding.Lock() // waits for the decisions under way, at most a time-out of Redis
	defer g.deciding.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// granting returns what is noted of an item; where nobody asks for it, because
// this process is not Alone, all items share one.
func (s *Service) granting(itemID int64) *granting {
	if !s.cfg.SingleInstance {
		return &s.unasked
	}
	if g, ok := s.grants.Load(itemID); ok {
		return g.(*granting) //nolint:errcheck // the map holds nothing else
	}
	g, _ := s.grants.LoadOrStore(itemID, new(granting))
	return g.(*granting) //nolint:errcheck // as above
}

// runs remembers when this process first met a change of Redis's run.
type runs struct {
	mu   sync.Mutex
	seen map[runChange]time.Time
}

// runChange leads from the run that an item was loaded into to the one that
// answers. Both are needed: a failover and back brings a run that was met
// before, with grants made in between.
type runChange struct{ from, to string }

// runMemory is how long a change is remembered. The Loads that follow a change
// begin within seconds; whatever comes later is another change that may look
// the same, and waits anew.
const runMemory = time.Minute

// first returns when the change was first met, now if it was not.
func (r *runs) first(c runChange, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	for old, at := range r.seen {
		if now.Sub(at) > runMemory {
			delete(r.seen, old)
		}
	}
	if at, ok := r.seen[c]; ok {
		return at
	}
	if r.seen == nil {
		r.seen = make(map[runChange]time.Time)
	}
	r.seen[c] = now
	return now
}

// awaitPublishers returns when every grant of the item that was made before its
// fence has been published, or never will be.
func (s *Service) awaitPublishers(ctx context.Context, itemID int64, f fenced) error {
	from := f.since
	if s.cfg.SingleInstance {
		if from = s.granting(itemID).since(); from.IsZero() {
			return nil
		}
	}
	if err := app.Sleep(ctx, time.Until(from.Add(s.cfg.PublishDeadline))); err != nil {
		return fmt.Errorf("inventory: load item %d: wait for publishers: %w", itemID, err)
	}
	return nil
}
