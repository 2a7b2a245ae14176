package load

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"stampede/inventory/decide"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// otherRun is the run id of a Redis that no longer exists.
const otherRun = "0123456789abcdef0123456789abcdef01234567"

// model runs the scripts on a real Redis beside the spec.
type model struct {
	*Service
	t testing.TB
	spec
	run string // of the real Redis
	now int64  // about the start of the test, Unix ms

	numbers  map[int64]map[int64][]ids.ID // item → user → the numbers of their paths
	quantity map[ids.ID]int32
	within   map[ids.ID]int32 // the shorter payment windows, 0 for most
	revs     int64            // the latest change of any item
}

// specUsers are few enough to collide and enough to buy everything.
const specUsers = 10

func newModel(tt testing.TB, service *Service, t *rapid.T) *model {
	tt.Helper()
	ctx := tt.Context()
	require.NoError(t, service.Redis.FlushDB(ctx).Err())
	s := &model{
		Service: service, t: tt, spec: spec{buyers: map[int64]specBuyer{}}, now: time.Now().UnixMilli(), revs: 1,
		numbers: map[int64]map[int64][]ids.ID{}, quantity: map[ids.ID]int32{}, within: map[ids.ID]int32{},
	}
	// Two items share the buyers of activity 7; the third is alone.
	for id := int64(1); id <= 3; id++ {
		s.items = append(s.items, &specItem{item: stock.Item{ID: id, ActivityID: 7, PerActivity: id < 3}})
		s.numbers[id] = map[int64][]ids.ID{}
		for user := int64(1); user <= specUsers; user++ {
			for range 3 {
				no := ids.NewFor(user)
				s.numbers[id][user] = append(s.numbers[id][user], no)
				s.quantity[no] = rapid.SampledFrom([]int32{1, 2, 2, 3}).Draw(t, "quantity")
				s.within[no] = rapid.SampledFrom([]int32{0, 0, 1, 65535}).Draw(t, "to pay within")
			}
		}
	}
	s.run = service.Redis.(*redis.Client).InfoMap(ctx, "server").Item("Server", "run_id")
	for _, it := range s.items {
		s.loadNext(t, it)
	}
	return s
}

func (s *model) pick(t *rapid.T) *specItem {
	return s.items[rapid.IntRange(0, len(s.items)-1).Draw(t, "item")]
}

// number is one of the user's numbers for the item.
func (s *model) number(t *rapid.T, it *specItem, user int64) ids.ID {
	nos := s.numbers[it.item.ID][user]
	return nos[rapid.IntRange(0, len(nos)-1).Draw(t, "number")]
}

func (s *model) attempt(t *rapid.T, it *specItem) decide.Attempt {
	user := rapid.Int64Range(1, specUsers).Draw(t, "user")
	no := s.number(t, it, user)
	return decide.Attempt{User: user, No: no, Quantity: s.quantity[no], PayWithin: s.within[no]}
}

func (s *model) attempts(t *rapid.T, it *specItem) []decide.Attempt {
	list := make([]decide.Attempt, rapid.IntRange(1, 10).Draw(t, "batch"))
	for i := range list {
		list[i] = s.attempt(t, it)
	}
	return list
}

// ended draws numbers as events name them: about half of them hold units or did, so that many are released, paid and
// written twice.
func (s *model) ended(t *rapid.T, it *specItem) []decide.Attempt {
	list, users := s.attempts(t, it), slices.Sorted(maps.Keys(it.users))
	for i := range list {
		if len(users) > 0 && rapid.Bool().Draw(t, "held") {
			user := rapid.SampledFrom(users).Draw(t, "holder")
			list[i].User, list[i].No = user, it.users[user].No
		}
	}
	return list
}

// epochFor is the epoch that a caller passes: mostly the item's.
func (s *model) epochFor(t *rapid.T, it *specItem) int64 {
	return it.epoch + rapid.SampledFrom([]int64{0, 0, 0, 0, 0, 0, -1, 1}).Draw(t, "off by")
}

// must compares a script's leading figures with the spec's.
func (s *model) must(t *rapid.T, what string, want []int64, r lua.Reply, err error) {
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	got := make([]int64, len(want))
	for i := range want {
		got[i] = r.Int(i)
	}
	if !slices.Equal(want, got) {
		t.Fatalf("%s answers %v, want %v", what, got, want)
	}
}

func (s *model) reserve(t *rapid.T) {
	it := s.pick(t)
	list, epoch := s.attempts(t, it), s.epochFor(t, it)
	var got decide.Decision
	require.NoError(t, s.Service.decide.Reserve(s.t.Context(), it.item, epoch, list, &got))
	want := s.spec.reserve(it, epoch, list)
	if want.Gate == decide.NotStarted && (got.OpensIn <= 0 || got.OpensIn > time.Hour) {
		t.Fatalf("opens in %v, want within the hour", got.OpensIn)
	}
	got.OpensIn = 0
	if len(got.Results) == 0 {
		got.Results = nil
	}
	require.Equal(t, fmt.Sprintf("reserve of %v", list), got, want)
}

func (s *model) persist(t *rapid.T) {
	it := s.pick(t)
	epoch := s.epochFor(t, it)
	var nos []ids.ID
	args := []any{epoch}
	for _, a := range s.ended(t, it) {
		nos, args = append(nos, a.No), append(args, a.No.String())
	}
	got, err := lua.Persist.Run(s.t.Context(), s.Redis, []string{it.item.StateKey(), it.item.HoldsKey(it.epoch)}, args...).Int64()
	require.Equal(t, "persist", fmt.Sprint(got, err), fmt.Sprint(it.persist(epoch, nos), nil))
}

// args are the arguments of release.lua and commit.lua for numbers.
func (s *model) args(first []any, list []decide.Attempt) []any {
	for _, a := range list {
		first = append(first, a.User)
	}
	for _, a := range list {
		first = append(first, a.No.String())
	}
	return first
}

func (s *model) release(t *rapid.T) {
	it := s.pick(t)
	list, epoch := s.ended(t, it), s.epochFor(t, it)
	status := rapid.SampledFrom([]string{orderevent.StatusClosed, orderevent.StatusClosed, orderevent.StatusRefused, orderevent.StatusRefunded}).Draw(t, "status")
	ttl, will := time.Hour, remembered
	if rapid.Bool().Draw(t, "forgettable") {
		ttl, will = -time.Second, forgettable
	}
	keys := append([]string{it.item.StateKey()}, it.item.EpochKeys(epoch)...)
	if it.item.PerActivity {
		keys = append(keys, it.item.BuyersKey())
	}
	args := append(s.args([]any{epoch, ttl.Milliseconds(), len(list)}, list), stock.Weight, status)
	r, err := lua.Release.Call(s.t.Context(), s.Redis, 4, keys, args...)
	s.must(t, "release", s.spec.release(it, epoch, list, status, will), r, err)
}

// retake draws numbers that the backup pays for, mostly of users who hold nothing or whose closing is not released
// yet. Quantities are those of their marks.
func (s *model) retake(t *rapid.T) {
	it := s.pick(t)
	list, epoch := s.attempts(t, it), s.epochFor(t, it)
	if rapid.Bool().Draw(t, "with unreleased ones") {
		list = s.ended(t, it)
		for i := range list {
			list[i].Quantity = s.quantity[list[i].No]
		}
	}
	keys := append([]string{it.item.StateKey()}, it.item.EpochKeys(epoch)...)
	if it.item.PerActivity {
		keys = append(keys, it.item.BuyersKey())
	}
	args := s.args([]any{epoch, it.item.ID, stock.Weight, len(list)}, list)
	for _, a := range list {
		args = append(args, a.Quantity)
	}
	r, err := lua.Retake.Call(s.t.Context(), s.Redis, 5, keys, args...)
	want := s.spec.retake(it, epoch, list)
	if err == nil && len(r) != len(want) {
		t.Fatalf("retake answers %v, want %v", r, want)
	}
	s.must(t, "retake", want, r, err)
}

func (s *model) commit(t *rapid.T) {
	it := s.pick(t)
	list, epoch := s.ended(t, it), s.epochFor(t, it)
	keys := []string{it.item.StateKey(), it.item.UsersKey(epoch)}
	r, err := lua.Commit.Call(s.t.Context(), s.Redis, 3, keys, s.args([]any{epoch, len(list)}, list)...)
	s.must(t, "commit", it.commit(epoch, list), r, err)
}

// withdraw draws an operator's move to the backup, of the state's revision or not, with a plan that differs from the
// state's or not, as after a rollback.
func (s *model) withdraw(t *rapid.T) {
	it := s.pick(t)
	rev := it.rev + rapid.SampledFrom([]int64{0, 0, 0, 0, -1, 1}).Draw(t, "off by")
	plan := it.total - it.retaken + rapid.Int64Range(0, 3).Draw(t, "withdrawn before")
	units := rapid.Int64Range(0, 4).Draw(t, "units")
	r, err := lua.Withdraw.Call(s.t.Context(), s.Redis, 2, []string{it.item.StateKey()}, rev, plan, units)
	s.must(t, "withdraw", it.withdraw(rev, plan, units), r, err)
}

// hold queries every user.
func (s *model) hold(t *rapid.T) {
	it := s.pick(t)
	epoch := s.epochFor(t, it)
	keys := []string{it.item.StateKey(), it.item.UsersKey(epoch), it.item.HoldsKey(epoch)}
	for user := int64(1); user <= specUsers; user++ {
		r, err := lua.Hold.Call(s.t.Context(), s.Redis, 3, keys, epoch, user, stock.WeightField)
		figures, text, seq := it.hold(epoch, user)
		s.must(t, "hold", figures[:], r, err)
		if r[3] != text || r.Int(4) != seq {
			t.Fatalf("hold of user %d answers %v, %v, want %q, %d", user, r[3], r[4], text, seq)
		}
	}
}

// drawChange draws an operator's change; its revision is any past or next one, so that changes arrive late, twice and
// in any order.
func (s *model) drawChange(t *rapid.T) specChange {
	return specChange{
		rev: rapid.Int64Range(1, s.revs+1).Draw(t, "rev"), total: rapid.Int64Range(0, 12).Draw(t, "total"),
		limit: rapid.SampledFrom([]int64{1, 2, 3, 3}).Draw(t, "limit"), window: rapid.SampledFrom([]window{during, during, during, during, during, during, before, after}).Draw(t, "window"),
		paused: rapid.IntRange(0, 7).Draw(t, "paused") == 0, rebuy: rapid.Bool().Draw(t, "rebuy"),
	}
}

func (s *model) change(t *rapid.T) {
	it, c := s.pick(t), s.drawChange(t)
	s.revs = max(s.revs, c.rev)
	opens, closes := c.window.bounds(s.now)
	r, err := lua.Change.Call(s.t.Context(), s.Redis, 4, []string{it.item.StateKey()},
		c.rev, c.total, opens, closes, c.limit, lua.Flag(c.paused), lua.Flag(c.rebuy))
	s.must(t, "change", it.change(c), r, err)
}

func (s *model) fence(t *rapid.T) {
	it := s.pick(t)
	s.fenceFor(t, it, max(1, it.epoch+rapid.SampledFrom([]int64{-1, 0, 0, 0, 1, 3}).Draw(t, "epoch to come")))
}

func (s *model) fenceFor(t *rapid.T, it *specItem, epoch int64) {
	r, err := lua.Fence.Call(s.t.Context(), s.Redis, 4, []string{it.item.StateKey()}, epoch)
	had := ""
	if it.loaded && it.here {
		had = s.run
	} else if it.loaded {
		had = otherRun
	}
	want := it.fence(epoch)
	s.must(t, "fence", want, r, err)
	if want[0] != fenceRefused && (r[4] != had || r[5] != s.run) {
		t.Fatalf("fence returns the runs %v and %v, want %q and %q", r[4], r[5], had, s.run)
	}
}

// restart is another Redis with the same data: a restart, or a failover.
func (s *model) restart(t *rapid.T) {
	it := s.pick(t)
	if !it.loaded || rapid.IntRange(0, 2).Draw(t, "really") > 0 {
		t.Skip("nothing is loaded, or no restart drawn")
	}
	require.NoError(t, s.Redis.HSet(s.t.Context(), it.item.StateKey(), "run_id", otherRun).Err())
	it.here = false
}

// loseKey deletes one of an item's keys and leaves its state.
func (s *model) loseKey(t *rapid.T) {
	it := s.pick(t)
	if !it.loaded || rapid.IntRange(0, 2).Draw(t, "really") > 0 {
		t.Skip("nothing is loaded, or no loss drawn")
	}
	key := it.item.UsersKey(it.epoch)
	switch rapid.IntRange(0, 2).Draw(t, "which") {
	case 0:
		it.users, it.noUsers = map[int64]stock.Mark{}, true
	case 1:
		key = it.item.HoldsKey(it.epoch)
		it.holds, it.noHolds = map[ids.ID]specHold{}, true
	default:
		key = it.item.BuyersKey()
		if it.item.PerActivity {
			s.buyers, s.noBuyers = map[int64]specBuyer{}, true
		}
	}
	require.NoError(t, s.Redis.Unlink(s.t.Context(), key).Err())
}

// lose deletes the data and leaves the server.
func (s *model) lose(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		t.Skip("data is rarely lost")
	}
	require.NoError(t, s.Redis.FlushDB(s.t.Context()).Err())
	s.buyers, s.noBuyers = map[int64]specBuyer{}, true
	for _, it := range s.items {
		it.forget()
	}
}

// TestScriptsFollowTheirSpec runs every script of inventory/lua against the spec in spec_test.go, with any
// arguments that its header allows, and after each step compares the answer and every key in Redis: batches with
// repeated users and numbers, quantities, payment windows, limits, unlimited items, two items that share an
// activity's buyers and one that does not, windows and pauses, revisions out of order, totals that rise and fall,
// releases and commits before a reserve, twice and after each other, with rebuy on and off, numbers taken up again
// before and after their release, twice and after a refund, tombstones and their expiry, persists before and after
// releases, callers of an older and a later epoch, fences for any epoch, Loads that succeed, are overtaken, lose
// their keys or meet another Redis, settlements that come too early, after an outdated read and in time, restarts,
// lost data and single lost keys.
func TestScriptsFollowTheirSpec(t *testing.T) {
	t.Parallel()
	store := stock.NewStore(stock.DefaultConfig(), stock.Deps{Redis: pgtest.Redis(t)})
	service := &Service{Store: store, decide: decide.New(store)}
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		s := newModel(outer, service, t)
		t.Repeat(maps.Clone(map[string]func(*rapid.T){
			"": s.check, "reserve": s.reserve, "reserve again": s.reserve, "and again": s.reserve, "reserve still": s.reserve, "persist": s.persist,
			"release": s.release, "release more": s.release, "commit": s.commit, "commit more": s.commit, "withdraw": s.withdraw, "retake": s.retake, "retake more": s.retake, "hold": s.hold, "state": s.readState,
			"change": s.change, "fence": s.fence, "load": s.load, "load what is fenced": s.loadFenced, "open again": s.loadFenced, "settle": s.settle, "settle again": s.settle, "restart": s.restart, "lose": s.lose, "lose a key": s.loseKey,
		}))
	})
}

// check compares every key in Redis with the spec's.
func (s *model) check(t *rapid.T) {
	ctx := s.t.Context()
	known := map[string]bool{s.items[0].item.BuyersKey(): true}
	for _, it := range s.items {
		if !it.loaded {
			continue
		}
		known[it.item.StateKey()] = true
		for _, key := range it.item.EpochKeys(it.epoch) {
			known[key] = true
		}
		holds := map[string]string{}
		for no, h := range it.holds {
			holds[no.String()] = fmt.Sprint(h)
		}
		users, gone := map[string]string{}, map[string]bool{} // gone: whether for good
		for user, m := range it.users {
			users[strconv.FormatInt(user, 10)] = m.String()
		}
		for no, is := range it.gone {
			gone[no.String()] = is == takenUp
		}
		s.same(t, it, "state", it.state(s.run, s.now), s.Redis.HGetAll(ctx, it.item.StateKey()).Val())
		s.same(t, it, "users", users, s.hash(t, it.item.UsersKey(it.epoch), !it.noUsers))
		got := s.hash(t, it.item.HoldsKey(it.epoch), !it.noHolds)
		for no, value := range got {
			h, err := stock.ParseHold(it.epoch, no, value)
			if err != nil || h.At.Before(time.UnixMilli(s.now).Add(-time.Minute)) || h.At.After(time.UnixMilli(s.now).Add(10*time.Minute)) {
				t.Fatalf("hold %s: %v", value, err)
			}
			got[no] = fmt.Sprint(specHold{user: h.User, quantity: h.Quantity, seq: h.Seq, within: h.PayWithin})
		}
		s.same(t, it, "holds", holds, got)
		tombs := map[string]bool{}
		for _, z := range s.Redis.ZRangeWithScores(ctx, it.item.TombstonesKey(it.epoch), 0, -1).Val() {
			tombs[fmt.Sprint(z.Member)] = math.IsInf(z.Score, 1)
		}
		if len(tombs) > 0 && !tombs[stock.Weight] {
			t.Fatalf("item %d: its tombstones may be packed", it.item.ID)
		}
		delete(tombs, stock.Weight)
		s.same(t, it, "gone", gone, tombs)
	}
	buyers := map[string]string{}
	for user, b := range s.buyers {
		buyers[strconv.FormatInt(user, 10)] = stock.Mark{No: b.no, Closed: b.closed}.Buyer(b.item)
	}
	s.same(t, s.items[0], "buyers", buyers, s.hash(t, s.items[0].item.BuyersKey(), false))
	for _, key := range s.Redis.Keys(ctx, "*").Val() {
		require.Equal(t, key+" is known", known[key], true)
	}
}

// hash reads a hash without its weight field, which must be there if weighted.
func (s *model) hash(t *rapid.T, key string, weighted bool) map[string]string {
	all := s.Redis.HGetAll(s.t.Context(), key).Val()
	if _, ok := all[stock.WeightField]; weighted && !ok {
		t.Fatalf("%s may be packed", key)
	}
	delete(all, stock.WeightField)
	return all
}

func (s *model) same(t *rapid.T, it *specItem, what string, want, got any) {
	require.Equal(t, fmt.Sprintf("item %d, %s", it.item.ID, what), got, want)
}
