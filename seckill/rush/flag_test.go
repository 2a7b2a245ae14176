package rush

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

func newTestFlag(change ...func(*Config)) *soldOut {
	cfg := DefaultConfig()
	cfg.FlagLife = time.Minute // tests end flags by seeing returns, not by waiting
	for _, f := range change {
		f(&cfg)
	}
	return newSoldOut(cfg)
}

func nothing(epoch, seq, rel int64) *inventory.Decision {
	return &inventory.Decision{Epoch: epoch, Seq: seq, Rel: rel, Total: 10}
}

func holders(all ...int64) users {
	return func(context.Context, int64, int) ([]int64, error) { return all, nil }
}

// raiseAt acts as a batch without grants: it reads the holders if they are not
// known.
func (f *soldOut) raiseAt(ctx context.Context, d *inventory.Decision, as outcome, read users, now time.Time) error {
	if f.raise(d, as) {
		return nil
	}
	err := f.cover(ctx, d, read, now)
	f.raise(d, as)
	return err
}

func mustRaise(t *testing.T, f *soldOut, d *inventory.Decision, as outcome, read users) {
	t.Helper()
	require.NoError(t, f.raiseAt(t.Context(), d, as, read, time.Now()))
}

// says requires what the flag answers a user: outNone while it is down, and for one who may hold a unit.
func (f *soldOut) says(t *testing.T, what string, user int64, want outcome) {
	t.Helper()
	got, up := f.refuses(user, ids.ID{})
	require.Equal(t, what, got, want)
	require.Equal(t, what+": refused", up, want != outNone)
}

// While a lane reads the holders, which a hanging Redis delays, the others remember theirs,
// and the filter has these too.
func TestOtherLanesRememberWhileHoldersAreRead(t *testing.T) {
	t.Parallel()
	f := newTestFlag()
	d := &inventory.Decision{Epoch: 1, Total: 10, Parts: []inventory.State{{Seq: 4}, {Seq: 6}}}
	reads := 0
	var read users
	read = func(ctx context.Context, _ int64, _ int) ([]int64, error) {
		if reads++; reads == 1 { // it takes longer than the pause between two
			require.NoError(t, f.cover(ctx, d, read, time.Now().Add(time.Hour)))
		}
		remembered := make(chan struct{})
		go func() {
			f.remember(1, 10, []grant{{user: 77, seq: 7, shard: 1}})
			close(remembered)
		}()
		select {
		case <-remembered:
		case <-time.After(10 * time.Second):
			t.Error("a lane waits for the holders that another one reads")
		}
		return []int64{1, 2}, nil
	}
	require.NoError(t, f.cover(t.Context(), d, read, time.Now()))
	require.Equal(t, "reads at a time", reads, 1)
	d.Parts[1].Seq = 7
	require.Equal(t, "raised", f.raise(d, outAllHeld), true)
	f.says(t, "a stranger", 50, outAllHeld)
	f.says(t, "a holder who was read", 2, outNone)
	f.says(t, "one of meanwhile", 77, outNone)
}

func TestFlagRefusesStrangersAndNoHolder(t *testing.T) {
	t.Parallel()
	f := newTestFlag()
	f.says(t, "before anything happened", 1, outNone)
	mustRaise(t, f, nothing(1, 10, 0), outAllHeld, holders(100, 101))
	f.says(t, "a stranger", 1, outAllHeld)
	for _, u := range []int64{100, 101} {
		f.says(t, "a holder", u, outNone)
	}
	mustRaise(t, f, nothing(1, 10, 0), outSoldOut, nil)
	f.says(t, "after the last decision", 1, outSoldOut)
	old := *f.up.Load()
	old.at = old.at.Add(-f.cfg.FlagLife)
	f.up.Store(&old)
	f.says(t, "after its life", 1, outNone)
}

func TestFlagIsEndedByReturnsAndLoads(t *testing.T) {
	t.Parallel()
	for name, clear := range map[string]func(*soldOut){
		"return": func(f *soldOut) { f.seeShard(0, 3, 6) },
		"load":   func(f *soldOut) { f.seeShard(0, 4, 0) },
	} {
		f := newTestFlag()
		mustRaise(t, f, nothing(3, 10, 5), outSoldOut, holders())
		f.seeShard(0, 3, 5)
		f.seeShard(0, 2, 99)
		f.says(t, name+": at a count that was already known", 1, outSoldOut)
		clear(f)
		f.says(t, name, 1, outNone)
		// A decision made before the return arrives late.
		mustRaise(t, f, nothing(3, 10, 5), outSoldOut, holders())
		f.says(t, name+", then an old decision", 1, outNone)
	}
}

func TestFlagStaysDownWhileUnitsAreLeftOrHoldersUnknown(t *testing.T) {
	t.Parallel()
	f := newTestFlag(func(c *Config) { c.MaxFilterHolders = 1024 })
	d := nothing(1, 10, 0)
	d.Remaining = 1
	mustRaise(t, f, d, outSoldOut, holders())
	f.says(t, "with a unit left", 1, outNone)
	broken := errors.New("Redis is gone")
	err := f.raiseAt(t.Context(), nothing(1, 10, 0), outSoldOut,
		func(context.Context, int64, int) ([]int64, error) { return nil, broken }, time.Now())
	require.ErrorIs(t, err, broken)
	f.says(t, "without knowing the holders", 1, outNone)
	// Within the interval nothing is read again; after it, too many holders keep
	// the flag down permanently.
	many := func(_ context.Context, _ int64, limit int) ([]int64, error) { return make([]int64, limit), nil }
	mustRaise(t, f, nothing(1, 10, 0), outSoldOut, func(context.Context, int64, int) ([]int64, error) {
		t.Fatal("read twice within the interval")
		return nil, nil
	})
	require.NoError(t, f.raiseAt(t.Context(), nothing(1, 10, 0), outSoldOut, many, time.Now().Add(time.Hour)))
	f.says(t, "with more holders than the filter takes", 1, outNone)
}

// If all grants are made here the holders are read once; a grant made elsewhere
// causes another read.
func TestFlagReadsHoldersOnlyWhenGrantsWereMadeElsewhere(t *testing.T) {
	t.Parallel()
	f := newTestFlag()
	reads := 0
	read := func(context.Context, int64, int) ([]int64, error) { reads++; return []int64{100}, nil }
	raise := func(d *inventory.Decision, at time.Duration) {
		t.Helper()
		require.NoError(t, f.raiseAt(t.Context(), d, outAllHeld, read, time.Now().Add(at)))
	}
	raise(nothing(1, 10, 0), 0)
	f.seeShard(0, 1, 2)
	f.remember(1, 10, []grant{{user: 200, seq: 11}, {user: 201, seq: 12}})
	raise(nothing(1, 12, 2), time.Hour)
	f.says(t, "a stranger", 1, outAllHeld)
	require.Equal(t, "reads", reads, 1)
	f.says(t, "a user who was granted a unit here", 201, outNone)
	f.remember(1, 10, []grant{{user: 300, seq: 14}}) // 13 was granted by another instance
	raise(nothing(1, 14, 2), 2*time.Hour)
	require.Equal(t, "reads", reads, 2)
	raise(nothing(2, 0, 0), 3*time.Hour) // and after a Load
	require.Equal(t, "reads", reads, 3)
}

// A filter that has seen far more users than there are holders claims strangers;
// it is replaced by a filter of the present holders.
func TestACrowdedFilterIsMadeAnew(t *testing.T) {
	t.Parallel()
	f := newTestFlag()
	mustRaise(t, f, nothing(1, 10, 0), outAllHeld, holders(1, 2))
	gone := make([]grant, 3*minFilterHolders)
	for k := range gone {
		gone[k] = grant{user: int64(k) + 100, seq: int64(k) + 11}
	}
	f.remember(1, 10, gone)
	d := nothing(1, int64(len(gone))+10, 5)
	require.Equal(t, "raised beside a crowded filter", f.raise(d, outAllHeld), false)
	require.NoError(t, f.raiseAt(t.Context(), d, outAllHeld, holders(1, 3), time.Now().Add(time.Hour)))
	if _, up := f.refuses(gone[0].user, ids.ID{}); !up || !f.mayHold(1, ids.ID{}) || !f.mayHold(3, ids.ID{}) || f.crowded() {
		t.Fatal("the new filter does not have exactly the present holders")
	}
}

// The model: a coverage reaches seq exactly when every grant in (base, seq] has
// been added. It may answer no slightly too long, but never yes too early.
func TestCoverageNeverClaimsAGap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		base := rapid.Int64Range(0, 5).Draw(r, "base")
		c := coverage{valid: true, epoch: 1, base: base, last: base}
		seqs := rapid.SliceOfDistinct(rapid.Int64Range(1, 20), func(v int64) int64 { return v }).Draw(r, "seqs")
		have := map[int64]bool{}
		for _, s := range seqs {
			c.add(1, s)
			c.add(2, s+100) // another epoch's grants do not count
			have[s] = true
			for seq := base; seq <= 20; seq++ {
				gap := false
				for k := base + 1; k <= seq; k++ {
					gap = gap || !have[k]
				}
				if c.reaches(1, seq) && gap {
					r.Fatalf("claims %d from base %d with %v", seq, base, have)
				}
			}
		}
		all := true
		for k := base + 1; k <= c.last; k++ {
			all = all && have[k]
		}
		if all && !c.reaches(1, c.last) {
			r.Fatalf("has all grants to %d from base %d but denies it", c.last, base)
		}
	})
}

// idle gives an item a lane without workers, so that the test runs its batches
// itself.
func (i *instance) idle(it *catalogue.Item) *lane {
	return i.rush.lanes.all.findOrAdd(it.ID, func() *lane { return newLane(it.ID, i.rush.lanes) })
}

// turn runs the waiting attempts through the lane as a batch; the channel is
// closed when the batch is done.
func turn(l *lane) <-chan struct{} {
	done := make(chan struct{})
	go func() { defer close(done); newLaneWorker(l).turn() }()
	return done
}

// soldOnce sells the item's only unit, raises the flag and gives the unit back,
// which the instance learns from the broadcast. From then on the filter knows
// every holder without reading.
func (i *instance) soldOnce(t *testing.T, it *catalogue.Item, l *lane) {
	t.Helper()
	first := mustEnter(t, l, waiter(t.Context(), 1))
	<-turn(l)
	second := mustEnter(t, l, waiter(t.Context(), 2))
	<-turn(l)
	require.Equal(t, "the two shoppers' answers", []outcome{first.wait(t).outcome, second.wait(t).outcome}, []outcome{outQueued, outAllHeld})
	mustBeUp(t, i, it, outAllHeld)
	i.SettleAll(1)
	i.Close(first.no)
	l.returned(l.epoch.Load(), 1)
	l.flag.says(t, "after a return", 3, outNone)
}

// A unit comes back while the batch that sold the last one is still being
// published, and the next batch gets it. Until its answer arrives the filter does
// not know the winner, so the flag of the earlier batch must not be raised in
// between: the winner's second click would be answered all-held.
func TestFlagRefusesNoWinnerWhileRedisGrants(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.FlagLife = time.Minute })
	var holdPublication, holdReply atomic.Bool
	published, decided := make(chan struct{}), make(chan struct{})
	goOn, reply := make(chan struct{}), make(chan struct{})
	i.rush.lanes.grants = &faultyStream{grants: i.queue, publish: func(send func() error) error {
		err := send()
		if holdPublication.Swap(false) {
			close(published)
			<-goOn
		}
		return err
	}}
	i.rush.lanes.stock = &faultyStock{stock: i.rush.lanes.stock, reserve: func(_ int, decide func() error) error {
		err := decide()
		if holdReply.Swap(false) {
			close(decided)
			<-reply
		}
		return err
	}}
	l := i.idle(it)
	i.soldOnce(t, it, l)

	third, fourth := mustEnter(t, l, waiter(t.Context(), 3)), mustEnter(t, l, waiter(t.Context(), 4))
	holdPublication.Store(true)
	selling := turn(l)
	<-published
	require.Equal(t, "the late shopper's answer", fourth.wait(t).outcome, outAllHeld)
	i.SettleAll(2)
	i.Close(third.no) // the broadcast of this return is still on its way

	fifth := mustEnter(t, l, waiter(t.Context(), 5))
	holdReply.Store(true)
	next := turn(l)
	select {
	case <-decided: // Redis has granted, the answer is on its way
	case <-next: // the flag refused the attempt
	}
	close(goOn)
	<-selling
	_, refused := l.flag.refuses(5, ids.ID{})
	close(reply)
	<-next
	if v := fifth.wait(t); refused && v.outcome == outQueued {
		t.Fatal("a winner's second click was refused by the flag")
	} else if !refused {
		t.Fatalf("the flag of the batch that sold the last unit is not up; the fifth shopper was answered %v", v.outcome)
	}
}

// A decision that timed out may still be made: the users in its batch are not
// refused from memory.
func TestFlagSparesUsersOfATimedOutDecision(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.FlagLife = time.Minute })
	var late atomic.Bool
	i.rush.lanes.stock = &faultyStock{stock: i.rush.lanes.stock, reserve: func(_ int, decide func() error) error {
		if late.Swap(false) {
			return errors.New("no answer in time")
		}
		return decide()
	}}
	l := i.idle(it)
	i.soldOnce(t, it, l)

	path := i.issue(5, it, 1)
	fifth := waiter(t.Context(), 5)
	fifth.no = parse(t, path.OrderNo)
	late.Store(true)
	mustEnter(t, l, fifth)
	<-turn(l)
	require.Equal(t, "without an answer of Redis", fifth.wait(t).outcome, outUnknown)
	third, fourth := mustEnter(t, l, waiter(t.Context(), 3)), mustEnter(t, l, waiter(t.Context(), 4))
	<-turn(l)
	third.wait(t)
	fourth.wait(t)
	mustBeUp(t, i, it, outAllHeld)
	i.SettleAll(2)
	i.Close(third.no)
	var d inventory.Decision
	if err := i.Stock.Reserve(t.Context(), it.Stock(), l.epoch.Load(), []inventory.Attempt{{User: 5, No: fifth.no, Quantity: 1}}, &d); err != nil || d.Results[0].Verdict != inventory.Granted {
		t.Fatalf("the late decision: %+v, %v", d, err)
	}
	l.flag.says(t, "a stranger", 6, outAllHeld)
	again := turn(l)
	i.send(path.Path).accepted(t, "the same path again", path, "")
	<-again
}
