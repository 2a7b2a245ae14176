package queue

import (
	"context"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/seckill/catalogue"
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

// QuickStale is after how long a hold is stale for a Quick sweeper.
const QuickStale = 100 * time.Millisecond

// Quick shortens a sweeper's times.
func (s *Sweeper) Quick() *Sweeper {
	s.staleAfter, s.sweepEvery, s.notes = QuickStale, 20*time.Millisecond, map[inventory.Item]map[ids.ID]note{}
	return s
}

// Sweep makes one round over an item.
func (s *Sweeper) Sweep(ctx context.Context, item *catalogue.Item) error {
	return s.sweepItem(ctx, item)
}

// Notes is of how many items the sweeper has noted holds.
func (s *Sweeper) Notes() int { return len(s.notes) }

// Note notes a hold as seen at a position of the stream.
func (s *Sweeper) Note(item inventory.Item, no ids.ID, upTo uint64) {
	s.notes[item] = map[ids.ID]note{no: {upTo: upTo}}
}
