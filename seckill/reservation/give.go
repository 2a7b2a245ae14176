package reservation

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/store/pg"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/rush"
)

const (
	// giveTimeout bounds a batch with its repetitions; requests that wait behind it
	// are refused with a retry before a client gives up.
	giveTimeout = 5 * time.Second
	// giveTries bounds how often the undecided rest of a batch is sent again. Each
	// time a concurrent statement was faster and has been committed since: one of the
	// same user, or one that took the last places.
	giveTries = 5
	// capKept is the constraint that enforces the cap.
	capKept = "reservations_keep_to_the_cap"
)

// wish is one user's request for a reservation.
type wish struct {
	item, user int64
	human      bool // a human check was passed for it

	got held
	err error // the shopper's error
}

// give decides a batch in Postgres. The batch belongs to all its callers, so it
// does not end when one of them leaves.
func (s *Service) give(batch []*wish) {
	ctx, cancel := context.WithTimeout(context.Background(), giveTimeout)
	defer cancel()
	left := batch
	for try := 0; try < giveTries && len(left) > 0; try++ {
		rest, err := s.tryGive(ctx, left)
		if err != nil {
			s.deps.Log.WarnContext(ctx, "granting reservations failed", "wishes", len(left), "error", err)
			for _, w := range left {
				w.err = errBusy.Because(err)
			}
			return
		}
		left = rest
	}
	for _, w := range left {
		w.err = errBusy
	}
}

// tryGive sends the statement once and returns the requests that it left
// undecided, in the same order.
func (s *Service) tryGive(ctx context.Context, batch []*wish) (undecided []*wish, err error) {
	in := seckilldb.ReserveParams{ItemIds: make([]int64, len(batch)), UserIds: make([]int64, len(batch)), HumanOks: make([]bool, len(batch))}
	for i, w := range batch {
		in.ItemIds[i], in.UserIds[i], in.HumanOks[i] = w.item, w.user, w.human
		w.err = rush.ErrItemUnknown // unless the statement has an answer
	}
	rows, err := seckilldb.New(s.deps.DB).Reserve(ctx, in)
	if pg.ViolatesCheck(err, capKept) {
		return batch, nil // a concurrent request filled an item, and nothing has happened
	}
	if err != nil {
		return nil, fmt.Errorf("reservation: reserve %d: %w", len(batch), err)
	}
	open := make([]bool, len(batch))
	for i := range rows {
		r := &rows[i]
		w := batch[r.Ord-1]
		if w.err = nil; r.Made || r.Held {
			w.got = held{at: r.ReservedAt, new: r.Made}
		} else {
			w.err = refusal(r)
			open[r.Ord-1] = w.err == nil
		}
	}
	for i, w := range batch {
		if open[i] {
			undecided = append(undecided, w)
		}
	}
	return undecided, nil
}

// refusal is the reason why no reservation was made; nil when that is
// undecided.
func refusal(r *seckilldb.ReserveRow) error {
	switch {
	case r.Status == "draft":
		return rush.ErrItemUnknown
	case r.Status != "scheduled" && r.Status != "running":
		return rush.ErrSaleEnded
	case r.ReservationOpensAt == nil || r.ReservationClosesAt == nil:
		return errNotAsked
	case r.At.Before(*r.ReservationOpensAt):
		return ErrNotOpen.After(r.ReservationOpensAt.Sub(r.At))
	case !r.At.Before(*r.ReservationClosesAt):
		return ErrClosed
	case r.IsFull:
		return errFull
	default:
		return nil
	}
}
