package stock

import (
	"context"
	"time"

	"stampede/inventory/lua"
)

// State is an item's state in Redis.
type State struct {
	Epoch     int64 // counts Loads
	Rev       int64 // the operator's change that it includes
	Total     int64 // units on offer: without backup and written-off ones
	Remaining int64
	Committed int64 // units paid for
	Rel       int64 // returns so far
	Seq       int64 // grants in this epoch
	Persisted int64 // of these, those that no longer wait for an order row
	OpensAt   time.Time
	ClosesAt  time.Time
	Limit     int64 // units per user
	Paused    bool
	Unlimited bool
	Rebuy     bool  // see ledger.NewStock
	Retaken   int64 // units of Total that late payments took from the backup
	Shards    int16 // that the item has, see Item.Shard
	Fenced    bool
	// SameRedis says that the server is the one that was loaded: it was neither restarted nor failed over since.
	SameRedis bool

	FencedFor int64 // the epoch that the Load under way will write, 0 if open
}

// Ready reports whether the item decides; if false it needs a Load. The books may require one too, see Health.
func (st State) Ready() bool { return st.SameRedis && !st.Fenced }

// Sum is the state of an item that has these shards: fenced if one of them is.
func Sum(shards []State) State {
	whole := shards[0]
	for _, st := range shards[1:] {
		whole.Epoch, whole.SameRedis, whole.Fenced = min(whole.Epoch, st.Epoch), whole.SameRedis && st.SameRedis, whole.Fenced || st.Fenced
		whole.Total, whole.Remaining, whole.Committed = whole.Total+st.Total, whole.Remaining+st.Remaining, whole.Committed+st.Committed
		whole.Rel, whole.Seq, whole.Persisted, whole.Retaken = whole.Rel+st.Rel, whole.Seq+st.Seq, whole.Persisted+st.Persisted, whole.Retaken+st.Retaken
	}
	return whole
}

// Queued is how many grants wait for their order row.
func (st State) Queued() int64 { return max(0, st.Seq-st.Persisted) }

// StateFigures is how many integers state.lua returns for a loaded item; the last one is Redis's time, in ms.
const StateFigures = 19

// State reads an item's state; ok is false when there is none.
func (s *Store) State(ctx context.Context, item Item) (st State, ok bool, err error) {
	return s.States(ctx, []Item{item})(0)
}

// StateOfAll is State over all the item's shards; ok is false if one has none.
func (s *Store) StateOfAll(ctx context.Context, item Item) (st State, ok bool, err error) {
	if st, ok, err = s.State(ctx, item.Counter(0)); err != nil || !ok || st.Shards == 1 {
		return st, ok, err
	}
	s.SeeShards(item.ID, st.Epoch, st.Shards)
	states, stateOf := make([]State, st.Shards), s.States(ctx, item.Counters(st.Shards))
	for i := range states {
		if states[i], ok, err = stateOf(i); err != nil || !ok {
			return State{}, false, err
		}
	}
	return Sum(states), true, nil
}

// States reads the states of items in one pipeline. What it returns is State for the item at an index.
func (s *Store) States(ctx context.Context, items []Item) func(i int) (State, bool, error) {
	calls := make([]lua.Args, len(items))
	for i, item := range items {
		calls[i] = lua.Args{Keys: []string{item.StateKey()}}
	}
	answers := lua.State.TryAll(ctx, s.Redis, calls)
	return func(i int) (State, bool, error) {
		r, err := answers[i].Slice()
		if err != nil {
			return State{}, false, lua.State.Failed(err)
		}
		return ReadState(r)
	}
}

// ReadState reads the answer of state.lua; ok is false when there is no state.
func ReadState(r lua.Reply) (st State, ok bool, err error) {
	if len(r) == 0 {
		return State{}, false, nil
	}
	if err := lua.State.Check(r, StateFigures); err != nil {
		return State{}, false, err
	}
	return State{
		SameRedis: r.Int(0) == 1, Epoch: r.Int(1), Rev: r.Int(2), Total: r.Int(3), Remaining: r.Int(4), Committed: r.Int(5),
		Rel: r.Int(6), Seq: r.Int(7), Persisted: r.Int(8), OpensAt: time.UnixMilli(r.Int(9)).UTC(),
		ClosesAt: time.UnixMilli(r.Int(10)).UTC(), Limit: r.Int(11), Paused: r.Int(12) == 1, Unlimited: r.Int(13) == 1,
		Fenced: r.Int(14) != 0, FencedFor: r.Int(14), Rebuy: r.Int(15) == 1, Retaken: r.Int(16),
		Shards: int16(max(1, r.Int(17))), //nolint:gosec // at most MostShards
	}, true, nil
}
