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
//	seckill            wires the others, and tells other modules of the plan (Plan)
//	seckill/plan       what is planned, what may be written in a plan, and what may
//	                   be done with it when
//	seckill/change     what operators change, each in one transaction
//	seckill/readiness  the preflight of a sale
//	seckill/funnel     what operators watch: funnel and war room
//	seckill/report     what a session was, as a page
//	seckill/saleoffice the back office's pages about sales
//	seckill/catalogue  what is published, in memory: all that the others share
//	seckill/browse     what shoppers look at before they rush
//	seckill/shop       the shop's pages
//	seckill/bulletin   publishes what becomes of sessions and items on sale
//	seckill/preheat    keeps what is due loaded in Redis
//	seckill/door       who gets a rush path; asks reservation, risk and the human
//	                   check
//	seckill/reservation
//	                   the qualification to rush, and who has it
//	seckill/risk       what is known about a shopper's behaviour, and what follows
//	seckill/rush       the hot half: paths, lanes, flags, places in line
//	seckill/queue      what the rush hands to the order writer, and the sweeper of lost grants
//	seckill/seckillevent
//	                   what other modules hear
//
// New receives the catalogue, the places in line, the queue of grants and the door's
// decisions; none of the packages below imports the root. The plan is not hot: an
// action may take a transaction and a second to take effect. The rush never queries
// Postgres before an attempt is decided, and most attempts never leave memory. Like
// the other packages it knows the plan only through the catalogue. What the rush
// counts reaches the funnel through platform/watch/tally.
//
// # Publishes and consumes
//
// Publishes events.seckill.changed and those of package bulletin through the outbox, and
// grants by the rush.
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
