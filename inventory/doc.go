// Package inventory keeps every item's units: the books in Postgres, and the
// counters in Redis that decide who gets one.
//
// # Owns
//
// The schema inventory: one stock row per item and shard, and which ended items
// are settled. In Redis the keys under the tags {g:i<item>:<shard>} and
// {g:a<activity>:0}; see [Item]. Other modules reach both through this package
// only.
//
// # Two counts of the same units
//
// Postgres is the truth. A stock row says how many units are available; the
// units that are held and sold are live orders, and no column counts them. The
// order writer deducts and closings return inside the transactions that change
// the orders, through Lock, Deduct and Return.
//
// Redis admits. Its count runs ahead of Postgres by what is in flight:
//
//	available = remaining + in flight + release pending
//
// In flight is granted and not written yet; pending is closed or refused in
// Postgres and not released yet. Books and the checks put every unit into one of
// these by the number that holds it.
//
// # Two phases
//
// Reserve takes units for a number; the number then ends once, by commit (its
// order was paid) or release (its order was closed or refused). Both are by
// number and have their effect once, however often and in whatever order their
// events come. Nothing here overwrites a count but Load, and Load does it on a
// fenced item under a new epoch. A released number is remembered for as long as
// its path may be used, so that it is never granted again.
//
// Where the rule is that nobody buys again after an unpaid order (Rebuy off), a
// closed number also stays as its user's mark, told apart from a hold: it counts
// nowhere and stands in the way of the next grant. Load reads these from the
// closed orders. What the system refused leaves no mark.
//
// # Scripts
//
// Everything that Redis decides is one Lua script in lua/, whose header is its
// contract. A script touches one slot and declares its keys, so that a cluster
// can run it. Keys carry the epoch in their names, all but the state: a caller
// names the epoch that it believes in, and a script that knows another answers
// with that and does nothing. reserve.lua is the hot path: it takes a batch, and
// reads and writes each hash once. Scripts that free memory or follow a payment
// run even when Redis is full.
//
// # Load
//
// The one procedure that writes an item into Redis: preheat, rebuild and repair.
//
//	lease     a row in Postgres with a rising token; one Load of an item at a time
//	fence     the item stops deciding; the epoch to come is above all that was seen
//	drain     what was granted before is published and written, or refused; how
//	          long that may take to be published is in publishers.go
//	count     one transaction: lock the stock rows, raise their epoch, read live
//	          orders; from its commit on the writer refuses older grants
//	write     keys named by the new epoch, then the state, which opens the item
//	apply     operator changes that came in between
//
// It may end anywhere: the item stays fenced and the next Load starts over. A
// Load that slept through its lease is told apart by its epoch and changes
// nothing. The state is only written to the Redis that was fenced, and only
// while it has all the keys written before; after a failover the Load starts
// over. The drain has no time limit of its own; as long as the order writer
// is behind the item stays fenced, because opening it would end the attempts of
// people who were told that they are in line.
//
// Missing keys, another epoch and another run id (a restart, a failover) all
// fence an item by themselves, inside each decision.
//
// # Settlement
//
// The keys of an item have no lifetime while its sale is not settled. Some time
// after its end, when no order waits for its payment, nothing is in flight and
// both counts agree, Settle removes them; items under one rule of an activity go
// when the last of them has ended. From then on the item is Postgres's alone:
// missing keys of an ended item fence nothing, and a late return has nothing to
// do here. Books and the checks take Postgres's word. An item whose counts
// differ keeps its keys, because they are the evidence.
//
// # Invariants
//
//   - I1, in both counts: no more units given away than the total. CHECKs on the
//     stock row hold even against a wrong program. What may be sold beyond the
//     goods by agreement is in the total already; nothing here knows of it.
//   - I2: both counts agree but for work in flight.
//   - I8: no mark or hold in Redis without a live number.
//
// # Publishes
//
// inventoryevent.Returned when units come back or are added, and
// inventoryevent.Loaded after a Load. Both are broadcasts without storage: what
// misses one is a sold-out flag that lives 2 s.
//
// # Consumes
//
// events.order.refused and events.order.closed (release), events.order.paid
// (commit). An event that meets a fenced item comes again after a pause,
// unless its sale is over and no Load is under way.
//
// # Lifecycle
//
// Workers has one loop, which settles ended items on one instance at a time.
// Who preheats, and who notices a fenced item and calls Load, is seckill's
// business. A process that is Alone opens its items at once after a restart. Lock
// order is that of all modules: stock rows by item and shard, then orders, then
// payments.
package inventory
