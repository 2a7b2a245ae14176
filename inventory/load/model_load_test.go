package load

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/inventory/decide"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// readState checks state.lua as decoded by the Service.
func (s *model) readState(t *rapid.T) {
	it := s.pick(t)
	got, ok, err := s.State(s.t.Context(), it.item)
	require.Equal(t, "state", fmt.Sprint(ok, err), fmt.Sprint(it.loaded, nil))
	if !ok {
		return
	}
	opens, closes := it.window.bounds(s.now)
	want := stock.State{
		Epoch: it.epoch, Rev: it.rev, Total: it.total, Remaining: it.remaining, Committed: it.committed, Rel: it.rel, Seq: it.seq,
		Persisted: it.persisted, OpensAt: time.UnixMilli(opens).UTC(), ClosesAt: time.UnixMilli(closes).UTC(), Limit: it.limit,
		Paused: it.paused, Unlimited: it.unlimited, Rebuy: it.rebuy, Retaken: it.retaken, Shards: int16(it.shards), Fenced: it.fenced != 0, FencedFor: it.fenced, SameRedis: it.here,
	}
	require.Equal(t, "state", got, want)
}

// books draws who has units of the item according to Postgres: some of those that Redis knows, as if the grants of
// the others had been lost, and some whose orders ended.
func (s *model) books(t *rapid.T, it *specItem) (users map[int64]stock.Mark, gone map[ids.ID]fate) {
	users, gone = map[int64]stock.Mark{}, map[ids.ID]fate{}
	for user := int64(1); user <= specUsers; user++ {
		no := s.number(t, it, user)
		if held, ok := it.users[user]; ok && !held.Closed {
			no = held.No
		}
		switch rapid.IntRange(0, 11).Draw(t, "order") {
		case 0:
			users[user] = stock.Mark{No: no, Quantity: s.quantity[no]}
		case 1:
			users[user] = stock.Mark{No: no, Quantity: s.quantity[no], Paid: true}
		case 2:
			users[user] = stock.Mark{No: no, Closed: true}
			gone[no] = remembered
		case 3:
			gone[no] = remembered
		case 4:
			users[user] = stock.Mark{No: no, Quantity: s.quantity[no], Paid: true}
			gone[no] = takenUp
		case 5:
			gone[no] = takenUp // and refunded since
		}
	}
	return users, gone
}

// loadNext is a Load without interference.
func (s *model) loadNext(t *rapid.T, it *specItem) {
	l := specLoad{epoch: max(it.epoch, it.fenced) + 1, replaced: it.epoch, thisRun: true, whole: true}
	s.fenceFor(t, it, l.epoch)
	s.loadWith(t, it, l)
	require.Equal(t, "here, and fenced, after a Load", fmt.Sprint(it.here, it.fenced), "true 0")
}

// loadFenced completes the Load that has fenced the item.
func (s *model) loadFenced(t *rapid.T) {
	it := s.pick(t)
	for _, it := range s.items[slices.Index(s.items, it):] {
		if !it.loaded || it.fenced != 0 || !it.here {
			s.loadNext(t, it)
			return
		}
	}
	t.Skip("no item needs a Load")
}

// load is a Load of any kind: overtaken by a later one, planned for a state that was replaced since, moved to another
// Redis, or with lost keys.
func (s *model) load(t *rapid.T) {
	it := s.pick(t)
	l := specLoad{epoch: it.epoch + rapid.Int64Range(-1, 3).Draw(t, "epoch"), replaced: it.epoch, thisRun: true, whole: true}
	if l.epoch < 1 {
		t.Skip("epochs begin at 1")
	}
	if rapid.IntRange(0, 3).Draw(t, "fence") > 0 {
		s.fenceFor(t, it, l.epoch)
	}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		l.thisRun = false
	case 1:
		l.whole = false
	case 2:
		l.replaced = max(min(it.epoch, 1), it.epoch-1)
	}
	s.loadWith(t, it, l)
}

// loadWith writes the keys of the new epoch as a Load does, and then runs load.lua.
func (s *model) loadWith(t *rapid.T, it *specItem, l specLoad) {
	ctx, item := s.t.Context(), it.item
	l.with = s.drawChange(t)
	s.revs = max(s.revs, l.with.rev)
	l.unlimited = rapid.IntRange(0, 3).Draw(t, "unlimited") == 0
	l.remaining = rapid.Int64Range(0, 8).Draw(t, "remaining")
	l.shards = rapid.SampledFrom([]int64{1, 4}).Draw(t, "shards")
	l.users, l.gone = s.books(t, it)
	l.retaken = rapid.Int64Range(0, min(3, l.with.total)).Draw(t, "retaken")
	for _, m := range l.users {
		if m.Paid {
			l.committed += int64(m.Quantity)
		}
	}
	tombstones := 0
	if len(l.gone) > 0 {
		tombstones = len(l.gone) + 1
	}
	run := s.run
	if !l.thisRun {
		run = otherRun
	}
	opens, closes := l.with.window.bounds(s.now)
	w := s.newLoadWriter(stock.Row{
		ItemID: item.ID, Shard: item.Shard, ActivityID: item.ActivityID, PerActivity: item.PerActivity, Rev: l.with.rev, Total: int32(l.with.total), Retaken: int32(l.retaken),
		Available: int32(l.remaining), OpensAt: time.UnixMilli(opens), ClosesAt: time.UnixMilli(closes), UserLimit: int32(l.with.limit),
		Paused: l.with.paused, Unlimited: l.unlimited, Rebuy: l.with.rebuy,
	}, int(l.shards), fenced{epoch: l.epoch, old: map[stock.Item]int64{item: l.replaced}, run: map[stock.Item]string{item: run}, alive: func() {}},
		func(each func(int64, stock.Mark) error) error {
			for user, m := range l.users {
				if err := each(user, m); err != nil {
					return err
				}
			}
			return nil
		})
	err := w.begin(ctx)
	for user, m := range l.users {
		if err == nil {
			err = w.mark(ctx, user, m)
		}
	}
	for no, is := range l.gone {
		var until any = time.Now().Add(time.Hour).UnixMilli()
		if is == takenUp {
			until = forGood
		}
		if err == nil {
			err = w.bury(ctx, no, until)
		}
	}
	if err == nil {
		err = w.finish(ctx)
	}
	refused := map[int64]error{loadDone: nil, loadRefused: stock.ErrBusy, loadLost: ErrKeysLost}[it.patch(l)]
	if !errors.Is(err, refused) || err == nil && w.tombstones != tombstones {
		t.Fatalf("wrote %d tombstones, %v, want %d, %v", w.tombstones, err, tombstones, refused)
	}
	if err == nil && item.PerActivity {
		s.loadBuyers(l.users, item.ID)
	}
	w.users, w.tombstones, w.committed = len(l.users)+1, tombstones, l.committed
	if !l.whole {
		w.users++ // as if an entry were lost
	}
	r, err := w.openState(ctx)
	hadState := it.loaded
	answer := it.load(l)
	s.must(t, "load", answer, r, err)
	if answer[0] != loadDone && !hadState { // the next Load starts over with other keys
		s.Redis.Unlink(ctx, item.EpochKeys(w.at())...)
	}
}

// loadBuyers puts an item's users among the activity's buyers.
func (s *model) loadBuyers(users map[int64]stock.Mark, itemID int64) {
	for user, b := range s.buyers {
		if b.item == itemID {
			delete(s.buyers, user)
		}
	}
	s.noBuyers = false
	for user, m := range users {
		s.buyers[user] = specBuyer{no: m.No, item: itemID, closed: m.Closed}
	}
}

// settle removes an item whose sale is over; it is drawn at any time and after any read of the item's state.
func (s *model) settle(t *rapid.T) {
	it := s.pick(t)
	epoch, args := s.epochFor(t, it), []any{"", "", "", ""}
	var seen *specSeen
	if rapid.IntRange(0, 3).Draw(t, "seen") > 0 {
		seen = &specSeen{it.remaining, it.committed, it.rel, it.seq}
		if rapid.Bool().Draw(t, "moved since") {
			// Draws favour low values; the remainder of a wide one does not.
			figures := []*int64{&seen.remaining, &seen.committed, &seen.rel, &seen.seq}
			*figures[rapid.IntRange(0, 1<<20).Draw(t, "what moved")%len(figures)]++
		}
		args = []any{seen.remaining, seen.committed, seen.rel, seen.seq}
	}
	keys := append([]string{it.item.StateKey()}, it.item.EpochKeys(epoch)...)
	r, err := lua.Settle.Call(s.t.Context(), s.Redis, 1, keys, append(append([]any{epoch}, args...), stock.WeightField)...)
	s.must(t, "settle", []int64{it.settle(epoch, seen)}, r, err)
}

// The spec must produce every verdict, or the comparison would prove less than it claims.
func TestSpecReachesEveryVerdict(t *testing.T) {
	t.Parallel()
	one := func(user int64) decide.Attempt { return decide.Attempt{User: user, No: ids.NewFor(user), Quantity: 1} }
	x, y, z := one(1), one(2), one(3)
	two := decide.Attempt{User: 4, No: ids.NewFor(4), Quantity: 2}
	many := decide.Attempt{User: 5, No: ids.NewFor(5), Quantity: 9}
	s := &spec{buyers: map[int64]specBuyer{}}
	it := &specItem{item: stock.Item{ID: 1}}
	it.load(specLoad{
		epoch: 1, remaining: 2, with: specChange{rev: 1, total: 2, limit: 3}, thisRun: true, whole: true,
		users: map[int64]stock.Mark{}, gone: map[ids.ID]fate{},
	})
	verdicts := func(list ...decide.Attempt) string {
		var v []string
		for _, r := range s.reserve(it, 1, list).Results {
			v = append(v, r.Verdict.String())
		}
		return strings.Join(v, " ")
	}
	got := verdicts(x, x, one(1), two, many, y, z)
	require.Equal(t, "verdicts", got, "granted repeated already_bought not_enough over_limit granted all_held")
	it.commit(1, []decide.Attempt{x, y})
	require.Equal(t, "verdicts", verdicts(z), "sold_out")
	s.release(it, 1, []decide.Attempt{y}, orderevent.StatusClosed, remembered)
	require.Equal(t, "verdicts", verdicts(y), "finished")
}
