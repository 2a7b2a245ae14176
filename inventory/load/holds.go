package load

import (
	"context"
	"fmt"
	"time"

	"stampede/inventory/decide"
	"stampede/inventory/stock"
)

// settleRounds is how often a Load publishes a hold again whose grant has left the stream without becoming an order
// or a refusal. One round settles every hold whose message was lost; the second is for a stream that is lost
// meanwhile. What is left then has been buried as a dead letter.
const settleRounds = 2

// settleHolds brings every open hold that survives in Redis to its end: the item's state may be older than the
// stream, which may have lost the message of a shopper whose answer was "queued". What has no order row after the
// drain is published again under its own epoch, which the writer still accepts, and waited for. Holds that Redis lost
// with its last writes cannot be known.
func (s *Service) settleHolds(ctx context.Context, f fenced) error {
	for _, item := range f.items {
		old := f.old[item]
		if old == 0 {
			continue
		}
		for round := range settleRounds + 1 {
			last := round == settleRounds
			left, err := s.settleOnce(ctx, f, item, !last)
			if err != nil {
				return fmt.Errorf("inventory: load item %d: settle holds: %w", item.ID, err)
			}
			if left == 0 {
				break
			}
			if last {
				s.Log.ErrorContext(ctx, "open holds dropped, their grants became neither orders nor refusals",
					"item_id", item.ID, "epoch", old, "holds", left)
				break
			}
			if err := s.awaitWriter(ctx, item.ID, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleOnce reads the replaced epoch's open holds in chunks: those with an order row are closed, the others are
// published again if publish is set. It returns how many others there were.
func (s *Service) settleOnce(ctx context.Context, f fenced, item stock.Item, publish bool) (left int, err error) {
	epoch := f.old[item]
	var chunk []stock.StaleHold
	settle := func() error {
		defer f.alive()
		// A Load that follows this one waits as long for what it publishes.
		by := time.Now().Add(s.PublishDeadline)
		open, _, err := s.decide.CloseWritten(ctx, item, chunk)
		if err != nil {
			return err
		}
		chunk = chunk[:0]
		left += len(open)
		if len(open) == 0 || !publish {
			return nil
		}
		s.decide.NotePublishing(item.ID)
		publishing, cancel := context.WithDeadline(ctx, by)
		defer cancel()
		return s.Grants.Republish(publishing, item.ID, open)
	}
	err = s.OpenHolds(ctx, item, epoch, func(h stock.StaleHold) (bool, error) {
		if chunk = append(chunk, h); len(chunk) < decide.MaxBatch {
			return true, nil
		}
		return true, settle()
	})
	if err == nil && len(chunk) > 0 {
		err = settle()
	}
	return left, err
}
