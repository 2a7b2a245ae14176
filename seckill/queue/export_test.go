package queue

import (
	"time"

	"stampede/platform/store/bus"
)

// Impatient shortens the time after which grants stand still or were skipped.
func Impatient(q *Queue) { q.stalledAfter, q.skippedAfter = 100*time.Millisecond, 100*time.Millisecond }

// StoodStill returns how long nothing has left the queue at the last of several looks,
// one a second.
func StoodStill(looks ...bus.QueueState) time.Duration {
	var l *backlog
	for i, s := range looks {
		l = l.next(s, time.Unix(int64(i), 0))
	}
	return l.at.Sub(l.since)
}
