package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"stampede/platform/base/app"
)

// A Load must not count while a grant made before its fence may not have reached the stream yet: the shopper's answer
// would be "queued" and then the number refused, because the writer does not accept grants of an older epoch. Nothing
// is oversold by that, but it is unfair. A publisher has PublishDeadline from its grant on. In three cases the Load
// knows that less than all of it is left:
//
//   - SingleInstance. Only this process publishes: it holds the database's lock,
//     and its NATS server runs inside it, so that whatever a predecessor was
//     still sending died with the server that it was sent to. What had arrived is
//     in the recovered stream, where the drain sees it. So only the grants that
//     this process made since its start count, and those that Redis returned to
//     it as granted and not written; decide records both by item. A process
//     that has just started waits for nothing.
//   - Another run. The state names another run of Redis than the current one, so
//     no grant of this item was made since that run began: each decision compares
//     the two. The deadline of the last grant began before this process first saw
//     the new run, and one wait from then on serves all items.
//   - Settled or unused, see quiet.
//
// In all other cases the deadline begins at the fence.

// runs remembers when this process first saw a change of Redis's run.
type runs struct {
	mu   sync.Mutex
	seen map[runChange]time.Time
}

// runChange is a change from the run that an item was loaded into to the current one. Both are needed: a failover
// that is reverted brings back a known run, with grants made in between.
type runChange struct{ from, to string }

// runMemory is how long a change is remembered. The Loads that follow a change begin within seconds; a later one is
// another change that may look the same, and has to wait again.
const runMemory = time.Minute

// first returns when the change was first seen, now if it is new.
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

// awaitPublishers returns when every grant of the item that was made before its fence has been published, or never
// will be.
func (s *Service) awaitPublishers(ctx context.Context, itemID int64, f fenced) error {
	from := f.since
	if s.SingleInstance {
		if from = s.decide.LastPublishing(itemID); from.IsZero() {
			return nil
		}
	}
	if err := app.Sleep(ctx, time.Until(from.Add(s.PublishDeadline))); err != nil {
		return fmt.Errorf("inventory: load item %d: wait for publishers: %w", itemID, err)
	}
	return nil
}
