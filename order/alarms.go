package order

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"stampede/platform/alarm"
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
// is in the log.
func (s *Service) complain(ctx context.Context, failures int, messages []message, cause error) {
	if failures < stuckAttempts {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stuckTimeout)
	defer cancel()
	detail := fmt.Sprintf("%d messages, the first about item %d, failed %d times: %v", len(messages), messages[0].batch.ItemID, failures, cause)
	if err := alarm.Raise(ctx, s.deps.DB, alarm.WriterStuck, stuckSubject, detail); err != nil {
		s.deps.Log.WarnContext(ctx, "alarm not recorded", "code", string(alarm.WriterStuck), "error", err)
	}
}

// itemSubject is how alarms name an item.
func itemSubject(item int64) string { return "item " + strconv.FormatInt(item, 10) }
