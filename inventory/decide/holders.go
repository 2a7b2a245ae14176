package decide

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
)

// Written are numbers of one item whose order rows exist.
type Written struct {
	Item  stock.Item
	Epoch int64 // under which they were granted
	Nos   []ids.ID
}

// Persisted records that order rows exist, so that the queue moves on and the hold sweeper leaves them alone. It may
// be repeated, and does nothing for an epoch that a Load has replaced. It is one round trip for all items: alone,
// each would wait for Redis to sync its log. An item that fails is returned as an error and does not affect the
// others. There are as many calls as the caller has items; the order writer's transaction bounds them.
func (s *Service) Persisted(ctx context.Context, all ...Written) error {
	calls := make([]lua.Args, 0, len(all))
	for _, w := range all {
		keys := []string{w.Item.StateKey(), w.Item.HoldsKey(w.Epoch)}
		for chunk := range slices.Chunk(w.Nos, lua.Chunk) {
			args := make([]any, 0, 1+len(chunk))
			args = append(args, w.Epoch)
			for _, no := range chunk {
				args = append(args, no.String())
			}
			calls = append(calls, lua.Args{Keys: keys, Args: args})
		}
	}
	var failed []error
	for _, cmd := range lua.Persist.TryAll(ctx, s.Redis, calls) {
		if err := cmd.Err(); err != nil {
			failed = append(failed, lua.Persist.Failed(err))
		}
	}
	return errors.Join(failed...)
}

// Users returns the users who hold units of the item under epoch, at most limit of them and in no order; users who
// merely may not buy again are left out. A user added or removed during the read may or may not be included.
// ErrFenced says that a Load has replaced the epoch, and with it the list.
func (s *Service) Users(ctx context.Context, item stock.Item, epoch int64, limit int) ([]int64, error) {
	users := make([]int64, 0, min(limit, stock.ScanCount))
	err := s.Scan(ctx, item.UsersKey(epoch), func(user, value string) (bool, error) {
		if strings.HasSuffix(value, stock.ClosedSuffix) {
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
	now, err := s.Redis.HGet(ctx, item.StateKey(), "epoch").Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("inventory: read epoch of item %d: %w", item.ID, err)
	}
	if now != epoch {
		return nil, fmt.Errorf("inventory: holders of item %d: %w", item.ID, stock.ErrFenced)
	}
	return users, nil
}

// Hold returns the number under which the user holds units of the item. seq is the grant's sequence and persisted how
// far the queue has moved, so that the position is max(0, seq − persisted); seq is 0 if the order row exists. Both count
// the grants of all the item's shards, by those of the user's own. ok is false if the user certainly holds nothing;
// ErrFenced says that this is unknown now, and no is then the number that Redis has of the user all the same, if any.
func (s *Service) Hold(ctx context.Context, item stock.Item, user int64) (no ids.ID, quantity int32, seq, persisted int64, ok bool, err error) {
	for range stock.EpochTurns {
		// Which shard knows the user depends on the epoch: an answer counts under that one only.
		shards, epoch, err := s.Shards(ctx, item)
		if err != nil {
			return ids.ID{}, 0, 0, 0, false, err
		}
		item = item.Home(user, shards)
		keys := []string{item.StateKey(), item.UsersKey(epoch), item.HoldsKey(epoch)}
		r, err := lua.Hold.Call(ctx, s.Redis, 3, keys, epoch, user, stock.WeightField)
		if err != nil {
			return ids.ID{}, 0, 0, 0, false, err
		}
		text, err := r.Text(3)
		if err != nil {
			return ids.ID{}, 0, 0, 0, false, err
		}
		var m stock.Mark
		if text != "" {
			if m, err = stock.ParseMark(text); err != nil {
				return ids.ID{}, 0, 0, 0, false, err
			}
		}
		switch r.Int(0) {
		case holdFound:
			place, _ := r[len(r)-1].(int64)
			return m.No, m.Quantity, place * int64(shards), r.Int(2) * int64(shards), true, nil
		case holdNone:
			return ids.ID{}, 0, 0, r.Int(2), false, nil
		case holdOtherEpoch:
			s.ForgetShards(item.ID)
		default: // no state, or one that proves nothing
			return m.No, 0, 0, 0, false, fmt.Errorf("inventory: hold of item %d: %w", item.ID, stock.ErrFenced)
		}
	}
	return ids.ID{}, 0, 0, 0, false, fmt.Errorf("inventory: hold of item %d: %w", item.ID, stock.ErrFenced)
}

// The codes of hold.lua that Hold distinguishes.
const (
	holdFound      = 0
	holdNone       = 2
	holdOtherEpoch = 3
)

// StaleHolds returns at most limit grants of the current epoch that have waited for their order row for longer than
// olderThan, by Redis's clock.
func (s *Service) StaleHolds(ctx context.Context, item stock.Item, olderThan time.Duration, limit int) ([]stock.StaleHold, error) {
	st, ok, err := s.State(ctx, item)
	if ok {
		s.SeeShards(item.ID, st.Epoch, st.Shards)
	}
	if err != nil || !ok || st.Seq <= st.Persisted {
		return nil, err
	}
	now, err := clock.RedisTime(ctx, s.Redis)
	if err != nil {
		return nil, fmt.Errorf("inventory: read Redis's time: %w", err)
	}
	var stale []stock.StaleHold
	err = s.OpenHolds(ctx, item, st.Epoch, func(h stock.StaleHold) (bool, error) {
		// As far in the future means that Redis's clock was set back since.
		if now.Sub(h.At).Abs() >= olderThan {
			stale = append(stale, h)
		}
		return len(stale) < limit, nil
	})
	if len(stale) > 0 {
		s.NotePublishing(item.ID) // the caller may publish them again
	}
	return stale, err
}

// CloseWritten closes the holds of one epoch whose order row is written, whatever its status. It returns the others,
// in a part of holds' array, and the statuses.
func (s *Service) CloseWritten(ctx context.Context, item stock.Item, holds []stock.StaleHold) (open []stock.StaleHold, status map[ids.ID]string, err error) {
	if len(holds) == 0 {
		return nil, nil, nil
	}
	nos, epoch := make([]ids.ID, len(holds)), holds[0].Epoch
	for i, h := range holds {
		nos[i] = h.No
	}
	if status, err = s.Books.Statuses(ctx, nos); err != nil {
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
	return open, status, s.Persisted(ctx, Written{Item: item, Epoch: epoch, Nos: written})
}

// Ended returns numbers of the item that have ended, as long as their paths may be sent again; at most limit of them
// and in no order. The list is complete if a later call of Users under the same epoch succeeds.
func (s *Service) Ended(ctx context.Context, item stock.Item, epoch int64, limit int) ([]ids.ID, error) {
	var ended []ids.ID
	for cursor := uint64(0); ; {
		members, next, err := s.Redis.ZScan(ctx, item.TombstonesKey(epoch), cursor, "", stock.ScanCount).Result()
		if err != nil {
			return nil, fmt.Errorf("inventory: read ended numbers of item %d: %w", item.ID, err)
		}
		for i := 0; i+1 < len(members); i += 2 {
			if members[i] == stock.Weight {
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

// Queued reports whether the user's number holds units for which no order row exists yet, searching every item. It is
// for verify, which has no catalogue to narrow the search; an item that cannot answer now is an error only if no
// other item has the number.
func (s *Service) Queued(ctx context.Context, user int64, no ids.ID) (position, itemID int64, ok bool, err error) {
	stocks, err := s.AllStock(ctx)
	if err != nil {
		return 0, 0, false, err
	}
	settled, err := s.SettledEpochs(ctx)
	if err != nil {
		return 0, 0, false, err
	}
	var unclear error
	for rows := range stock.PerItem(stocks) {
		st := rows[0]
		held, _, seq, persisted, found, err := s.Hold(ctx, st.Item(), user)
		switch {
		case errors.Is(err, stock.ErrFenced) && st.Epoch == 0:
			// Never loaded, so nothing of it was ever granted.
		case errors.Is(err, stock.ErrFenced) && settled[st.ItemID] == st.Epoch:
			// Its keys were removed because nothing waited.
		case err != nil:
			unclear = errors.Join(unclear, err)
		case found && held == no && seq > 0:
			return max(0, seq-persisted), st.ItemID, true, nil
		}
	}
	return 0, 0, false, unclear
}
