package order

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/order/orderevent"
	"stampede/platform/watch/tally"
)

// metrics of the module. Every label is an enumeration of this package or of
// orderevent; an order's number or user never is one.
type metrics struct {
	written     *prometheus.CounterVec
	writeTime   prometheus.Histogram
	batchSize   prometheus.Histogram
	writeErrors prometheus.Counter
	visible     *prometheus.CounterVec
	visibleTime prometheus.Histogram
	cacheReads  *prometheus.CounterVec
	cachePuts   *prometheus.CounterVec
	loads       prometheus.Counter
	changes     *prometheus.CounterVec
	tally       *tally.Board
}

// Outcomes of putting an order.
const (
	putStored = "stored"
	putKept   = "kept"
	putNoRoom = "no_room"
)

// Which component made a new order readable in the cache.
const (
	visibleByWriter = "writer"
	visibleByEvent  = "event"
	visibleByReader = "reader"
)

func newMetrics(reg prometheus.Registerer, board *tally.Board) *metrics {
	auto := promauto.With(reg)
	const namespace, subsystem = "stampede", "order"
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return auto.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets,
		})
	}
	m := &metrics{
		tally: board,
		written: auto.NewCounterVec(opts("grants_written_total",
			"Grants that the order writer finished, by result: created, or refused as duplicate, shortfall, interrupted, blocked; "+
				"known had been finished before; malformed are dead letters, a message that cannot be read counting once."), []string{"result"}),
		writeTime: histogram("write_seconds", "Time from taking grants to their orders' commit, with retries.",
			prometheus.ExponentialBuckets(0.001, 2, 15)),
		batchSize: histogram("write_batch_grants", "Grants per writer transaction.", prometheus.ExponentialBuckets(1, 2, 15)),
		writeErrors: auto.NewCounter(opts("write_failures_total",
			"Writer transactions that failed in Postgres and were retried.")),
		visible: auto.NewCounterVec(opts("visible_total",
			"New orders and refusals that became readable in the cache, by what put them there: writer, event, reader. "+
				"One that left the cache and is read again counts again."), []string{"by"}),
		// The commit takes a few ms; a minute is the outage after which every queued
		// number must have ended.
		visibleTime: histogram("visible_seconds", "Age of a message of grants, by the time in its id, when its orders had become readable.",
			prometheus.ExponentialBuckets(0.002, 2, 16)),
		cacheReads: auto.NewCounterVec(opts("cache_reads_total", "Reads of the order cache, by result: hit, miss, behind, error."), []string{"result"}),
		cachePuts: auto.NewCounterVec(opts("cache_puts_total",
			"Changed orders put into the cache, by result: stored, kept, no_room."), []string{"result"}),
		loads: auto.NewCounter(opts("postgres_reads_total", "Order numbers that had to be read from Postgres.")),
		changes: auto.NewCounterVec(opts("changes_total",
			"Orders that changed their status after they were written, by the status they have now and, where it was closed, the reason."), []string{"status", "reason"}),
	}
	// Series of the normal path exist from the first scrape on, so that the first
	// rate is right.
	start := func(vec *prometheus.CounterVec, values ...string) {
		for _, v := range values {
			vec.WithLabelValues(v)
		}
	}
	start(m.written, "created", "known", "malformed", "newer")
	start(m.written, orderevent.ReasonDuplicate, orderevent.ReasonShortfall, orderevent.ReasonInterrupted, orderevent.ReasonBlocked)
	start(m.visible, visibleByWriter, visibleByEvent, visibleByReader)
	start(m.cacheReads, "hit", "miss", "error")
	start(m.cachePuts, putStored, putKept, putNoRoom)
	m.changes.WithLabelValues(orderevent.StatusPaid, orderevent.ReasonBackup)
	for _, status := range []string{
		orderevent.StatusPaid, orderevent.StatusCompleted, orderevent.StatusRefunding, orderevent.StatusRefunded, orderevent.StatusRefundFailed,
	} {
		m.changes.WithLabelValues(status, "")
	}
	for _, reason := range []string{orderevent.ReasonTimeout, orderevent.ReasonCanceled, orderevent.ReasonWithdrawn} {
		m.changes.WithLabelValues(orderevent.StatusClosed, reason)
	}
	return m
}

// sawVisible records how old the messages' grants were when their orders became
// readable. It compares clocks of different machines, so the figure is only as
// accurate as they agree.
func (m *metrics) sawVisible(messages []message) {
	now := time.Now()
	for i := range messages {
		b := messages[i].batch
		took := max(0, now.Sub(b.ID.Time()))
		m.visibleTime.Observe(took.Seconds())
		m.tally.Count(b.ItemID, stageVisible, tally.StepCode(tally.Step(took)), int64(len(b.Grants)))
	}
}

// Stages of an item's funnel that this module counts.
const (
	stageOrders  = "orders"  // written and changed, by tallyCode
	stageUnits   = "units"   // of those orders, by the same code
	stageVisible = "visible" // time from a grant's message until its order was readable, by tally.StepCode
)

// tallyCode names an order's last change: created, refused-duplicate, paid,
// retaken (paid late, with units of the backup), closed-timeout, refunded, …
func tallyCode(o *orderevent.Order) string {
	switch {
	case o.Status == orderevent.StatusPending:
		return "created"
	case o.Status == orderevent.StatusPaid && o.Reason == orderevent.ReasonBackup:
		return "retaken"
	case (o.Status == orderevent.StatusRefused || o.Status == orderevent.StatusClosed) && o.Reason != "":
		return o.Status + "-" + o.Reason
	default:
		return o.Status
	}
}

// tallied counts changed orders in their items' funnels. A batch is mostly of one
// item and one code, which is one count.
func (m *metrics) tallied(orders []orderevent.Order) {
	for i := 0; i < len(orders); {
		item, code := orders[i].ItemID, tallyCode(&orders[i])
		first, units := i, int64(0)
		for ; i < len(orders) && orders[i].ItemID == item && tallyCode(&orders[i]) == code; i++ {
			units += int64(orders[i].Quantity)
		}
		m.tally.Count(item, stageOrders, code, int64(i-first))
		m.tally.Count(item, stageUnits, code, units)
	}
}
