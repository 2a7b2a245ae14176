// Package seckill is the sale: what operators plan, what shoppers see, and the
// rush itself. It decides who may try and hands tries to inventory, which
// decides who wins; order turns wins into orders.
//
// # Owns
//
// In Postgres the schema seckill: activities, their sessions, their items, who
// reserved one, and the answers kept for Idempotency-Keys; and the schema risk,
// what is known about offenders and who takes part where. In Redis the views that
// shoppers browse (sv:*, one hash per session), the admission rates, and what
// reservation and risk keep there for a short while.
// Stock is not here: rows and counters belong to inventory and are reached only
// through it, in this module's transactions where a plan and its stock must
// change together.
//
// # Rooms
//
//	seckill            the planning: activities, sessions, items, their life, who
//	                   loads them, what shoppers browse
//	seckill/catalogue  what is published, in memory: all that the rooms share
//	seckill/rush       the hot half: paths, lanes, flags, queue, sweeper
//	seckill/challenge, reservation, risk
//	                   what is checked before a path is handed out
//	seckill/guard      puts those checks in their order
//	seckill/seckillevent
//	                   what others hear
//
// The planning (activity, session, item, admin, lifecycle, preheat, views, browse)
// is not hot: it may take a transaction per action and a second to follow. The
// rush never asks Postgres before an attempt is decided, and most attempts never
// leave memory. It knows the planning through one thing, the Catalogue: an
// immutable picture of what is published, replaced as a whole when an event says
// that it changed, and compared with Postgres every two seconds in case the event
// was lost. The planning asks the rush for two: its funnel and its admission rates.
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
// does; stock that still lags is brought up to date by the preheat's round, and
// views that a failover of Redis took back are written again. All of it may
// happen, in any order: a view carries its activity's revision, a stock row its
// own, and an older one never replaces a newer.
//
// Asking for what already is, is answered with the activity as it is. A clone
// and a daily repetition move by the shop's wall clock (session_clock.go). What
// an item has on sale is its stock and the agreed share beyond it (unitsOnSale);
// every total is that number.
//
// # An item's way into Redis
//
// From its preheat time until it closes, an item has to be decidable. Each
// second every instance looks whether it is (inventory's Look): not there, fenced,
// in another Redis than the one that was loaded, back at an older Load, or edited
// after the preheat, and one instance, by a lease, has inventory load it. A rush
// that finds an item fenced asks for the same look at once (Catalogue.Heal) and
// moves it to the front of the line for Loads, where what is on sale goes before
// what opens later. Loads that fail wait longer each time and raise the alarm
// preheat-failed.
//
// # Invariants
//
//   - A published item has exactly one plan and one stock, which agree
//     (Checks: stock follows the plan).
//   - From 60 s before the first opening until the end, prices, limits and
//     windows do not change. Stock is only added.
//   - Where nobody can take a payment, nothing that costs money is published.
//   - Browsing asks Postgres for nothing. Only a view that Redis lost of a session
//     that the catalogue knows is written again, once for all who miss it.
//
// # Publishes and consumes
//
// Publishes events.seckill.changed through the outbox, and grants by the rush.
// Consumes events.seckill.changed: once per instance for the catalogue, and as one
// shared durable for views and stock changes. Package risk consumes events.order.*.
//
// # Life of a process
//
// New reads nothing. The workers fill the catalogue, move activities, keep the
// views and the items in Redis, run the lanes and sweep holds. When the process
// stops, HTTP has drained before the workers end; the lanes' worker then answers
// whoever is still in line and the preheat waits for its Loads.
package seckill
