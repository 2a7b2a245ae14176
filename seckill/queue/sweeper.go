package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/time/rate"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/lease"
	"stampede/platform/watch/alarm"
	"stampede/seckill/catalogue"
	"stampede/seckill/seckillevent"
)

const (
	// staleAfter is how old a hold without an order row is before the sweeper checks it, well
	// above a publication's deadline and the writer's usual delay.
	staleAfter = 10 * time.Second
	// sweepEvery is the time between two rounds of the sweeper.
	sweepEvery = 2 * time.Second
	// sweepLease names the lease; sweepLeaseLife lets a dead instance be replaced within half
	// a minute.
	sweepLease     = "seckill:hold-sweeper"
	sweepLeaseLife = 10 * sweepEvery
	// sweepAtMost bounds the holds of one item that one round handles. More than that at the
	// same time are an outage, and the next rounds take the rest.
	sweepAtMost = 8 * inventory.MaxBatch
)

var alarmHoldStuck = alarm.Define("hold-stuck", alarm.Critical,
	fault.T("A granted order number became neither an order nor a refusal, although its grant was published again and consumed.",
		"一个已放行的订单号既没有生成订单也没有被拒绝，尽管资格消息已重新发布并被消费。"),
	fault.T("Find the number among the dead letters of order-writer, fix the error shown there, and redrive them.",
		"在 order-writer 的死信中找到该订单号，处理其中的错误后重新投递。"))

// Holds is what the sweeper uses of inventory.
type Holds interface {
	Shards(ctx context.Context, item inventory.Item) (int16, error)
	StaleHolds(ctx context.Context, item inventory.Item, olderThan time.Duration, limit int) ([]inventory.StaleHold, error)
	CloseWritten(ctx context.Context, item inventory.Item, holds []inventory.StaleHold) (open []inventory.StaleHold, status map[ids.ID]string, err error)
}

// Sweeper settles holds whose order row did not appear: a lane died between
// Redis and the bus, a publication's outcome stayed unknown, or a stream was
// lost. It queries Postgres, waits until the stream has nothing older for the
// item, queries again, and only then publishes once more. So a backlog is never
// amplified, and since the writer accepts each number once, a mistake here costs
// a message and not a unit.
//
// One instance sweeps at a time, under a lease. A sweeper's notes are lost with
// its lease; its successor starts by querying again.
type Sweeper struct {
	queue           *Queue
	holds           Holds
	db              *pgxpool.Pool // of the lease and the alarm
	publishDeadline time.Duration
	// The constants of these names, which tests shorten.
	staleAfter, sweepEvery time.Duration

	notes map[inventory.Item]map[ids.ID]note // by shard of an item and number
	quiet rate.Sometimes                     // rate limit, so that a fault does not fill the log
}

// note is the sweeper's record of a hold from round to round.
type note struct {
	upTo        uint64 // the stream's last message when the hold was seen unknown
	republished bool
}

// NewSweeper returns the sweeper of a queue's grants. A Load waits for publishDeadline
// for what was read from Redis to be published.
func NewSweeper(q *Queue, holds Holds, db *pgxpool.Pool, publishDeadline time.Duration) *Sweeper {
	return &Sweeper{
		queue: q, holds: holds, db: db, publishDeadline: publishDeadline,
		staleAfter: staleAfter, sweepEvery: sweepEvery, quiet: rate.Sometimes{Interval: time.Second},
	}
}

// Run sweeps while this instance holds the lease, and waits for the lease otherwise.
func (s *Sweeper) Run(ctx context.Context) error {
	const failed = "sweeper's lease cannot be read, stale holds wait"
	return lease.Campaign(ctx, s.db, s.queue.log, sweepLease, ids.New().String(), sweepLeaseLife, failed, func(ctx context.Context, _ int64) error {
		s.notes = nil
		_ = app.Loop{Every: s.sweepEvery, Do: func(ctx context.Context) error { s.sweep(ctx); return nil }}.Run(ctx)
		return ctx.Err()
	})
}

// sweep makes one round over the catalogue. An item that fails is logged and
// does not delay the others.
func (s *Sweeper) sweep(ctx context.Context) {
	if s.notes == nil {
		s.notes = make(map[inventory.Item]map[ids.ID]note)
	}
	for _, item := range s.queue.catalogue.Items() {
		if err := s.sweepItem(ctx, item); err != nil && ctx.Err() == nil {
			s.quiet.Do(func() { s.queue.log.ErrorContext(ctx, "settling stale holds failed", "item_id", item.ID, "error", err) })
		}
	}
}

// sweepItem is one round over an item's shards, which do not wait for each other's stores.
func (s *Sweeper) sweepItem(ctx context.Context, item *catalogue.Item) error {
	shards, err := s.holds.Shards(ctx, item.Stock())
	for shard := range shards {
		err = errors.Join(err, s.sweepShard(ctx, item, item.Stock().Counter(shard)))
	}
	return err
}

// sweepShard is one round over a shard's stale holds. A hold is noted when it is
// first seen, published again once the stream has passed the position noted with
// it, and reported if that did not help either. It has a bound, because a sweeper that hangs keeps its lease.
func (s *Sweeper) sweepShard(ctx context.Context, item *catalogue.Item, stock inventory.Item) error {
	ctx, cancel := context.WithTimeout(ctx, s.publishDeadline+sweepLeaseLife)
	defer cancel()
	publishBy := time.Now().Add(s.publishDeadline)
	stale, err := s.holds.StaleHolds(ctx, stock, s.staleAfter, sweepAtMost)
	if err != nil {
		return fmt.Errorf("list stale holds: %w", err)
	}
	stale = distinct(stale)
	if len(stale) == 0 {
		delete(s.notes, stock)
		return nil
	}
	// First the stream, then Postgres: a message that has left the stream by now
	// has its row in Postgres by the time of the query.
	state, err := s.queue.State(ctx)
	if err != nil {
		return fmt.Errorf("read the stream's last grant: %w", err)
	}
	oldest, err := s.queue.First(ctx, seckillevent.GrantsSubject(item.ID))
	if err != nil {
		return fmt.Errorf("read the grants' backlog: %w", err)
	}
	open, _, err := s.holds.CloseWritten(ctx, stock, stale)
	if err != nil {
		return fmt.Errorf("close written holds: %w", err)
	}
	s.queue.metrics.persisted.Add(float64(len(stale) - len(open)))

	// What is not open any more was written, or settled by another instance.
	noted, notes := s.notes[stock], make(map[ids.ID]note, len(open))
	s.notes[stock] = notes
	var fresh, lost, stuck []inventory.StaleHold
	for _, h := range open {
		n, known := noted[h.No]
		if !known {
			fresh = append(fresh, h)
			continue
		}
		// A position beyond the stream's last message belongs to a stream that was lost: messages published since
		// are numbered from 1 again, and the new stream's end is the position to wait for.
		n.upTo = min(n.upTo, state.Last)
		notes[h.No] = n
		switch waits := oldest != 0 && oldest <= n.upTo; {
		case waits:
		case n.republished:
			stuck = append(stuck, h)
		default:
			lost = append(lost, h)
		}
	}
	if len(fresh)+len(lost) > 0 {
		if err := s.republish(ctx, item.ID, fresh, lost, notes, publishBy); err != nil {
			return err
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	return alarmHoldStuck.Raise(ctx, s.db, inventory.ItemSubject(item.ID), fmt.Sprintf("Order number %s and %d more.", stuck[0].No, len(stuck)-1))
}

// republish publishes again the grants that have neither a message nor an order
// row, until the deadline that started before they were read: a Load waits as
// long for them. The rest is read again in the next round. Then it notes the stream's
// position for them and for the holds seen for the first time.
func (s *Sweeper) republish(ctx context.Context, item int64, fresh, lost []inventory.StaleHold, notes map[ids.ID]note, by time.Time) error {
	publishing, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	var failed error
	var published []inventory.StaleHold
	for batch := range slices.Chunk(lost, inventory.MaxBatch) { // of one epoch, as StaleHolds returns them
		if failed = s.queue.Republish(publishing, item, batch); failed != nil {
			fresh = append(fresh, batch...) // stored or not, it is looked up like any other
			break
		}
		published = append(published, batch...)
	}
	state, err := s.queue.State(ctx)
	if err != nil {
		// The position to wait for is unknown; publishing again later costs a message.
		return errors.Join(failed, fmt.Errorf("read the stream's last grant: %w", err))
	}
	for _, h := range fresh {
		notes[h.No] = note{upTo: state.Last}
	}
	for _, h := range published {
		notes[h.No] = note{upTo: state.Last, republished: true}
	}
	return failed
}

// distinct drops repetitions: Redis may return a hold twice while the hash grows.
func distinct(stale []inventory.StaleHold) []inventory.StaleHold {
	seen := make(map[ids.ID]bool, len(stale))
	return slices.DeleteFunc(stale, func(h inventory.StaleHold) bool {
		twice := seen[h.No]
		seen[h.No] = true
		return twice
	})
}
