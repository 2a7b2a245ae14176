package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
)

// scanCount is how many entries of a big hash one step reads: a step of this
// size blocks Redis for about as long as a small batch of decisions.
const scanCount = 1000

// Users returns the users who hold units of the item under epoch, at most limit of
// them and in no order; users who merely may not buy again are left out. A user
// added or removed during the read may or may not be included. ErrFenced says that
// a Load has replaced the epoch, and with it the list.
func (s *Service) Users(ctx context.Context, item Item, epoch int64, limit int) ([]int64, error) {
	users := make([]int64, 0, min(limit, scanCount))
	err := s.scan(ctx, item.usersKey(epoch), func(user, value string) (bool, error) {
		if strings.HasSuffix(value, closedSuffix) {
			return true, nil
		}
		id, err := strconv.ParseInt(user, 10, 64)
		if err != nil {
			return false, fmt.Errorf("inventory: holder %q of item %d: %w", user, item.ID, err)
		}
		users = append(users, id)
		return len(users) < limit, nil
	})
	if err != nil {
		return nil, err
	}
	// A list that a Load removed meanwhile looks like one without holders.
	now, err := s.deps.Redis.HGet(ctx, item.stateKey(), "epoch").Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("inventory: read epoch of item %d: %w", item.ID, err)
	}
	if now != epoch {
		return nil, fmt.Errorf("inventory: holders of item %d: %w", item.ID, ErrFenced)
	}
	return users, nil
}

// scan passes a hash's fields and values to each until it returns false. A
// field may be passed more than once while the hash grows.
func (s *Service) scan(ctx context.Context, key string, each func(field, value string) (bool, error)) error {
	errEnough := errors.New("enough")
	err := s.scanChunks(ctx, key, func(_ context.Context, pairs []string) error {
		for i := 0; i < len(pairs); i += 2 {
			more, err := each(pairs[i], pairs[i+1])
			if err != nil {
				return err
			}
			if !more {
				return errEnough
			}
		}
		return nil
	})
	if err == errEnough { //nolint:errorlint // this call's own
		return nil
	}
	return err
}

// scanChunks is scan for chunks of fields and values in turn, of about
// scanCount fields each.
func (s *Service) scanChunks(ctx context.Context, key string, each func(ctx context.Context, pairs []string) error) error {
	var cursor uint64
	for {
		pairs, next, err := s.deps.Redis.HScan(ctx, key, cursor, "", scanCount).Result()
		if err != nil {
			return fmt.Errorf("inventory: read %s: %w", key, err)
		}
		for at := slices.Index(pairs, weightField); at >= 0; at = slices.Index(pairs, weightField) {
			pairs = slices.Delete(pairs, at, at+2)
		}
		if len(pairs) > 0 {
			if err := each(ctx, pairs); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// Hold returns the number under which the user holds units of the item. seq is
// the grant's sequence and persisted how far the queue has moved, so that the
// position is max(0, seq − persisted); seq is 0 if the order row exists. ok is
// false if the user certainly holds nothing; ErrFenced says that this is
// unknown now.
func (s *Service) Hold(ctx context.Context, item Item, user int64) (no ids.ID, quantity int32, seq, persisted int64, ok bool, err error) {
	var epoch int64
	if known, ok := s.epochs.Load(item); ok {
		epoch = known.(int64) //nolint:errcheck // the map holds nothing else
	}
	for range epochTurns {
		keys := []string{item.stateKey(), item.usersKey(epoch), item.holdsKey(epoch)}
		r, err := holdScript.run(ctx, s.deps.Redis, 3, keys, epoch, user, weightField)
		if err != nil {
			return ids.ID{}, 0, 0, 0, false, err
		}
		switch r.int(0) {
		case holdFound:
			s.epochs.Store(item, epoch)
			text, err := r.text(3)
			if err != nil {
				return ids.ID{}, 0, 0, 0, false, err
			}
			m, err := parseMark(text)
			if err != nil {
				return ids.ID{}, 0, 0, 0, false, err
			}
			place, _ := r[len(r)-1].(int64)
			return m.no, m.quantity, place, r.int(2), true, nil
		case holdNone:
			return ids.ID{}, 0, 0, r.int(2), false, nil
		case holdOtherEpoch:
			epoch = r.int(1)
		default: // no state, or one that proves nothing
			return ids.ID{}, 0, 0, 0, false, fmt.Errorf("inventory: hold of item %d: %w", item.ID, ErrFenced)
		}
	}
	return ids.ID{}, 0, 0, 0, false, fmt.Errorf("inventory: hold of item %d: %w", item.ID, ErrFenced)
}

// The codes of hold.lua that Hold distinguishes.
const (
	holdFound      = 0
	holdNone       = 2
	holdOtherEpoch = 3
)

// StaleHold is a grant without a known order row.
type StaleHold struct {
	No        ids.ID
	User      int64
	Quantity  int32
	PayWithin int32 // seconds, see Attempt
	Seq       int64
	Epoch     int64
}

// StaleHolds returns at most limit grants of the current epoch that have waited
// for their order row for longer than olderThan, by Redis's clock.
func (s *Service) StaleHolds(ctx context.Context, item Item, olderThan time.Duration, limit int) ([]StaleHold, error) {
	st, ok, err := s.State(ctx, item)
	if err != nil || !ok || st.Seq <= st.Persisted {
		return nil, err
	}
	now, err := clock.RedisTime(ctx, s.deps.Redis)
	if err != nil {
		return nil, fmt.Errorf("inventory: read Redis's time: %w", err)
	}
	var stale []StaleHold
	err = s.openHolds(ctx, item, st.Epoch, func(h StaleHold, at time.Time) (bool, error) {
		// As far in the future means that Redis's clock was set back since.
		if now.Sub(at).Abs() >= olderThan {
			stale = append(stale, h)
		}
		return len(stale) < limit, nil
	})
	if len(stale) > 0 {
		s.granting(item.ID).note(time.Now()) // the caller may publish them again
	}
	return stale, err
}

// openHolds passes the grants of an epoch without a known order row, and when
// Redis made each, to each until it returns false.
func (s *Service) openHolds(ctx context.Context, item Item, epoch int64, each func(h StaleHold, at time.Time) (bool, error)) error {
	return s.scan(ctx, item.holdsKey(epoch), func(field, value string) (bool, error) {
		h, at, err := readHold(item, epoch, field, value)
		if err != nil {
			return false, err
		}
		return each(h, at)
	})
}

// readHold reads an entry of the holds hash, and when Redis made the grant.
func readHold(item Item, epoch int64, field, value string) (StaleHold, time.Time, error) {
	h, err := parseOpenHold(value)
	if err != nil {
		return StaleHold{}, time.Time{}, err
	}
	no, err := ids.Parse(field)
	if err != nil {
		return StaleHold{}, time.Time{}, fmt.Errorf("inventory: hold of item %d: %w", item.ID, err)
	}
	return StaleHold{No: no, User: h.user, Quantity: h.quantity, PayWithin: h.within, Seq: h.seq, Epoch: epoch}, h.at, nil
}

// CloseWritten closes the holds of one epoch whose order row is written, whatever
// its status. It returns the others, in a part of holds' array, and the statuses.
func (s *Service) CloseWritten(ctx context.Context, item Item, holds []StaleHold) (open []StaleHold, status map[ids.ID]string, err error) {
	if len(holds) == 0 {
		return nil, nil, nil
	}
	nos, epoch := make([]ids.ID, len(holds)), holds[0].Epoch
	for i, h := range holds {
		nos[i] = h.No
	}
	if status, err = s.deps.Books.Statuses(ctx, nos); err != nil {
		return nil, nil, fmt.Errorf("inventory: read orders of item %d: %w", item.ID, err)
	}
	written, open := nos[:0], holds[:0]
	for _, h := range holds {
		if _, ok := status[h.No]; ok {
			written = append(written, h.No)
		} else {
			open = append(open, h)
		}
	}
	if len(written) == 0 {
		return open, status, nil
	}
	return open, status, s.Persisted(ctx, item, epoch, written)
}

// Ended returns numbers of the item that have ended, as long as their paths may
// be sent again; at most limit of them and in no order. The list is complete if
// a later call of Users under the same epoch succeeds.
func (s *Service) Ended(ctx context.Context, item Item, epoch int64, limit int) ([]ids.ID, error) {
	var ended []ids.ID
	for cursor := uint64(0); ; {
		members, next, err := s.deps.Redis.ZScan(ctx, item.tombstonesKey(epoch), cursor, "", scanCount).Result()
		if err != nil {
			return nil, fmt.Errorf("inventory: read ended numbers of item %d: %w", item.ID, err)
		}
		for i := 0; i+1 < len(members); i += 2 {
			if members[i] == weight {
				continue
			}
			no, err := ids.Parse(members[i])
			if err != nil {
				return nil, fmt.Errorf("inventory: ended number of item %d: %w", item.ID, err)
			}
			if ended = append(ended, no); len(ended) == limit {
				return ended, nil
			}
		}
		if cursor = next; cursor == 0 {
			return ended, nil
		}
	}
}
