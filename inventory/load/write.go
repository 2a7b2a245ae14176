package load

import (
	"context"
	"fmt"
	"strconv"

	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/platform/base/bloom"
	"stampede/platform/base/ids"
)

// The codes of patch.lua and load.lua.
const (
	loadDone    = 0
	loadRefused = 1
	loadLost    = 3
)

// sweepAfter is the part of a hash's size by which a Load lets it grow before it looks for what to remove. The rest
// of what a Load may need beyond its item, a fifth, is for buffers and rehashing.
const sweepAfter = 0.1

// loadWriter brings the keys of one stock counter to what the books say, for a Load. First the keys that the state
// will name, then the state, which opens the item under the new epoch and only if it is a higher one. With a state in
// Redis the keys are those of its epoch, changed in place where they differ and renamed at the end, so that a Load
// needs no second copy of its item. The fence keeps them from being read meanwhile; a Load that ends half way leaves
// them to the next one, which compares again.
type loadWriter struct {
	*Service
	stock      stock.Row
	item       stock.Item
	epoch, old int64  // the one to be written, and the one to be replaced or 0
	shards     int    // of the item
	run        string // the run id of the Redis that was fenced
	alive      func() // is called with every chunk
	// books passes every user of this stock counter with a mark by the books.
	books func(each func(user int64, m stock.Mark) error) error

	marks   []userMark // read from the books and not compared yet
	changed *chunks    // fields of users to be written
	buried  *chunks    // members of gone
	// What the keys must have in the end.
	users, tombstones int
	committed, live   int64 // units paid for, and units in all
	size, added       int64 // entries of users in the beginning, and new ones since
	swept             bool  // since it grew
}

type userMark struct{ user, text string }

func (s *Service) newLoadWriter(st stock.Row, shards int, f fenced, books func(each func(user int64, m stock.Mark) error) error) *loadWriter {
	w := &loadWriter{
		Service: s, stock: st, item: st.Item(), shards: shards, epoch: f.epoch, old: f.old[st.Item()], run: f.run[st.Item()], alive: f.alive, books: books,
		marks: make([]userMark, 0, stock.ScanCount),
	}
	w.changed, w.buried = w.chunked("HSET", w.item.UsersKey(w.at())), w.chunked("ZADD", w.item.TombstonesKey(w.at()))
	return w
}

// open is the last step.
func (w *loadWriter) open(ctx context.Context) error {
	if err := w.ended(w.openState(ctx)); err != nil {
		return err
	}
	w.Epochs.Store(w.item, w.epoch)
	w.SeeShards(w.item.ID, w.epoch, int16(w.shards)) //nolint:gosec // at most stock.MostShards
	return nil
}

// openState runs load.lua.
func (w *loadWriter) openState(ctx context.Context) (lua.Reply, error) {
	st := w.stock
	keys := append([]string{w.item.StateKey()}, w.item.EpochKeys(w.epoch)...)
	if w.old > 0 {
		keys = append(keys, w.item.EpochKeys(w.old)...)
	}
	return lua.Load.Call(ctx, w.Redis, 3, keys, w.epoch, w.old, st.Rev, st.Offered(), st.Available, w.committed,
		st.OpensAt.UnixMilli(), st.ClosesAt.UnixMilli(), st.UserLimit, lua.Flag(st.Paused), lua.Flag(st.Unlimited), lua.Flag(st.Rebuy),
		w.run, w.users, w.tombstones, stock.WeightField, stock.Weight, st.Retaken, w.shards)
}

// at is the epoch in whose keys the Load works.
func (w *loadWriter) at() int64 {
	if w.old > 0 {
		return w.old
	}
	return w.epoch
}

// do runs one command on a key, unless a later Load has fenced the item. Without a state only this Load knows the
// keys, and a plain command takes Redis half the time.
func (w *loadWriter) do(ctx context.Context, command, key string, args ...any) error {
	defer w.alive()
	if w.old == 0 {
		if err := w.Redis.Do(ctx, append([]any{command, key}, args...)...).Err(); err != nil {
			return fmt.Errorf("inventory: load item %d: write %s: %w", w.item.ID, key, err)
		}
		return nil
	}
	r, err := lua.Patch.Call(ctx, w.Redis, 2, []string{w.item.StateKey(), key}, append([]any{w.epoch, w.old, command}, args...)...)
	return w.ended(r, err)
}

// ended returns why a script refused to go on with the Load; nil if it did.
func (w *loadWriter) ended(r lua.Reply, err error) error {
	switch {
	case err != nil:
		return err
	case r.Int(0) == loadRefused:
		return overtaken(w.item.ID, w.epoch, r.Int(1))
	case r.Int(0) == loadLost:
		return fmt.Errorf("inventory: load item %d: %w", w.item.ID, ErrKeysLost)
	default:
		return nil
	}
}

// begin frees the tombstones, which finish replaces, and writes the entry of users that is no user.
func (w *loadWriter) begin(ctx context.Context) error {
	if err := w.do(ctx, "UNLINK", w.item.TombstonesKey(w.at())); err != nil {
		return err
	}
	users := w.item.UsersKey(w.at())
	size, err := w.Redis.HLen(ctx, users).Result()
	if err != nil {
		return fmt.Errorf("inventory: count holders of item %d: %w", w.item.ID, err)
	}
	w.size, w.users = size, 1
	return w.do(ctx, "HSET", users, stock.WeightField, stock.Weight)
}

// mark gives a user a mark. Each user has one.
func (w *loadWriter) mark(ctx context.Context, user int64, m stock.Mark) error {
	w.users++
	w.live += int64(m.Quantity)
	if m.Paid {
		w.committed += int64(m.Quantity)
	}
	if w.marks = append(w.marks, userMark{strconv.FormatInt(user, 10), m.String()}); len(w.marks) < stock.ScanCount {
		return nil
	}
	return w.flushMarks(ctx)
}

// flushMarks writes those of the marks that Redis does not have.
func (w *loadWriter) flushMarks(ctx context.Context) error {
	if len(w.marks) == 0 {
		return nil
	}
	there := make([]any, len(w.marks))
	if w.size > 0 {
		var err error
		if there, err = w.values(ctx, w.item.UsersKey(w.at()), w.marks); err != nil {
			return err
		}
	}
	for i, m := range w.marks {
		if there[i] == m.text {
			continue
		}
		if there[i] == nil {
			w.added++
		}
		if err := w.changed.add(ctx, m.user, m.text); err != nil {
			return err
		}
	}
	w.marks = w.marks[:0]
	if !w.swept && float64(w.added) > sweepAfter*float64(w.size) && w.size > 0 {
		return w.sweep(ctx)
	}
	return nil
}

// values reads the users' entries of a hash, nil for a user without one.
func (w *loadWriter) values(ctx context.Context, key string, of []userMark) ([]any, error) {
	fields := make([]string, len(of))
	for i, m := range of {
		fields[i] = m.user
	}
	values, err := w.Redis.HMGet(ctx, key, fields...).Result()
	if err != nil {
		return nil, fmt.Errorf("inventory: load item %d: read %s: %w", w.item.ID, key, err)
	}
	w.alive()
	return values, nil
}

// bury writes the tombstone of a number, until a time in ms or for good.
func (w *loadWriter) bury(ctx context.Context, no ids.ID, until any) error {
	if w.tombstones == 0 {
		w.tombstones++
		if err := w.buried.add(ctx, forGood, stock.Weight); err != nil {
			return err
		}
	}
	w.tombstones++
	return w.buried.add(ctx, until, no.String())
}

// forGood is the score of tombstones that are never forgotten.
const forGood = "inf"

// finish writes what is left, and removes what the books do not have. All live orders have rows, so there are no open
// holds.
func (w *loadWriter) finish(ctx context.Context) error {
	if err := w.flushMarks(ctx); err != nil {
		return err
	}
	if err := w.changed.flush(ctx); err != nil {
		return err
	}
	if err := w.buried.flush(ctx); err != nil {
		return err
	}
	for range sweeps {
		// Every mark of the books is there, so equal numbers prove that there is no other.
		size, err := w.Redis.HLen(ctx, w.item.UsersKey(w.at())).Result()
		if err != nil {
			return fmt.Errorf("inventory: count holders of item %d: %w", w.item.ID, err)
		}
		if size <= int64(w.users) {
			break
		}
		if err := w.sweep(ctx); err != nil {
			return err
		}
	}
	if !w.item.PerActivity {
		return nil
	}
	return w.writeBuyers(ctx)
}

const (
	// sweeps bounds how often finish looks for users whom the books do not have. A sweep of ten million misses one in
	// five hundred; the state is not written while one is left.
	sweeps = 10
	// The filter of a sweep has room for sweepRoom times the users, so that few sweeps miss one, and takes 16 MiB at
	// most, as for sweepMost users.
	sweepRoom, sweepMost = 3, 13_000_000
)

// sweep removes users whom the books do not have, almost all of them: it reads the books into a filter of bounded
// size and then removes who is not in it.
func (w *loadWriter) sweep(ctx context.Context) error {
	w.swept = true
	known := bloom.New(int(min(sweepRoom*max(w.size, int64(w.users)), sweepMost)))
	if err := w.books(func(user int64, _ stock.Mark) error { known.Add(user); return nil }); err != nil {
		return err
	}
	w.alive()
	key := w.item.UsersKey(w.at())
	stale := w.chunked("HDEL", key)
	err := w.ScanChunks(ctx, key, func(ctx context.Context, pairs []string) error {
		w.alive()
		for i := 0; i < len(pairs); i += 2 {
			user, err := strconv.ParseInt(pairs[i], 10, 64)
			if err != nil {
				return fmt.Errorf("inventory: user %q of %s: %w", pairs[i], key, err)
			}
			if known.Has(user) {
				continue
			}
			if err := stale.add(ctx, pairs[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return stale.flush(ctx)
}

// writeBuyers brings this item's entries among the activity's buyers in line with the users, which Redis has by now.
// What is replaced is freed first.
func (w *loadWriter) writeBuyers(ctx context.Context) error {
	users, buyers := w.item.UsersKey(w.at()), w.item.BuyersKey()
	stale, changed := w.chunked("HDEL", buyers), w.chunked("HSET", buyers)
	err := w.ScanChunks(ctx, buyers, func(ctx context.Context, pairs []string) error {
		var ours []userMark
		for i := 0; i < len(pairs); i += 2 {
			if _, _, mine, err := stock.ParseBuyer(pairs[i+1], w.item.ID); err != nil {
				return err
			} else if mine {
				ours = append(ours, userMark{user: pairs[i]})
			}
		}
		if len(ours) == 0 {
			return nil
		}
		marks, err := w.values(ctx, users, ours)
		for i, m := range marks {
			if m == nil && err == nil {
				err = stale.add(ctx, ours[i].user)
			}
		}
		return err
	})
	if err == nil {
		err = stale.flush(ctx)
	}
	if err == nil {
		err = changed.add(ctx, stock.WeightField, stock.Weight)
	}
	if err != nil {
		return err
	}
	err = w.ScanChunks(ctx, users, func(ctx context.Context, pairs []string) error {
		want := make([]userMark, 0, len(pairs)/2)
		for i := 0; i < len(pairs); i += 2 {
			m, err := stock.ParseMark(pairs[i+1])
			if err != nil {
				return err
			}
			want = append(want, userMark{pairs[i], m.Buyer(w.item.ID)})
		}
		entries, err := w.values(ctx, buyers, want)
		for i, entry := range entries {
			if err == nil && entry != want[i].text {
				err = changed.add(ctx, want[i].user, want[i].text)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return changed.flush(ctx)
}

// chunks are the arguments of many equal commands on a key; a command is run as soon as it has enough of them, so
// that neither Redis nor this process holds more than one chunk.
type chunks struct {
	w            *loadWriter
	command, key string
	args         []any
}

func (w *loadWriter) chunked(command, key string) *chunks {
	return &chunks{w: w, command: command, key: key, args: make([]any, 0, 2*stock.ScanCount)}
}

// add adds one entry, whose parts stay together.
func (c *chunks) add(ctx context.Context, parts ...any) error {
	c.args = append(c.args, parts...)
	if len(c.args) < 2*stock.ScanCount {
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
