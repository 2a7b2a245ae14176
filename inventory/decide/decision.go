// Package decide asks Redis: who gets units, who holds them, and who waits for an order row.
package decide

import (
	"time"

	"stampede/inventory/stock"
	"stampede/platform/base/ids"
)

// MaxBatch is how many attempts one Reserve takes. A call of this size blocks Redis for well under a millisecond; a
// bigger one would slow every other item, and Lua's stack limits it to some thousands anyway.
const MaxBatch = 512

// Attempt is one shopper's attempt at one item. A number belongs to one user: the signed path that carries both
// guarantees it.
type Attempt struct {
	User     int64
	No       ids.ID
	Quantity int32 // 1 or more
	// PayWithin is the payment window in seconds if it is shorter than the sale's, else 0. It does not affect the
	// decision; the hold stores it in case the grant has to be published again.
	PayWithin int32
}

// Verdict is the outcome of one attempt.
type Verdict uint8

// The verdicts. All but Granted and Repeated leave the attempt without units.
const (
	Granted       Verdict = iota // the units are taken under this number
	Repeated                     // this number holds already; nothing was taken again
	AlreadyBought                // the user holds under another number, also for another item of the activity, or held before and may not again
	NotEnough                    // some units are left, fewer than requested
	SoldOut                      // every unit is paid for
	AllHeld                      // none left, but unpaid ones may be returned
	Finished                     // this number was granted once and has ended
	OverLimit                    // more units than one user may have of this item
	Elsewhere                    // none left at the user's shard, and whether another has any is not known
)

var verdictNames = [...]string{"granted", "repeated", "already_bought", "not_enough", "sold_out", "all_held", "finished", "over_limit", "elsewhere"}

// String is the verdict as it appears in metrics and logs.
func (v Verdict) String() string { return verdictNames[v] }

// Result is the answer to one attempt.
type Result struct {
	Verdict Verdict
	// Seq is the grant's sequence in its epoch, from 1, for Granted and Repeated, and for AlreadyBought that of
	// Other's grant. It is 0 if the number's order exists already, because it no longer waits, and if Other is
	// another item's.
	Seq int64
	// Other is the number the user holds under, for AlreadyBought.
	Other ids.ID
	// Quantity is what Other holds, and PayWithin its window, see Attempt; both only if Seq is not 0.
	Quantity  int32
	PayWithin int32
}

// waits reports whether the answer names a grant whose order does not exist yet. The caller publishes it: for the
// first time, or because its message may be lost.
func (r Result) waits() bool { return r.Seq != 0 }

// Gate says whether the item decides.
type Gate uint8

// The gates. Results are given only when it is Open.
const (
	Open       Gate = iota
	Fenced          // not loaded, loaded under another epoch, being loaded, or Redis was restarted
	NotStarted      // OpensIn says how long
	Ended
	Paused
)

var gateNames = [...]string{"open", "fenced", "not_started", "ended", "paused"}

// String is the gate as it appears in metrics and logs.
func (g Gate) String() string { return gateNames[g] }

// Decision is the answer to one Reserve. The figures are the item's after it.
type Decision struct {
	Gate Gate
	// Epoch is the state's epoch, 0 if there is no state. If Gate is Fenced and the epoch is not the caller's, a
	// retry with this epoch may succeed.
	Epoch     int64
	Remaining int64 // units left to take; below zero is possible for unlimited items only
	Committed int64 // units paid for
	Total     int64 // units on offer: without backup and written-off ones
	Seq       int64 // grants so far in this epoch
	Persisted int64 // grants whose order row exists or that were released before one did
	Rel       int64 // returns so far; rises within an epoch, restarts if Redis was lost
	OpensIn   time.Duration
	// Shards is how many the item has, and the figures are those of the one that was asked. It is 0 if there is no
	// state.
	Shards int16
	// Parts are the shards of an item of which none has units left, see ledger.Borrow; nil of an item with one.
	Parts   []stock.State
	Results []Result // one per attempt, in order; reused by the next call
}
