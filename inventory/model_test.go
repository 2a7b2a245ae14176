package inventory

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// otherRun is the run id of a Redis that no longer exists.
const otherRun = "0123456789abcdef0123456789abcdef01234567"

// model runs the scripts on a real Redis beside the spec.
type model struct {
	*bundle
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

func newModel(b *bundle, t *rapid.T) *model {
	ctx := b.t.Context()
	require.NoError(t, b.rdb.FlushDB(ctx).Err())
	s := &model{
		bundle: b, spec: spec{buyers: map[int64]specBuyer{}}, now: time.Now().UnixMilli(), revs: 1,
		numbers: map[int64]map[int64][]ids.ID{}, quantity: map[ids.ID]int32{}, within: map[ids.ID]int32{},
	}
	// Two items share the buyers of activity 7; the third is alone.
	for id := int64(1); id <= 3; id++ {
		s.items = append(s.items, &specItem{item: Item{ID: id, ActivityID: 7, PerActivity: id < 3}})
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
	info := b.rdb.InfoMap(ctx, "server").Item("Server", "run_id")
	s.run = info
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

func (s *model) attempt(t *rapid.T, it *specItem) Attempt {
	user := rapid.Int64Range(1, specUsers).Draw(t, "user")
	no := s.number(t, it, user)
	return Attempt{User: user, No: no, Quantity: s.quantity[no], PayWithin: s.within[no]}
}

func (s *model) attempts(t *rapid.T, it *specItem) []Attempt {
	list := make([]Attempt, rapid.IntRange(1, 10).Draw(t, "batch"))
	for i := range list {
		list[i] = s.attempt(t, it)
	}
	return list
}

// ended draws numbers as events name them: about half of them hold units or
// did, so that many are released, paid and written twice.
func (s *model) ended(t *rapid.T, it *specItem) []Attempt {
	list, users := s.attempts(t, it), slices.Sorted(maps.Keys(it.users))
	for i := range list {
		if len(users) > 0 && rapid.Bool().Draw(t, "held") {
			user := rapid.SampledFrom(users).Draw(t, "holder")
			list[i].User, list[i].No = user, it.users[user].no
		}
	}
	return list
}

// epochFor is the epoch that a caller passes: mostly the item's.
func (s *model) epochFor(t *rapid.T, it *specItem) int64 {
	return it.epoch + rapid.SampledFrom([]int64{0, 0, 0, 0, 0, 0, -1, 1}).Draw(t, "off by")
}

// must compares a script's leading figures with the spec's.
func (s *model) must(t *rapid.T, what string, want []int64, r reply, err error) {
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	got := make([]int64, len(want))
	for i := range want {
		got[i] = r.int(i)
	}
	if !slices.Equal(want, got) {
		t.Fatalf("%s answers %v, want %v", what, got, want)
	}
}

func (s *model) reserve(t *rapid.T) {
	it := s.pick(t)
	list, epoch := s.attempts(t, it), s.epochFor(t, it)
	got := s.bundle.reserve(it.item, epoch, list...)
	want := s.spec.reserve(it, epoch, list)
	if want.Gate == NotStarted && (got.OpensIn <= 0 || got.OpensIn > time.Hour) {
		t.Fatalf("opens in %v, want within the hour", got.OpensIn)
	}
	got.OpensIn = 0
	if len(got.Results) == 0 {
		got.Results = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("reserve of %v (-want +got):\n%s", list, diff)
	}
}

func (s *model) persist(t *rapid.T) {
	it := s.pick(t)
	epoch := s.epochFor(t, it)
	var nos []ids.ID
	args := []any{epoch}
	for _, a := range s.ended(t, it) {
		nos, args = append(nos, a.No), append(args, a.No.String())
	}
	got, err := persistScript.Run(s.t.Context(), s.rdb, []string{it.item.stateKey(), it.item.holdsKey(it.epoch)}, args...).Int64()
	if want := it.persist(epoch, nos); err != nil || got != want {
		t.Fatalf("persist answers %d, %v, want %d", got, err, want)
	}
}

// args are the arguments of release.lua and commit.lua for numbers.
func (s *model) args(first []any, list []Attempt) []any {
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
	keys := append([]string{it.item.stateKey()}, it.item.epochKeys(epoch)...)
	if it.item.PerActivity {
		keys = append(keys, it.item.buyersKey())
	}
	args := append(s.args([]any{epoch, ttl.Milliseconds(), len(list)}, list), weight, status)
	r, err := releaseScript.run(s.t.Context(), s.rdb, 4, keys, args...)
	s.must(t, "release", s.spec.release(it, epoch, list, status, will), r, err)
}

// retake draws numbers that the backup pays for, mostly of users who hold nothing or
// whose closing is not released yet. Quantities are those of their marks.
func (s *model) retake(t *rapid.T) {
	it := s.pick(t)
	list, epoch := s.attempts(t, it), s.epochFor(t, it)
	if rapid.Bool().Draw(t, "with unreleased ones") {
		list = s.ended(t, it)
		for i := range list {
			list[i].Quantity = s.quantity[list[i].No]
		}
	}
	keys := append([]string{it.item.stateKey()}, it.item.epochKeys(epoch)...)
	if it.item.PerActivity {
		keys = append(keys, it.item.buyersKey())
	}
	args := s.args([]any{epoch, it.item.ID, weight, len(list)}, list)
	for _, a := range list {
		args = append(args, a.Quantity)
	}
	r, err := retakeScript.run(s.t.Context(), s.rdb, retakeFigures, keys, args...)
	want := s.spec.retake(it, epoch, list)
	if err == nil && len(r) != len(want) {
		t.Fatalf("retake answers %v, want %v", r, want)
	}
	s.must(t, "retake", want, r, err)
}

func (s *model) commit(t *rapid.T) {
	it := s.pick(t)
	list, epoch := s.ended(t, it), s.epochFor(t, it)
	keys := []string{it.item.stateKey(), it.item.usersKey(epoch)}
	r, err := commitScript.run(s.t.Context(), s.rdb, 3, keys, s.args([]any{epoch, len(list)}, list)...)
	s.must(t, "commit", it.commit(epoch, list), r, err)
}

// withdraw draws an operator's move to the backup, of the state's revision or not,
// with a plan that differs from the state's or not, as after a rollback.
func (s *model) withdraw(t *rapid.T) {
	it := s.pick(t)
	rev := it.rev + rapid.SampledFrom([]int64{0, 0, 0, 0, -1, 1}).Draw(t, "off by")
	plan := it.total - it.retaken + rapid.Int64Range(0, 3).Draw(t, "withdrawn before")
	units := rapid.Int64Range(0, 4).Draw(t, "units")
	r, err := withdrawScript.run(s.t.Context(), s.rdb, 2, []string{it.item.stateKey()}, rev, plan, units)
	s.must(t, "withdraw", it.withdraw(rev, plan, units), r, err)
}

// hold queries every user.
func (s *model) hold(t *rapid.T) {
	it := s.pick(t)
	epoch := s.epochFor(t, it)
	keys := []string{it.item.stateKey(), it.item.usersKey(epoch), it.item.holdsKey(epoch)}
	for user := int64(1); user <= specUsers; user++ {
		r, err := holdScript.run(s.t.Context(), s.rdb, 3, keys, epoch, user, weightField)
		figures, text, seq := it.hold(epoch, user)
		s.must(t, "hold", figures[:], r, err)
		if r[3] != text || r.int(4) != seq {
			t.Fatalf("hold of user %d answers %v, %v, want %q, %d", user, r[3], r[4], text, seq)
		}
	}
}

// drawChange draws an operator's change; its revision is any past or next one,
// so that changes arrive late, twice and in any order.
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
	r, err := changeScript.run(s.t.Context(), s.rdb, 4, []string{it.item.stateKey()},
		c.rev, c.total, opens, closes, c.limit, flag(c.paused), flag(c.rebuy))
	s.must(t, "change", it.change(c), r, err)
}

func (s *model) fence(t *rapid.T) {
	it := s.pick(t)
	s.fenceFor(t, it, max(1, it.epoch+rapid.SampledFrom([]int64{-1, 0, 0, 0, 1, 3}).Draw(t, "epoch to come")))
}

func (s *model) fenceFor(t *rapid.T, it *specItem, epoch int64) {
	r, err := fenceScript.run(s.t.Context(), s.rdb, 4, []string{it.item.stateKey()}, epoch)
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
	require.NoError(t, s.rdb.HSet(s.t.Context(), it.item.stateKey(), "run_id", otherRun).Err())
	it.here = false
}

// loseKey deletes one of an item's keys and leaves its state.
func (s *model) loseKey(t *rapid.T) {
	it := s.pick(t)
	if !it.loaded || rapid.IntRange(0, 2).Draw(t, "really") > 0 {
		t.Skip("nothing is loaded, or no loss drawn")
	}
	key := it.item.usersKey(it.epoch)
	switch rapid.IntRange(0, 2).Draw(t, "which") {
	case 0:
		it.users, it.noUsers = map[int64]mark{}, true
	case 1:
		key = it.item.holdsKey(it.epoch)
		it.holds, it.noHolds = map[ids.ID]specHold{}, true
	default:
		key = it.item.buyersKey()
		if it.item.PerActivity {
			s.buyers, s.noBuyers = map[int64]specBuyer{}, true
		}
	}
	require.NoError(t, s.rdb.Unlink(s.t.Context(), key).Err())
}

// lose deletes the data and leaves the server.
func (s *model) lose(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		t.Skip("data is rarely lost")
	}
	require.NoError(t, s.rdb.FlushDB(s.t.Context()).Err())
	s.buyers, s.noBuyers = map[int64]specBuyer{}, true
	for _, it := range s.items {
		it.forget()
	}
}

// TestScriptsFollowTheirSpec runs every script of inventory/lua against the spec in
// model_spec_test.go, with any arguments that its header allows, and after each step compares
// the answer and every key in Redis: batches with repeated users and numbers, quantities,
// payment windows, limits, unlimited items, two items that share an activity's buyers and one
// that does not, windows and pauses, revisions out of order, totals that rise and fall, releases
// and commits before a reserve, twice and after each other, with rebuy on and off, numbers taken up again
// before and after their release, twice and after a refund, tombstones
// and their expiry, persists before and after releases, callers of an older and a later epoch,
// fences for any epoch, Loads that succeed, are overtaken, lose their keys or meet another
// Redis, settlements that come too early, after an outdated read and in time, restarts, lost
// data and single lost keys.
func TestScriptsFollowTheirSpec(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		s := newModel(b, t)
		t.Repeat(maps.Clone(map[string]func(*rapid.T){
			"": s.check, "reserve": s.reserve, "reserve again": s.reserve, "and again": s.reserve, "reserve still": s.reserve, "persist": s.persist,
			"release": s.release, "release more": s.release, "commit": s.commit, "commit more": s.commit, "withdraw": s.withdraw, "retake": s.retake, "retake more": s.retake, "hold": s.hold, "state": s.readState,
			"change": s.change, "fence": s.fence, "load": s.load, "load what is fenced": s.loadFenced, "open again": s.loadFenced, "settle": s.settle, "settle again": s.settle, "restart": s.restart, "lose": s.lose, "lose a key": s.loseKey,
		}))
	})
}
