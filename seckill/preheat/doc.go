// Package preheat keeps every item that is due loaded in Redis (预热): from its
// preheat time until it closes, an item has to be decidable. It loads an item
// again whenever Redis or an edit has made that untrue.
//
// # When an item is loaded
//
// Every second, every instance checks all due items against inventory's books.
// An item needs a Load if it is missing in Redis, fenced, in another Redis than
// the one it was loaded into, back at an older Load, or edited after the preheat
// (seckill.items, load_wanted above load_done). A rush that finds an item fenced
// requests the same check immediately (Catalogue.Heal). A change that is only
// missing in Redis is applied without a Load. What the last check found about
// items on sale is also the instance's readiness component and the alarm
// item-fenced.
//
// # Who loads it
//
// The items wait in a queue: those that shoppers have requested go first, then
// those on sale, then those that open soonest. At most loadsAtOnce of an instance's
// Loads run concurrently. Inventory's lease lets one instance load an item, and the
// instance checks again under the lease whether the Load is needed, so two
// instances that saw the same gap load once.
//
// A failed Load is retried with growing delays; from the third failure in a row
// it raises the alarm preheat-failed.
//
// # Lifecycle
//
// New reads nothing. When Run's context ends, no further Load starts, and Run
// returns once the Loads in progress have ended; the items still waiting are
// loaded by another instance or after the next start.
//
// # Locks
//
// Service.mu guards the records and the queue; no server is called while it is
// held.
package preheat
