// Package preheat keeps every item that is due loaded in Redis (预热): from its
// preheat time until it closes an item has to be decidable, and again whenever
// Redis or an edit made that untrue.
//
// # When an item is loaded
//
// Each second every instance checks all due items against inventory's books: not
// in Redis, fenced, in another Redis than the one it was loaded into, back at an
// older Load, or edited after the preheat (seckill.items, load_wanted above
// load_done). A rush that finds an item fenced asks for the same check at once
// (Catalogue.Heal). A change that is only missing in Redis is applied, without a
// Load.
//
// # Who loads it
//
// The items wait in a queue: what a shopper has met goes first, then what is on
// sale, then what opens soonest. At most loadsAtOnce of an instance's Loads run at
// the same time. Inventory's lease lets one instance load an item, and the question
// whether the Load is needed is asked again under it, so two instances that saw the
// same gap load once.
//
// A Load that fails is tried again later each time; from the third failure in a
// row on it raises the alarm preheat-failed.
//
// # Lifecycle
//
// New reads nothing. When Run's context ends nothing is loaded any more, and Run
// returns once the Loads under way have ended; what waited is loaded by another
// instance or after the next start.
//
// # Locks
//
// Service.mu guards the records and the queue; nothing is asked of a server while
// it is held.
package preheat
