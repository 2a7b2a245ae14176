// Package seckill is the sale: the operators' plan, the shop window and the
// rush itself. It decides who may try and passes attempts to inventory, which
// decides who wins; order turns wins into orders.
//
// # Owns
//
// In Postgres, the schema seckill: activities, their sessions, their items,
// reservations, and the answers kept for Idempotency-Keys; and the schema risk:
// records about offenders and about who takes part where. In Redis, the keys of
// browse, rush, reservation and risk. Stock is not here: rows and counters
// belong to inventory and are reached only through it, in this module's
// transactions where a plan and its stock must change together.
//
// # Packages
//
//	seckill            the plan: activities, sessions, items, their life, and the
//	                   operators' routes
//	seckill/catalogue  what is published, in memory: all that the others share
//	seckill/browse     what shoppers look at before they rush
//	seckill/preheat    keeps what is due loaded in Redis
//	seckill/door       who gets a rush path; asks reservation, risk and the human
//	                   check
//	seckill/rush       the hot half: paths, lanes, flags, queue, sweeper
//	seckill/seckillevent
//	                   what other modules hear
//
// New receives the catalogue and the door's decisions; none of the packages below
// imports the root. The plan is not hot: an action may take a transaction and a
// second to take effect. The rush never queries Postgres before an attempt is
// decided, and most attempts never leave memory. Like the other packages it knows
// the plan only through the catalogue. What the rush counts reaches the funnel through platform/watch/tally.
//
// # A plan's life
//
//	draft ──publish──▶ scheduled ──first opening──▶ running ──end──▶ ended
//	                       └──────────terminate───────┴──▶ terminated
//
// Every change locks its activity's row first, then stock rows in the order of
// items; permit is the table of what is allowed when, and phrases refusals for the
// operator. Time moves an activity by Postgres's clock, one conditional update
// that one instance wins; a change that runs before the worker makes the
// transition itself. A change commits together with its audit record, its stock
// rows and an event. Afterwards its own request carries it to Redis, and if that
// fails the event does; the preheat applies stock that still lags, and browse
// rewrites views that a failover of Redis lost. All of this may happen in any
// order: a view carries its activity's revision, a stock row its own, and an older
// one never replaces a newer one.
//
// Requesting a state that an activity is already in returns the activity
// unchanged. From 60 s before the first opening a plan is not edited but corrected:
// names, title, spec and picture change, and an end moves later (amend.go). Units are
// added, taken off or written off, and an item is paused by itself; its stock row has
// the pause of the item or the activity, so that the rush looks at one field. What
// shoppers read on an item's page, and an activity's rules in words, are in tables of
// their own, with versions of their own. A clone and a daily repetition move by the
// shop's wall clock (session_clock.go). An item has on sale its stock and the agreed
// share beyond it (unitsOnSale); every total is that number.
//
// # Invariants
//
//   - A published item has exactly one plan and one stock, which agree, also about
//     its pause (Checks: stock follows the plan).
//   - From 60 s before the first opening until the end, prices, limits and
//     openings do not change, and an end only moves later. Units that leave the sale
//     are those that no shopper holds, in both counts.
//   - Without a payment provider, nothing that costs money is published.
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
// the requests that are still in line and the preheat waits for its Loads.
package seckill
