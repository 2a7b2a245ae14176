package cli

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/embedded"
)

// StoreRestarted is the alarm about a store of `run`.
var StoreRestarted = alarm.Define("store-restarted", alarm.Warning,
	"Postgres or Redis of `stampede run` exited or did not answer, and was started again. Meanwhile the sale stood still; nothing is lost.",
	"Read the detail and the log that it names for the cause: often memory or the disk was full. Nothing else is to be done, unless it happens again.")

// restartsEvery is how soon a restart is logged and raised.
const restartsEvery = 500 * time.Millisecond

// restarts hands restarts of run's stores to the watch, which starts later than
// the stores and keeps an alarm until Postgres is back.
type restarts struct {
	mu  sync.Mutex
	due []alarm.Finding
}

// note is embedded's Restarted.
func (r *restarts) note(done embedded.Restart) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = append(r.due, alarm.Finding{Subject: done.Server, Detail: fmt.Sprintf(
		"%s %s. It answered again after %.1f s; its log until then is %s.", done.Server, done.Cause, done.Down.Seconds(), cmp.Or(done.Log, "gone"))})
}

// probe finds each restart once.
func (r *restarts) probe() alarm.Probe {
	return alarm.Probe{Alarm: StoreRestarted, Every: restartsEvery, Look: func(context.Context) ([]alarm.Finding, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		due := r.due
		r.due = nil
		return due, nil
	}}
}
