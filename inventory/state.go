package inventory

import (
	"context"
	"time"
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
	Rebuy     bool  // see NewStock
	Retaken   int64 // units of Total that late payments took from the backup
	Fenced    bool
	// SameRedis says that the server is the one that was loaded: it was neither
	// restarted nor failed over since.
	SameRedis bool

	fencedFor int64 // the epoch that the Load under way will write, 0 if open
}

// Ready reports whether the item decides; if false it needs a Load. The books
// may require one too, see Health.
func (st State) Ready() bool { return st.SameRedis && !st.Fenced }

// Queued is how many grants wait for their order row.
func (st State) Queued() int64 { return max(0, st.Seq-st.Persisted) }

// stateFigures is how many integers state.lua returns for a loaded item; the last
// one is Redis's time, in ms.
const stateFigures = 18

// State reads an item's state; ok is false when there is none.
func (s *Service) State(ctx context.Context, item Item) (st State, ok bool, err error) {
	r, err := stateScript.run(ctx, s.deps.Redis, 0, []string{item.stateKey()})
	if err != nil {
		return State{}, false, err
	}
	return readState(r)
}

// states reads the states of items in one pipeline. What it returns is State for the
// item at an index.
func (s *Service) states(ctx context.Context, items []Item) func(i int) (State, bool, error) {
	calls := make([]scriptCall, len(items))
	for i, item := range items {
		calls[i] = scriptCall{keys: []string{item.stateKey()}}
	}
	answers := stateScript.tryAll(ctx, s.deps.Redis, calls)
	return func(i int) (State, bool, error) {
		r, err := answers[i].Slice()
		if err != nil {
			return State{}, false, stateScript.failed(err)
		}
		return readState(r)
	}
}

func readState(r reply) (State, bool, error) {
	if len(r) == 0 {
		return State{}, false, nil
	}
	if err := stateScript.check(r, stateFigures); err != nil {
		return State{}, false, err
	}
	return State{
		SameRedis: r.int(0) == 1, Epoch: r.int(1), Rev: r.int(2), Total: r.int(3), Remaining: r.int(4), Committed: r.int(5),
		Rel: r.int(6), Seq: r.int(7), Persisted: r.int(8), OpensAt: time.UnixMilli(r.int(9)).UTC(),
		ClosesAt: time.UnixMilli(r.int(10)).UTC(), Limit: r.int(11), Paused: r.int(12) == 1, Unlimited: r.int(13) == 1,
		Fenced: r.int(14) != 0, fencedFor: r.int(14), Rebuy: r.int(15) == 1, Retaken: r.int(16),
	}, true, nil
}
