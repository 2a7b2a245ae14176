package order

import (
	"context"
	"time"

	"stampede/platform/watch/alarm"
)

// The order writer's alarms.
var (
	alarmWriterStuck = alarm.Define("writer-stuck", alarm.Critical,
		"The order writer cannot commit a batch, or the orders of the item that the subject names, and keeps retrying. Shoppers wait in line, and nothing is lost.",
		"Read the alarm's detail and the log line \"orders not written, trying again\", for an item \"orders of an item wait for a locked row\"; check the health, locks and disk of Postgres. The writer continues by itself.")
	alarmShortfall = alarm.Define("stock-shortfall", alarm.Critical,
		"Redis granted more units than Postgres had. The order numbers beyond were refused; nothing was oversold.",
		"Pause the item and run `stampede verify`. Check whether Redis was restored from a backup or failed over to a replica that was behind.")
	alarmNoStock = alarm.Define("grants-without-stock", alarm.Critical,
		"Grants came for an item that has no stock row, and were refused.",
		"Check whether a backup of Postgres was restored while the server ran. If so, restart the server: it detects the rollback and fills Redis anew.")
)

const (
	// stuckAttempts is how many attempts at one batch fail before the alarm is
	// raised. With pauses from 50 ms up that is ten seconds of retries, longer
	// than it takes to detect a failover of Postgres.
	stuckAttempts = 8
	// stuckSubject is constant: there is one writer, whatever batch it is stuck
	// at. What is aside has its item's subject.
	stuckSubject = writerName
	// stuckTimeout bounds recording the alarm, since Postgres may be what is
	// broken.
	stuckTimeout = 2 * time.Second
)

// raiseAlarm raises the alarm for messages that cannot be written. The retries
// continue meanwhile. If Postgres does not accept the alarm, it is logged, and
// recorded after a batch has been written.
func (s *Service) raiseAlarm(ctx context.Context, subject, detail string) {
	ctx, cancel := context.WithTimeout(ctx, stuckTimeout)
	defer cancel()
	if err := s.late.Raise(ctx, s.deps.DB, alarmWriterStuck, subject, detail); err != nil {
		s.deps.Log.WarnContext(ctx, "alarm not recorded yet", "code", string(alarmWriterStuck.Code), "error", err)
	}
}

// unstuck records the alarms that Postgres did not accept while it accepted no
// batches. The batch is already written, so recording must not delay the next one
// for long.
func (s *Service) unstuck(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stuckTimeout)
	defer cancel()
	if err := s.late.Record(ctx, s.deps.DB); err != nil {
		s.deps.Log.WarnContext(ctx, "alarm not recorded yet", "code", string(alarmWriterStuck.Code), "error", err)
	}
}
