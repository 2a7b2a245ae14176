// Package inventory keeps every item's units: the books in Postgres, and the
// counters in Redis that decide who gets one.
//
// # Owns
//
// The schema inventory: one stock row per item and shard, and which ended items
// are settled. In Redis: the keys under the tags {g:i<item>:<shard>} and
// {g:a<activity>:0}; see [Item]. Other modules reach both through this package
// only.
//
// # Rooms
//
//	stock    the row of an item in Postgres, its keys in Redis, and readers of both
//	lua      the scripts, and how they are called
//	ledger   writes the rows: orders take and return units, operators move them
//	decide   asks Redis who gets units, who holds them and who waits for an order row
//	load     writes an item into Redis from the books
//	keep     applies the ends of orders to Redis, from their events
//	books    says where every unit is, and what the two counts disagree on
//	compare  applies what no event told, reconciles, and settles ended items
//
// Each uses those above it. Service has the methods of all.
//
// # Two counts of the same units
//
// Postgres is the truth. A stock row says how many units are available; the
// units that are held and sold are live orders, and no column counts them. The
// order writer deducts units and closings return them inside the transactions
// that change the orders, through Lock, Deduct and Return.
//
// Redis decides on attempts. Its count runs ahead of Postgres by what is in
// flight:
//
//	available = remaining + in flight + release pending
//
// apart from units of the backup that late payments took and one of the two does not
// count yet.
//
// In flight is granted and not written yet; pending is closed or refused in
// Postgres and not released yet. Books and the checks classify every unit by the
// number that holds it, exactly, although no command reads more than a chunk: they
// read Postgres at one moment, then the holders by cursor while the item sells, and
// bring both to the moment of the state that they read last.
//
// # Two phases
//
// Reserve takes units for a number; the number then ends once, by commit (its
// order was paid) or release (its order was closed or refused). Both are by
// number and take effect once, however often and in whatever order their events
// arrive. Only Load overwrites a count, and it does so on a fenced item under a
// new epoch. A released number is remembered for as long as its path may be
// used, so that it is never granted again.
//
// A closed order whose money arrives late may be taken up again, once, with units of
// the item's backup: Retake moves them in Postgres, in the transaction of the
// capture, and retake.lua writes the number as held and paid for. Those units were
// never on sale, so both raise what is offered and not what is available, and an
// operator's change moves by the units that operators planned, without them. The
// release of the closing may reach Redis before or after: the tombstone of a number
// taken up again says so for good.
//
// Operators move units between sale and backup while the sale runs, lower the stock
// and write units off. Units that leave the sale leave Redis first, by withdraw.lua
// while the stock row is locked, because Redis may have granted units that Postgres
// still counts as available, and must not grant those that Postgres has moved; then
// the transaction moves as many in Postgres and raises the revision. A move that is not
// committed leaves Redis below the plan of its revision, which the next change, a
// comparison or BooksProbe repairs (ledger.Mend).
//
// If the rule is one purchase per user even after an unpaid order (Rebuy off), a
// closed or refunded number stays as its user's mark, distinct from a hold: it is in no
// count and blocks the next grant. Load reads these from those orders. An
// order that the system refused leaves no mark.
//
// # Shards
//
// An item's units may be spread over several stock counters, its shards, each with a
// stock row and keys of its own, so that several nodes of a Redis Cluster decide on one
// item. What is said here of an item holds for each shard; a user's shard is the bucket
// modulo their number, and only that decides on the user. An empty shard borrows units
// of the others (ledger.Borrow), and says that none are left only if all were empty at
// one moment. A Load gives an item more shards when the setting or the units allow it,
// never fewer.
//
// # Scripts
//
// Every decision in Redis is one Lua script, whose header is its contract. A
// script touches one slot and declares its keys, so that a cluster can run it.
// Keys carry the epoch in their names, all except the state: a caller passes the
// epoch that it knows, and a script that finds another one returns that and does
// nothing. Scripts that free memory, follow a payment or only rewrite fields run
// even if Redis is full.
//
// # Load
//
// The only procedure that writes an item into Redis:
//
//	lease     a row in Postgres with a rising token; one Load of an item at a time
//	fence     the item stops deciding; the new epoch is above every one seen
//	drain     every earlier grant is published and written, or refused
//	settle    an open hold that is left in Redis has lost its message: it is
//	          published again under its own epoch, and waited for
//	count     lock the stock rows and raise their epoch: from then on the writer
//	          refuses older grants
//	write     read the stock rows and the orders in one snapshot, in chunks, and
//	          bring the keys in Redis to that, in place and only where they
//	          differ; then give them the new epoch's names and replace the state,
//	          which opens the item
//	apply     operator changes made meanwhile
//
// It may end at any step: the item stays fenced and the next Load starts over.
// A Load whose lease expired while it slept is detected by its epoch and
// changes nothing: patch.lua and load.lua write for the Load that fenced the item
// last. The state is only written to the Redis that was fenced, and only while
// that has all the keys written before; after a failover the Load starts over.
// A Load needs no second copy of its item in Redis, and its memory does not depend
// on the number of orders. It may take as long as it makes progress; one that
// makes none for 30 s is ended and started over. As long as the order writer is
// behind the item stays fenced, because opening it would end the attempts of
// shoppers whose answer was "queued". For the same reason a Load that finds its
// item's old state counts nothing while that has an open hold without an order
// row, whether Redis was restarted or GRANTS was lost. A hold that two more
// publications make neither an order nor a refusal is dropped, with an error in the
// log: its message is a dead letter. Otherwise only what Redis itself has lost ends
// there.
//
// Missing keys, another epoch and another run id (a restart, a failover) all
// fence an item automatically, inside each decision. So does a key that was lost
// alone, by eviction or by hand: users and buyers have a field that nothing
// removes, and holds has one more than there are grants without an order. Buyers
// lost alone are complete again when each item of their activity was compared or
// loaded; until then Postgres refuses a second item. Health finds the items whose
// state and books contradict each other although neither was restarted: Redis
// back at an older epoch, or ahead of a Postgres that lost its last commits.
//
// # Settlement
//
// The keys of an item have no expiry until its sale is settled. Some time after
// its end, when no order waits for its payment, nothing is in flight and both
// counts agree, Settle removes them; items under one rule of an activity are
// settled when the last of them has ended. From then on only Postgres has the
// item: missing keys of an ended item fence nothing, and a late return has no
// effect here. Books and the checks use Postgres alone. An item whose counts
// differ is reconciled first; if a difference remains it keeps its keys, because
// they are the evidence.
//
// # Reconciliation
//
// Reconcile shows what the keepers' comparison would find, and more: every
// difference between the two counts, named by kind and with its cause where that
// can be known. It repairs on request what an order proves, raises an alarm for
// the rest, and is recorded in the audit log. Operators call it by route and by
// `stampede reconcile`; Settle calls it for an ended item that does not agree.
//
// # Invariants
//
//   - I1, in both counts: no more units granted than the total. CHECKs on the
//     stock row guard against a faulty program. What may be sold beyond the
//     goods by agreement is part of the total; this package does not see it.
//   - I2: both counts agree except for work in flight; an item on sale decides;
//     a settled item has no keys.
//   - I8: no mark in Redis without a live number, and no hold whose order row is
//     written.
//
// Checks proves them over everything, Samples proves the sums each minute, and
// BooksProbe compares the counts of items on sale each second without reading
// holders; it reads an item's books only when a difference has lasted.
//
// # Events
//
// inventoryevent.Returned and inventoryevent.Loaded are broadcasts without storage:
// a lost one costs the lifetime of a sold-out flag, 2 s. The events of order that
// end holds are hints: their numbers go on the bounded work list of their item, in
// this process, and the event is acknowledged.
//
// # Keepers
//
// An item with entries on its work list has a goroutine, its keeper, which applies
// them within milliseconds. A keeper that fails retries with a back-off and after
// a while raises an alarm; items never wait for each other. An item that is fenced
// waits for its Load, unless its sale is over and no Load is under way.
//
// Units of a closed or refunded order do not return within milliseconds but at a random
// moment within UnitsReturnWithin, none before a quarter of it. A client that
// closes its order, or has it refunded, cannot be the first to know, and by then every instance knows
// that its user has to pause. Until then the units are release pending in the
// books; no check calls their mark an orphan. A Load, a stop and a full list of
// waiting units return them early.
//
// Losing a work list loses nothing. Within a minute and a half one instance (by a
// lease per item) compares what an item has in Redis of the orders that have changed, and
// applies by the same scripts what no event has: releases, commits, order rows,
// buyers of an activity. Once an hour, after each Load, at a start and when a work
// list was full it walks all of the item's keys by cursor instead, in chunks: then
// it also finds what no change of an order tells of. It repairs only what an order
// proves. The rest raises an alarm: numbers without an order, and a Redis that is
// ahead of a Postgres that lost commits. Until a walk finds them, BooksProbe knows
// that the counts differ. Items of which nothing can change are not walked again,
// unless they share a list of buyers, which may be lost alone.
// Keepers and walks may overlap, also between instances: every script is
// idempotent by number.
//
// # Lifecycle
//
// When the keepers stop they apply what they have, and refuse further events, which
// are redelivered. seckill preheats items, detects fenced ones and calls Load. A
// process with SingleInstance opens its items immediately after a restart. Lock
// order is that of all modules: stock rows by item and shard, then orders, then
// payments.
package inventory
