package inventory

import (
	"context"
	"fmt"
	"strconv"

	"stampede/platform/base/ids"
)

// write brings one stock row's part of Redis to what the books say: first the
// keys that the state will name, then the state, which opens the item under the
// new epoch and only if it is a higher one. With a state in Redis the keys are
// those of its epoch, changed in place where they differ and renamed at the end,
// so that a Load needs no second copy of its item. The fence keeps them from
// being read meanwhile; a Load that ends half way leaves them to the next one,
// which compares again.
func (s *Service) write(ctx context.Context, f fenced, st Stock, b itemBooks) error {
	item, old := st.item(), f.old[st.Key]
	var committed int64
	want := make(map[int64]wanted)
	for _, c := range b.closed {
		if b.shardOf(c.User).Key == st.Key {
			want[c.User] = wanted{mark: mark{no: c.No, closed: true}}
		}
	}
	for _, h := range b.live { // after the closed ones: a hold replaces a closed mark
		if b.shardOf(h.User).Key != st.Key {
			continue
		}
		want[h.User] = wanted{mark: mark{no: h.No, quantity: h.Quantity, paid: h.Paid}}
		if h.Paid {
			committed += int64(h.Quantity)
		}
	}
	w := loadWriter{s, item, f.epoch, old}
	tombstones, err := w.writeHolders(ctx, want, b.recent)
	if err != nil {
		return err
	}
	if item.PerActivity {
		if err := w.writeBuyers(ctx, want); err != nil {
			return err
		}
	}
	if err := s.reached("written"); err != nil {
		return err
	}
	r, err := w.open(ctx, st.Rev, st.offered(), st.Available, committed,
		st.OpensAt.UnixMilli(), st.ClosesAt.UnixMilli(), st.UserLimit, flag(st.Paused), flag(st.Unlimited), flag(st.Rebuy),
		f.run[st.Key], len(want)+1, tombstones)
	if err := w.ended(r, err); err != nil {
		return err
	}
	s.epochs.Store(item, f.epoch)
	return nil
}

// The codes of patch.lua and load.lua.
const (
	loadDone    = 0
	loadRefused = 1
	loadLost    = 3
)

// wanted is a mark that the books ask for; there is set while Redis is known to
// have it.
type wanted struct {
	mark
	there bool
}

// loadWriter writes the keys of one stock counter for a Load.
type loadWriter struct {
	*Service
	item       Item
	epoch, old int64 // the one to be written, and the one to be replaced or 0
}

// open runs load.lua; figures are its arguments from rev on.
func (w loadWriter) open(ctx context.Context, figures ...any) (reply, error) {
	keys := append([]string{w.item.stateKey()}, w.item.epochKeys(w.epoch)...)
	if w.old > 0 {
		keys = append(keys, w.item.epochKeys(w.old)...)
	}
	args := append([]any{w.epoch, w.old}, figures...)
	return loadScript.run(ctx, w.deps.Redis, 3, keys, append(args, weightField, weight)...)
}

// at is the epoch in whose keys the Load works.
func (w loadWriter) at() int64 {
	if w.old > 0 {
		return w.old
	}
	return w.epoch
}

// do runs one command on a key, unless a later Load has fenced the item. Without
// a state only this Load knows the keys, and a plain command takes Redis half the
// time.
func (w loadWriter) do(ctx context.Context, command, key string, args ...any) error {
	if w.old == 0 {
		if err := w.deps.Redis.Do(ctx, append([]any{command, key}, args...)...).Err(); err != nil {
			return fmt.Errorf("inventory: load item %d: write %s: %w", w.item.ID, key, err)
		}
		return nil
	}
	r, err := patchScript.run(ctx, w.deps.Redis, 2, []string{w.item.stateKey(), key}, append([]any{w.epoch, w.old, command}, args...)...)
	return w.ended(r, err)
}

// ended returns why a script refused to go on with the Load; nil if it did.
func (w loadWriter) ended(r reply, err error) error {
	switch {
	case err != nil:
		return err
	case r.int(0) == loadRefused:
		return fmt.Errorf("inventory: load item %d: epoch %d was overtaken by %d: %w", w.item.ID, w.epoch, r.int(1), ErrBusy)
	case r.int(0) == loadLost:
		return fmt.Errorf("inventory: load item %d: %w", w.item.ID, errKeysLost)
	default:
		return nil
	}
}

// writeHolders writes the holders, the users who may not buy again, and the
// numbers that have ended, and returns how many entries the last key must have
// then. All live orders have rows, so there are no open holds. What is replaced
// is freed first.
func (w loadWriter) writeHolders(ctx context.Context, want map[int64]wanted, recent []Tombstone) (tombstones int, err error) {
	gone := w.item.tombstonesKey(w.at())
	if err := w.do(ctx, "UNLINK", gone); err != nil {
		return 0, err
	}
	every := func(string) (bool, error) { return true, nil }
	if err := w.patch(ctx, w.item.usersKey(w.at()), want, mark.String, every); err != nil {
		return 0, err
	}
	if len(recent) == 0 {
		return 0, nil
	}
	if err := w.do(ctx, "ZADD", gone, "inf", weight); err != nil {
		return 0, err
	}
	numbers := make(map[ids.ID]struct{}, len(recent))
	members := w.chunked("ZADD", gone)
	for _, g := range recent {
		numbers[g.No] = struct{}{}
		if err := members.add(ctx, g.Until.UnixMilli(), g.No.String()); err != nil {
			return 0, err
		}
	}
	return len(numbers) + 1, members.flush(ctx)
}

// writeBuyers brings this item's entries among the activity's buyers to what the
// books say.
func (w loadWriter) writeBuyers(ctx context.Context, want map[int64]wanted) error {
	entry := func(m mark) string { return m.buyer(w.item.ID) }
	return w.patch(ctx, w.item.buyersKey(), want, entry, func(value string) (bool, error) {
		_, _, ours, err := parseBuyer(value, w.item.ID)
		return ours, err
	})
}

// patch changes a hash of users so that it has the wanted entries, as text
// returns them, and no other one of those for which ours returns true. It reads
// and writes in chunks.
func (w loadWriter) patch(ctx context.Context, key string, want map[int64]wanted, text func(mark) string, ours func(value string) (bool, error)) error {
	stale, changed := w.chunked("HDEL", key), w.chunked("HSET", key)
	err := w.scan(ctx, key, func(field, value string) (bool, error) {
		if mine, err := ours(value); err != nil || !mine {
			return true, err
		}
		user, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return false, fmt.Errorf("inventory: user %q of %s: %w", field, key, err)
		}
		m, ok := want[user]
		if !ok {
			return true, stale.add(ctx, field)
		}
		m.there = text(m.mark) == value
		want[user] = m
		return true, nil
	})
	if err != nil {
		return err
	}
	if err := stale.flush(ctx); err != nil {
		return err
	}
	if err := changed.add(ctx, weightField, weight); err != nil {
		return err
	}
	for user, m := range want {
		if m.there {
			m.there = false // for the next hash
			want[user] = m
			continue
		}
		if err := changed.add(ctx, user, text(m.mark)); err != nil {
			return err
		}
	}
	return changed.flush(ctx)
}

// chunks are the arguments of many equal commands on a key; a command is run as
// soon as it has enough of them, so that neither Redis nor this process holds
// more than one chunk.
type chunks struct {
	w            loadWriter
	command, key string
	args         []any
}

func (w loadWriter) chunked(command, key string) *chunks {
	return &chunks{w: w, command: command, key: key, args: make([]any, 0, 2*scanCount)}
}

// add adds one entry, whose parts stay together.
func (c *chunks) add(ctx context.Context, parts ...any) error {
	c.args = append(c.args, parts...)
	if len(c.args) < 2*scanCount {
		return nil
	}
	return c.flush(ctx)
}

func (c *chunks) flush(ctx context.Context) error {
	if len(c.args) == 0 {
		return nil
	}
	err := c.w.do(ctx, c.command, c.key, c.args...)
	c.args = c.args[:0]
	return err
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
		return s.removeBuyers(ctx, item)
	}
	return nil
}
