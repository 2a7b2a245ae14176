package reservation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/identity/humancheck"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/rush"
)

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

// held is a user's existing reservation.
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

// giveUp cancels a user's reservation while the window is open. It succeeds if
// there is none.
func (s *Service) giveUp(ctx context.Context, item *catalogue.Item, user int64) error {
	if item.ReserveUntil.IsZero() {
		return errNotAsked
	}
	if s.deps.Clock.Now().Sub(item.ReserveUntil) > clockTolerance {
		return ErrClosed
	}
	r, err := seckilldb.New(s.deps.DB).GiveUpReservation(ctx, seckilldb.GiveUpReservationParams{ItemID: item.ID, UserID: user})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return rush.ErrItemUnknown
	case err != nil:
		return fmt.Errorf("reservation: give up reservation of item %d: %w", item.ID, err)
	case r.Closed:
		return ErrClosed
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
