// Package seckill is the sale: what operators plan, what shoppers see, and the
// rush itself. It decides who may try and hands tries to inventory, which
// decides who wins; order turns wins into orders.
//
// # Owns
//
// In Postgres the schema seckill: activities, their sessions, their items, and
// who reserved one (package reservation, which stands at the door). In Redis the
// views that shoppers browse (sv:*, one hash per session) and the admission rates.
// Stock is not here: rows and counters belong to inventory and are reached only
// through it, in this module's transactions where a plan and its stock must
// change together.
//
// # Two halves
//
// The desk (activity, session, item, admin, lifecycle, preheat, views, browse,
// catalogue) is about plans. Nothing in it is hot: it may take a transaction per
// action and a second to follow.
//
// The rush (path, rush, lane, flag, queue, sweeper) is hot. It never asks
// Postgres before an attempt is decided, and most attempts never leave memory.
// It knows the desk through one thing, the Catalogue: an immutable picture of
// what is published, replaced as a whole when an event says that it changed, and
// compared with Postgres every two seconds in case the event was lost.
//
// # A plan's life
//
//	draft ──publish──▶ scheduled ──first opening──▶ running ──end──▶ ended
//	                       └──────────terminate───────┴──▶ terminated
//
// Every change locks its activity's row first, then stock rows in the order of
// items; permit holds the table of what is allowed when and says in words what
// is. Time moves an activity by Postgres's clock, one conditional update that one
// instance wins; a change that comes before the worker makes the move itself. A
// change commits together with its audit record, its stock rows and an event;
// afterwards its own request carries it to Redis, and if that fails the event
// does, and if that fails the repair round does. All three may happen, in any
// order: a view carries its activity's revision, a stock row its own, and an
// older one never replaces a newer.
//
// Asking for what already is, is answered with the activity as it is. A clone
// and a daily repetition move by the shop's wall clock (session_clock.go). What
// an item has on sale is its stock and the agreed share beyond it (unitsOnSale);
// every total is that number.
//
// # An item's way into Redis
//
// From its preheat time until it closes, an item has to be decidable. Each
// second every instance looks whether it is: not there, fenced, another Redis
// than the one that was loaded, or an edit after the preheat, and one instance,
// by a lease, has inventory load it. A rush that finds an item fenced asks for
// the same look at once (Catalogue.Heal) and moves it to the front of the line
// for Loads, where what is on sale goes before what opens later. Loads that fail
// wait longer each time and raise the alarm preheat-failed.
//
// # An attempt's way
//
//  1. POST items/{id}/rush-path, with a token: all checks at the door, and the
//     answer is a signed path that carries user, item, quantity, order number and
//     times. One path is one attempt, however often it is sent.
//  2. POST rush/{path}, without anything else: signature, times, catalogue, the
//     item's sold-out flag with the filter of its holders. Most end here.
//  3. The item's lane, a bounded line in this process. Its workers take what
//     waits and ask inventory about all of it in one call.
//  4. What was granted goes out as one durable message, repeated until it is
//     stored, and then everybody in the batch is told: queued, not won.
//  5. A hold whose order does not come is settled by the sweeper, which asks
//     first and publishes again last.
//
// # Invariants
//
//   - A published item has exactly one plan and one stock, which agree
//     (Checks: stock follows the plan).
//   - From 60 s before the first opening until the end, prices, limits and
//     windows do not change.
//   - Whoever may hold a unit is never told sold out: the filter has false
//     positives only.
//   - A repeated path never has a second effect, and a 202 is only answered for a
//     grant that is stored durably. It is answered again while the item is paused,
//     fenced or over (rush_again.go).
//   - Browsing asks Postgres for nothing. Only a view that Redis lost of a session
//     that the catalogue knows is written again, once for all who miss it.
//
// # Publishes and consumes
//
// Publishes grants.<item> (seckillevent.Batch) straight to the bus, and
// events.seckill.changed through the outbox. Consumes events.seckill.changed:
// once per instance for the catalogue, and as one shared durable for views and
// stock changes. Listens to inventory's broadcasts of returned units and Loads,
// which clear sold-out flags.
//
// # Life of a process
//
// New reads nothing. The workers fill the catalogue, move activities, keep the
// views and the items in Redis, run the lanes and sweep holds. When the process
// stops, HTTP has drained before the workers end; the lanes' worker then answers
// whoever is still in line and the preheat waits for its Loads.
package seckill
