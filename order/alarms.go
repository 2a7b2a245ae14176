package order

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/alarm"
	"stampede/platform/httpx"
)

const (
	// stuckAttempts is how many attempts at one batch have failed before a person
	// is asked: with pauses from 50 ms up that is ten seconds of trying, longer
	// than a failover of Postgres takes to be noticed.
	stuckAttempts = 8
	// stuckSubject: the writer is one, whatever batch it is stuck at.
	stuckSubject = writerName
	// stuckTimeout bounds the record, since Postgres may be what is broken.
	stuckTimeout = 2 * time.Second
)

// complain asks for a person when a batch does not get written. The batch is
// tried on meanwhile; what cannot be recorded because Postgres does not answer
// is in the log, and recorded once a batch was written.
func (s *Service) complain(ctx context.Context, failures int, messages []message, cause error) {
	if failures < stuckAttempts {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stuckTimeout)
	defer cancel()
	detail := fmt.Sprintf("%d messages, the first about item %d, failed %d times: %v", len(messages), messages[0].batch.ItemID, failures, cause)
	if err := s.late.Raise(ctx, s.deps.DB, alarm.WriterStuck, stuckSubject, detail); err != nil {
		s.deps.Log.WarnContext(ctx, "alarm not recorded yet", "code", string(alarm.WriterStuck), "error", err)
	}
}

// unstuck records what Postgres did not take while it took no batches either. The
// batch is written, so the record must not hold up the next one for long.
func (s *Service) unstuck(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stuckTimeout)
	defer cancel()
	if err := s.late.Record(ctx, s.deps.DB); err != nil {
		s.deps.Log.WarnContext(ctx, "alarm not recorded yet", "code", string(alarm.WriterStuck), "error", err)
	}
}

// itemSubject is how alarms name an item.
func itemSubject(item int64) string { return "item " + httpx.FormatID(item) }
