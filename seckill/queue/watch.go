package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/store/bus"
)

const (
	// stalledAfter is how long messages may wait while none leaves the queue: longer
	// than the order writer retries through a failover of Postgres.
	stalledAfter = 10 * time.Second
	// skippedAfter is how long the oldest grant stays the same before its consumer
	// is asked about it: a message is removed within milliseconds of its ack.
	skippedAfter = 2 * time.Second
)

type metrics struct {
	messages, bytes        prometheus.Gauge
	persisted, republished prometheus.Counter // stale holds that the sweeper settled
}

func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	swept := func(how string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_seckill_swept_holds_total", ConstLabels: prometheus.Labels{"how": how},
			Help: "Stale holds that the sweeper settled, by what it did: persisted, republished.",
		})
	}
	return &metrics{
		messages: auto.NewGauge(prometheus.GaugeOpts{
			Name: "stampede_bus_grants_messages", Help: "Messages on GRANTS that the order writer has not acknowledged.",
		}),
		bytes: auto.NewGauge(prometheus.GaugeOpts{
			Name: "stampede_bus_grants_bytes", Help: "Size of GRANTS on disk.",
		}),
		persisted: swept("persisted"), republished: swept("republished"),
	}
}

// backlog is what was last seen of the queue. It is immutable.
type backlog struct {
	bus.QueueState
	at          time.Time
	since       time.Time // since when none has left, although some waited
	oldestSince time.Time // since when the oldest is the same
}

// next is the look after l, nil before the first.
func (l *backlog) next(s bus.QueueState, now time.Time) *backlog {
	n := &backlog{QueueState: s, at: now, since: now, oldestSince: now}
	if l == nil || l.Messages == 0 || n.Messages == 0 {
		return n
	}
	if l.Handled() == n.Handled() {
		n.since = l.since
	}
	if l.First == n.First {
		n.oldestSince = l.oldestSince
	}
	return n
}

// look is called by the bus's monitor.
func (q *Queue) look(ctx context.Context, s bus.QueueState) {
	q.metrics.messages.Set(float64(s.Messages))
	q.metrics.bytes.Set(float64(s.Bytes))
	now := q.backlog.Load().next(s, time.Now())
	q.backlog.Store(now)
	if err := q.redeliverSkipped(ctx, now); err != nil {
		q.log.WarnContext(ctx, "oldest grant not compared with its consumer", "error", err)
	}
}

// redeliverSkipped has everything delivered again when the consumer counts the oldest
// message as acknowledged and the queue has kept it.
func (q *Queue) redeliverSkipped(ctx context.Context, now *backlog) error {
	if now.at.Sub(now.oldestSince) < q.skippedAfter {
		return nil
	}
	acknowledged, err := q.Acknowledged(ctx)
	if err != nil || acknowledged < now.First {
		return err // it is being written
	}
	q.log.ErrorContext(ctx, "consumer of grants skipped a message, delivering what is left again", "sequence", now.First)
	return q.Redeliver(ctx)
}

// Moving returns an error if messages wait and none has left the queue for a while: the
// order writer of no instance makes progress. It costs one atomic load.
func (q *Queue) Moving(context.Context) error {
	last := q.backlog.Load()
	if last == nil {
		return nil // Healthy says why there was no look
	}
	if still := last.at.Sub(last.since); still >= q.stalledAfter {
		return fmt.Errorf("seckill: %d messages wait for the order writer, and none has left the queue for %s", last.Messages, still.Round(time.Second))
	}
	return nil
}
