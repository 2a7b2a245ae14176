package rush

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/seckill/catalogue"
)

// sweepAtMost bounds the holds of one item that one round handles. More than
// that at the same time are an outage, and the next rounds take the rest.
const sweepAtMost = 8 * inventory.MaxBatch

// sweep makes one round over the catalogue. An item that fails is logged and
// does not delay the others.
func (s *sweeper) sweep(ctx context.Context, round uint64) {
	for _, item := range s.catalogue.Items() {
		if err := s.sweepItem(ctx, item, round); err != nil && ctx.Err() == nil {
			s.quiet.Do(func() { s.log.ErrorContext(ctx, "settling stale holds failed", "item_id", item.ID, "error", err) })
		}
	}
}

// sweepItem is one round over an item's stale holds. A hold is noted when it is
// first seen, published again once the stream has passed the position noted with
// it, and reported if that did not help either.
func (s *sweeper) sweepItem(ctx context.Context, item *catalogue.Item, round uint64) error {
	publishBy := time.Now().Add(s.cfg.PublishDeadline)
	stale, err := s.stock.StaleHolds(ctx, item.Stock(), s.cfg.StaleHold, sweepAtMost)
	if err != nil {
		return fmt.Errorf("list stale holds: %w", err)
	}
	stale = distinct(stale)
	if len(stale) == 0 {
		delete(s.notes, item.ID)
		return nil
	}
	notes := s.notes[item.ID]
	if notes == nil {
		notes = make(map[ids.ID]*note, len(stale))
		s.notes[item.ID] = notes
	}
	// First the stream, then Postgres: a message that has left the stream by now
	// has its row in Postgres by the time of the query.
	done, err := s.done(ctx, item, notes)
	if err != nil {
		return err
	}
	open, _, err := s.stock.CloseWritten(ctx, item.Stock(), stale)
	if err != nil {
		return fmt.Errorf("close written holds: %w", err)
	}
	s.metrics.persisted.Add(float64(len(stale) - len(open)))

	var fresh, lost, stuck []inventory.StaleHold
	for _, h := range open {
		n := notes[h.No]
		switch {
		case n == nil:
			fresh = append(fresh, h)
			continue
		case !done[n.upTo]:
		case n.republished:
			stuck = append(stuck, h)
		default:
			lost = append(lost, h)
		}
		n.round = round
	}
	if err := s.republish(ctx, item, lost, notes, publishBy); err != nil {
		return err
	}
	if err := s.watch(ctx, fresh, notes, round); err != nil {
		return err
	}
	for no, n := range notes {
		if n.round != round {
			delete(notes, no) // written, or settled by another instance
		}
	}
	return s.raiseAlarm(ctx, item, stuck)
}

// done reports for each of the noted positions in the stream whether no message of
// the item at or before it is left. A position beyond the stream's last message
// belongs to a stream that was lost: messages published since are numbered from 1
// again, and the new stream's end is the position to wait for.
func (s *sweeper) done(ctx context.Context, item *catalogue.Item, notes map[ids.ID]*note) (map[uint64]bool, error) {
	done := make(map[uint64]bool)
	if len(notes) == 0 {
		return done, nil
	}
	state, err := s.grants.State(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the stream's last grant: %w", err)
	}
	for _, n := range notes {
		n.upTo = min(n.upTo, state.Last)
		if _, asked := done[n.upTo]; asked {
			continue
		}
		d, err := s.grants.Done(ctx, item.ID, n.upTo)
		if err != nil {
			return nil, fmt.Errorf("read the grants' backlog: %w", err)
		}
		done[n.upTo] = d
	}
	return done, nil
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

// republish publishes again the grants that have neither a message nor an order
// row, until the deadline that started before they were read: a Load waits as
// long for them. The rest is read again in the next round.
func (s *sweeper) republish(ctx context.Context, item *catalogue.Item, lost []inventory.StaleHold, notes map[ids.ID]*note, by time.Time) error {
	for batch := range slices.Chunk(lost, inventory.MaxBatch) { // of one epoch, as StaleHolds returns them
		if err := s.republishBatch(ctx, item, batch, notes, by); err != nil {
			return err
		}
	}
	return nil
}

// republishBatch publishes lost grants once more as one message, and notes the
// stream's position after it.
func (s *sweeper) republishBatch(ctx context.Context, item *catalogue.Item, lost []inventory.StaleHold, notes map[ids.ID]*note, by time.Time) error {
	publishing, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	publishErr := s.grants.Republish(publishing, item.ID, lost)
	state, err := s.grants.State(ctx)
	if err != nil {
		// The position to wait for is unknown; publishing again later costs a
		// message.
		return errors.Join(publishErr, fmt.Errorf("read the stream's last grant: %w", err))
	}
	for _, h := range lost {
		n := notes[h.No]
		n.upTo = state.Last
		// A message that was not certainly stored is looked up like any other,
		// and published again if it is missing.
		n.republished = publishErr == nil
	}
	return publishErr
}

// watch notes the stream's position, for holds seen for the first time.
func (s *sweeper) watch(ctx context.Context, fresh []inventory.StaleHold, notes map[ids.ID]*note, round uint64) error {
	if len(fresh) == 0 {
		return nil
	}
	state, err := s.grants.State(ctx)
	if err != nil {
		return fmt.Errorf("read the stream's last grant: %w", err)
	}
	for _, h := range fresh {
		notes[h.No] = &note{upTo: state.Last, round: round}
	}
	return nil
}

// raiseAlarm raises the alarm about holds that became neither orders nor
// refusals although their grants were published again and consumed.
func (s *sweeper) raiseAlarm(ctx context.Context, item *catalogue.Item, stuck []inventory.StaleHold) error {
	if len(stuck) == 0 {
		return nil
	}
	return alarmHoldStuck.Raise(ctx, s.db, inventory.ItemSubject(item.ID), fmt.Sprintf("Order number %s and %d more.", stuck[0].No, len(stuck)-1))
}
