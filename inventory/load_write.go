package inventory

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/ids"
)

// write puts one stock row's part of the books into Redis: first the keys named
// by the new epoch, which have no reader yet, in chunks; the state last, and
// only to a higher epoch, which opens the item under the new epoch.
func (s *Service) write(ctx context.Context, f fenced, st Stock, b itemBooks) error {
	item, epoch, old := st.item(), f.epoch, f.old[st.Key]
	var committed int64
	marks := make(map[int64]mark)
	for _, c := range b.closed {
		if b.shardOf(c.User).Key == st.Key {
			marks[c.User] = mark{no: c.No, closed: true}
		}
	}
	for _, h := range b.live { // after the closed ones: a hold replaces a closed mark
		if b.shardOf(h.User).Key != st.Key {
			continue
		}
		marks[h.User] = mark{no: h.No, quantity: h.Quantity, paid: h.Paid}
		if h.Paid {
			committed += int64(h.Quantity)
		}
	}
	size, err := s.writeHolders(ctx, item, epoch, marks, b.recent)
	if err != nil {
		return err
	}
	if item.PerActivity {
		if err := s.writeBuyers(ctx, item, marks); err != nil {
			return err
		}
	}
	if err := s.reached("written"); err != nil {
		return err
	}
	for range epochTurns {
		keys := append([]string{item.stateKey()}, item.epochKeys(epoch)...)
		if old > 0 {
			keys = append(keys, item.epochKeys(old)...)
		}
		r, err := loadScript.run(ctx, s.deps.Redis, 3, keys, epoch, old, st.Rev, st.offered(), st.Available, committed,
			st.OpensAt.UnixMilli(), st.ClosesAt.UnixMilli(), st.UserLimit, flag(st.Paused), flag(st.Unlimited), flag(st.Rebuy),
			f.run[st.Key], size.users, size.holds, size.tombstones)
		if err != nil {
			return err
		}
		switch r.int(0) {
		case loadDone:
			s.epochs.Store(item, epoch)
			return nil
		case loadRefused:
			return fmt.Errorf("inventory: load item %d: epoch %d was overtaken by %d: %w", item.ID, epoch, r.int(1), ErrBusy)
		case loadLost:
			return fmt.Errorf("inventory: load item %d: %w", item.ID, errKeysLost)
		default:
			old = r.int(1)
		}
	}
	return fmt.Errorf("inventory: load item %d: its state keeps changing: %w", item.ID, ErrBusy)
}

// The codes of load.lua that write distinguishes.
const (
	loadDone    = 0
	loadRefused = 1
	loadLost    = 3
)

// sizes are how many entries an epoch's keys have, including the weight.
type sizes struct{ users, holds, tombstones int }

// writeHolders writes the holders, the users who may not buy again, and the
// numbers that have ended, and returns how large the keys must be then. All live
// orders have rows, so there are no open holds.
func (s *Service) writeHolders(ctx context.Context, item Item, epoch int64, marks map[int64]mark, recent []Tombstone) (sizes, error) {
	users := make([]any, 0, 2+2*len(marks))
	users = append(users, weightField, weight)
	for user, m := range marks {
		users = append(users, user, m.String())
	}
	size := sizes{users: len(marks) + 1, holds: 1}
	if len(recent) > 0 {
		numbers := make(map[ids.ID]struct{}, len(recent))
		for _, g := range recent {
			numbers[g.No] = struct{}{}
		}
		size.tombstones = len(numbers) + 1
	}
	_, err := s.deps.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Unlink(ctx, item.epochKeys(epoch)...)
		hset(ctx, p, item.usersKey(epoch), users)
		p.HSet(ctx, item.holdsKey(epoch), weightField, weight)
		if len(recent) > 0 {
			p.ZAdd(ctx, item.tombstonesKey(epoch), redis.Z{Score: math.Inf(1), Member: weight})
		}
		for rest := recent; len(rest) > 0; {
			chunk := rest[:min(len(rest), scanCount)]
			rest = rest[len(chunk):]
			members := make([]redis.Z, len(chunk))
			for i, g := range chunk {
				members[i] = redis.Z{Score: float64(g.Until.UnixMilli()), Member: g.No.String()}
			}
			p.ZAdd(ctx, item.tombstonesKey(epoch), members...)
		}
		return nil
	})
	if err != nil {
		return sizes{}, fmt.Errorf("inventory: write holders of item %d: %w", item.ID, err)
	}
	return size, nil
}

// writeBuyers replaces this item's entries among the activity's buyers. Entries
// of holders are written before the others are removed: the activity's other
// items are on sale meanwhile and must not let a holder through.
func (s *Service) writeBuyers(ctx context.Context, item Item, marks map[int64]mark) error {
	buyers := make([]any, 0, 2+2*len(marks))
	buyers = append(buyers, weightField, weight)
	for user, m := range marks {
		buyers = append(buyers, user, m.buyer(item.ID))
	}
	_, err := s.deps.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		hset(ctx, p, item.buyersKey(), buyers)
		return nil
	})
	if err != nil {
		return fmt.Errorf("inventory: write buyers of item %d: %w", item.ID, err)
	}
	return s.removeBuyers(ctx, item, func(user int64, no ids.ID) bool {
		m, ok := marks[user]
		return !ok || m.no != no
	})
}

// removeBuyers removes the item's entries for which isStale returns true.
func (s *Service) removeBuyers(ctx context.Context, item Item, isStale func(user int64, no ids.ID) bool) error {
	var stale []string
	err := s.scan(ctx, item.buyersKey(), func(field, value string) (bool, error) {
		no, _, ours, err := parseBuyer(value, item.ID)
		if err != nil || !ours {
			return true, err
		}
		user, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return false, fmt.Errorf("inventory: buyer %q of activity %d: %w", field, item.ActivityID, err)
		}
		if isStale(user, no) {
			stale = append(stale, field)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for len(stale) > 0 {
		chunk := stale[:min(len(stale), scanCount)]
		stale = stale[len(chunk):]
		if err := s.deps.Redis.HDel(ctx, item.buyersKey(), chunk...).Err(); err != nil {
			return fmt.Errorf("inventory: remove buyers of item %d: %w", item.ID, err)
		}
	}
	return nil
}

// hset writes fields and values in chunks that each block Redis only for a
// moment.
func hset(ctx context.Context, p redis.Pipeliner, key string, pairs []any) {
	for len(pairs) > 0 {
		chunk := pairs[:min(len(pairs), 2*scanCount)]
		pairs = pairs[len(chunk):]
		p.HSet(ctx, key, chunk...)
	}
}

// Forget removes an item's keys from Redis after Delete. Ended items are
// removed by Settle. An item that is still in Postgres answers Fenced
// afterwards.
func (s *Service) Forget(ctx context.Context, item Item) error {
	st, ok, err := s.State(ctx, item)
	if err != nil {
		return err
	}
	keys := []string{item.stateKey()}
	if ok {
		keys = append(keys, item.epochKeys(st.Epoch)...)
	}
	if err := s.deps.Redis.Unlink(ctx, keys...).Err(); err != nil {
		return fmt.Errorf("inventory: forget item %d: %w", item.ID, err)
	}
	s.epochs.Delete(item)
	if item.PerActivity {
		return s.removeBuyers(ctx, item, func(int64, ids.ID) bool { return true })
	}
	return nil
}
