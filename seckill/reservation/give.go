package reservation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/identity/humancheck"
	"stampede/platform/store/pg"
	"stampede/seckill/catalogue"
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

const (
	// lockLasts is longer than reserving takes, including a human check by an
	// external service.
	lockLasts = 5 * time.Second
	// lockWait is how long a request waits for the same user's other requests.
	// After that, work may be done twice, which is harmless.
	lockWait = time.Second
	// lockPrefix begins the names of the locks in Redis.
	lockPrefix = "reserve:"
)

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{lockPrefix}

type held struct {
	at  time.Time
	new bool // made by this request
}

// applicant is the user who requests a reservation, with a human check's proof.
type applicant struct {
	user  int64
	from  netip.Addr
	proof string
}

// reserve returns a user's reservation of the item, creating it if there is
// none.
func (s *Service) reserve(ctx context.Context, item *catalogue.Item, who applicant) (held, error) {
	now := s.deps.Clock.Now()
	switch {
	case item.ReserveUntil.IsZero():
		return held{}, errNotAsked
	case !item.OnSale:
		return held{}, rush.ErrSaleEnded
	case item.ReserveFrom.Sub(now) > clockTolerance:
		return held{}, ErrNotOpen.After(item.ReserveFrom.Sub(now))
	case now.Sub(item.ReserveUntil) > clockTolerance:
		return s.heldStill(ctx, item, who.user)
	}
	defer s.turn(ctx, item.ID, who.user)()
	human := false
	if item.HumanCheck == humancheck.Pow {
		// A user who already has one needs no new proof: the first was valid only
		// once.
		if h, err := s.read(ctx, item.ID, who.user); !errors.Is(err, errNone) {
			return h, err
		}
		sub := humancheck.Subject{Purpose: humancheck.PurposeReservation, User: who.user, Item: item.ID, Path: item.ChallengePath(), Address: who.from}
		if err := s.deps.Human.Check(ctx, humancheck.Pow, sub, who.proof); err != nil {
			return held{}, err
		}
		human = true
	}
	w := &wish{item: item.ID, user: who.user, human: human}
	if err := s.giving.Ask(ctx, w); err != nil {
		return held{}, inWords(err)
	}
	return w.got, w.err
}

// heldStill answers after the window closed: users with a reservation get the
// same answer as before. Most users who come now have none, so the caches are
// checked first.
func (s *Service) heldStill(ctx context.Context, item *catalogue.Item, user int64) (held, error) {
	have, err := s.find(ctx, item, user)
	if err != nil {
		return held{}, err
	}
	if !have.held {
		return held{}, ErrClosed
	}
	return s.read(ctx, item.ID, user)
}

// read returns a user's reservation of an item, or errNone.
func (s *Service) read(ctx context.Context, item, user int64) (held, error) {
	r, err := seckilldb.New(s.deps.DB).Reservation(ctx, seckilldb.ReservationParams{ItemID: item, UserID: user})
	if errors.Is(err, pgx.ErrNoRows) {
		return held{}, errNone
	}
	if err != nil {
		return held{}, fmt.Errorf("reservation: read reservation of item %d: %w", item, err)
	}
	return held{at: r.ReservedAt}, nil
}

// giveUp cancels a user's reservation while the window is open and no paths are
// issued. It succeeds if there is none.
func (s *Service) giveUp(ctx context.Context, item *catalogue.Item, user int64) error {
	if item.ReserveUntil.IsZero() {
		return errNotAsked
	}
	// Paths are issued by a clock that may be ahead of Postgres's.
	lead := s.deps.PathLead + clockTolerance
	until := item.ReserveUntil
	if issued := item.OpensAt.Add(-lead); issued.Before(until) {
		until = issued
	}
	if s.deps.Clock.Now().Sub(until) > clockTolerance {
		return errKept
	}
	r, err := seckilldb.New(s.deps.DB).GiveUpReservation(ctx, seckilldb.GiveUpReservationParams{ItemID: item.ID, UserID: user, Lead: lead})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return rush.ErrItemUnknown
	case err != nil:
		return fmt.Errorf("reservation: give up reservation of item %d: %w", item.ID, err)
	case r.Closed:
		return errKept
	default:
		return nil
	}
}

// turn waits until no other request of the user for the item is in progress,
// and returns the function that lets the next one continue. If the lock cannot
// be had, or not in time, the request continues anyway: Postgres keeps order
// without it.
func (s *Service) turn(ctx context.Context, item, user int64) (release func()) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	release, err := s.deps.Locks.Acquire(ctx, fmt.Sprintf(lockPrefix+"%d:%d", item, user), lockLasts)
	if err != nil {
		return func() {}
	}
	return release
}
