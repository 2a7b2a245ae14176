package order

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
)

var alarmNewerGrants = alarm.Define("newer-grants", alarm.Critical,
	"An instance received grants in the layout of a newer version and left them in the queue. Their shoppers wait in line.",
	"Start an instance of the newer version, or finish the upgrade; it writes the orders. Before a rollback to an older version let the queue of grants run empty.")

// newerDelay is how long grants of a newer layout wait before the next attempt,
// which any instance may get. During a rolling upgrade half of the instances
// are of the newer version, so a few attempts reach one.
const newerDelay = time.Second

// leave returns messages that only a newer version can read to the queue. While
// Postgres is away the alarm is logged only; the next attempt raises it.
func (s *Service) leave(ctx context.Context, newer []bus.Msg) {
	if len(newer) == 0 {
		return
	}
	for _, m := range newer {
		_ = m.Nak(newerDelay) // without a connection the ack wait has the same effect
	}
	s.metrics.written.WithLabelValues("newer").Add(float64(len(newer)))
	s.deps.Log.WarnContext(ctx, "grants of a newer version left in the queue", "messages", len(newer), "subject", newer[0].Subject)
	ctx, cancel := context.WithTimeout(ctx, stuckTimeout)
	defer cancel()
	detail := fmt.Sprintf("%d messages, the first on %s, start with layout %d.", len(newer), newer[0].Subject, newer[0].Data[0])
	if err := alarmNewerGrants.Raise(ctx, s.deps.DB, writerName, detail); err != nil {
		s.deps.Log.WarnContext(ctx, "alarm not recorded", "code", string(alarmNewerGrants.Code), "error", err)
	}
}
