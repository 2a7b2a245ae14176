package books

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"stampede/inventory/decide"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// endedAtMost bounds the numbers that one step reads of those that ended during a read of the holders. It is more
// than Redis releases in a millisecond, the unit of the order in which they are read.
const endedAtMost = 4 * decide.MaxBatch

// ShardCut is one stock counter in Redis, at the moment of its state.
type ShardCut struct {
	item   stock.Item
	Loaded bool // the state decides; the other fields are empty without one
	State  stock.State
	before stock.State          // before the holders were read
	users  map[int64]stock.Mark // the holders
	closed map[int64]ids.ID     // users whose mark is not a hold: they may not buy again
	holds  map[ids.ID]stock.StaleHold
	buyers map[int64]ids.ID // this item's holders; only with one item per activity
	// closedMeanwhile counts such users whose mark was a hold, or not there yet, when the cursor passed.
	closedMeanwhile int64
	// unnamed are units that were granted during the read, behind the cursor: it is known how many marks there are,
	// but not whose. Their orders are newer than what was read in Postgres.
	unnamed int64
}

// readShard reads a counter's marks and holds by cursor, so that no step is longer the more holders there are, and
// then brings them to the moment of the state that it reads last. What moved during the read is known from Redis:
// ended numbers are tombstones, grants without an order are holds, and the number of marks says how many more grants
// there were.
func (s *Service) readShard(ctx context.Context, item stock.Item) (ShardCut, error) {
	for range stock.EpochTurns {
		// Reset in each turn: entries read under a replaced epoch must be dropped.
		sh := ShardCut{
			item: item, users: map[int64]stock.Mark{}, closed: map[int64]ids.ID{}, holds: map[ids.ID]stock.StaleHold{}, buyers: map[int64]ids.ID{},
		}
		r, err := lua.State.Call(ctx, s.Redis, 0, []string{item.StateKey()})
		if err != nil {
			return sh, err
		}
		st, ok, err := stock.ReadState(r)
		if err != nil || !ok || !st.Ready() {
			return sh, err
		}
		sh.before = st
		if err := s.readHashes(ctx, &sh); err != nil {
			return sh, err
		}
		ended, fields, err := s.endRead(ctx, &sh, r.Int(stock.StateFigures-1)+stock.TombstoneTTL.Milliseconds())
		if err != nil {
			return sh, err
		}
		if !sh.Loaded {
			continue // a Load intervened
		}
		if err := s.dropEnded(ctx, &sh, ended); err != nil {
			return sh, err
		}
		sh.addGrants(fields)
		return sh, nil
	}
	return ShardCut{}, fmt.Errorf("inventory: item %d is loaded again and again: %w", item.ID, stock.ErrFenced)
}

// readHashes reads the marks, then the grants that wait for their order and may have been made meanwhile.
func (s *Service) readHashes(ctx context.Context, sh *ShardCut) error {
	read := func(key string, add func(field, value string) error) error {
		return s.Scan(ctx, key, func(field, value string) (bool, error) { return true, add(field, value) })
	}
	if err := read(sh.item.UsersKey(sh.before.Epoch), sh.addUser); err != nil {
		return err
	}
	err := s.OpenHolds(ctx, sh.item, sh.before.Epoch, func(h stock.StaleHold) (bool, error) { sh.holds[h.No] = h; return true, nil })
	if err != nil || !sh.item.PerActivity {
		return err
	}
	return read(sh.item.BuyersKey(), sh.addBuyer)
}

// endRead reads the state to which the counter's hashes are brought, together with the number of fields in users. It
// returns the numbers that ended since the read began, whose tombstones have the score since or a higher one.
func (s *Service) endRead(ctx context.Context, sh *ShardCut, since int64) (ended map[ids.ID]bool, fields int64, err error) {
	ended = map[ids.ID]bool{}
	epoch := sh.before.Epoch
	keys := []string{sh.item.StateKey(), sh.item.UsersKey(epoch), sh.item.TombstonesKey(epoch)}
	for {
		r, err := lua.State.Call(ctx, s.Redis, 0, keys, since, endedAtMost)
		if err != nil {
			return nil, 0, err
		}
		st, ok, err := stock.ReadState(r)
		if err != nil || !ok || !st.Ready() || st.Epoch != epoch {
			return nil, 0, err
		}
		if err := lua.State.Check(r, stock.StateFigures+1); err != nil {
			return nil, 0, err
		}
		page := r[stock.StateFigures+1:]
		for i := 0; i+1 < len(page); i += 2 {
			text, _ := page[i].(string)
			no, err := ids.Parse(text)
			if err != nil {
				return nil, 0, fmt.Errorf("inventory: ended number of item %d: %w", sh.item.ID, err)
			}
			ended[no] = true
		}
		if len(page) < 2*endedAtMost {
			sh.Loaded, sh.State = true, st
			return ended, r.Int(stock.StateFigures), nil
		}
		score, _ := page[len(page)-1].(string)
		last, err := strconv.ParseInt(score, 10, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("inventory: time of an ended number of item %d: %w", sh.item.ID, err)
		}
		since = max(last, since+1)
	}
}

// dropEnded removes numbers that ended during the read. Where a user may buy only once, the mark of a closed one
// stays and is not a hold.
func (s *Service) dropEnded(ctx context.Context, sh *ShardCut, ended map[ids.ID]bool) error {
	for user, m := range sh.users {
		if !ended[m.No] {
			continue
		}
		delete(sh.users, user)
		if sh.buyers[user] == m.No {
			delete(sh.buyers, user)
		}
	}
	for no := range ended {
		delete(sh.holds, no)
	}
	if sh.State.Rebuy || len(ended) == 0 {
		return nil
	}
	for _, no := range sh.closed {
		delete(ended, no)
	}
	status, err := s.Deps.Books.Statuses(ctx, slices.Collect(maps.Keys(ended)))
	if err != nil {
		return fmt.Errorf("inventory: read orders of item %d: %w", sh.item.ID, err)
	}
	for _, is := range status {
		if is == orderevent.StatusClosed || is == orderevent.StatusRefunded {
			sh.closedMeanwhile++
		}
	}
	return nil
}

// addGrants adds what was granted during the read and not seen by the cursor. fields is the number of fields in users
// at the moment of the state.
func (sh *ShardCut) addGrants(fields int64) {
	for no, h := range sh.holds {
		if _, marked := sh.users[h.User]; !marked && h.Seq > sh.before.Seq && h.Seq <= sh.State.Seq {
			sh.users[h.User] = stock.Mark{No: no, Quantity: h.Quantity}
		}
	}
	marks := fields - 1 - int64(len(sh.users)+len(sh.closed)) - sh.closedMeanwhile // one field is no user's
	if marks <= 0 {
		return
	}
	// Each has from one to limit units. Where that leaves a choice the counter's own sum decides, which another read
	// examines.
	st := sh.State
	sh.unnamed = min(max(marks, st.Total-st.Remaining-sh.marked()), marks*max(st.Limit, sh.before.Limit))
}

// marked sums the units of the marks.
func (sh *ShardCut) marked() (units int64) {
	for _, m := range sh.users {
		units += int64(m.Quantity)
	}
	return units + sh.unnamed
}

func (sh *ShardCut) addUser(user, value string) error {
	id, err := strconv.ParseInt(user, 10, 64)
	if err != nil {
		return fmt.Errorf("inventory: holder %q of item %d: %w", user, sh.item.ID, err)
	}
	m, err := stock.ParseMark(value)
	if err != nil {
		return err
	}
	// The cursor may pass a user twice, with an order that was closed in between.
	delete(sh.closed, id)
	delete(sh.users, id)
	if m.Closed {
		sh.closed[id] = m.No
	} else {
		sh.users[id] = m
	}
	return nil
}

// addBuyer adds a buyer of the activity if the entry is for this item; the list covers all its items.
func (sh *ShardCut) addBuyer(user, value string) error {
	no, closed, ours, err := stock.ParseBuyer(value, sh.item.ID)
	if err != nil || !ours || closed {
		return err
	}
	id, err := strconv.ParseInt(user, 10, 64)
	if err != nil {
		return fmt.Errorf("inventory: buyer %q of activity %d: %w", user, sh.item.ActivityID, err)
	}
	sh.buyers[id] = no
	return nil
}
