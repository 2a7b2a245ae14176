// Package risk decides at the door, from what the shop knows about a shopper,
// whether the shopper gets a rush path and how good a one. It is called when a
// path is issued; its decision travels in the path. The rush itself asks only
// whether its user has to pause.
// It owns the schema risk.
//
// # Four checks
//
//   - The blacklist (platform/identity/blacklist) refuses listed users. The order writer
//     checks it again, for users listed after the grant.
//   - Rules weaken the paths of offenders: users who let holds expire or have many unpaid
//     orders at the same time. The actions are graded: less time to pay, later admission,
//     a chance, no path. All rules that apply to a user apply together.
//   - A pause follows an order that was closed unpaid: in that activity the user gets
//     no path for UnpaidPause, four times as long after each further closing, and
//     then half the time to pay for each. A path issued before is refused by the
//     rush, which asks Paused; like the rules it reads only memory.
//   - The participation claim lets a user take part in one exclusive activity at a time.
//     It is a row in Postgres whose primary key is the user.
//
// # Its data and their sources
//
// A shopper without offences costs two map lookups: every instance has in memory
// the active rules and the few users that a rule applies to (risk.marks). It
// rereads them when a revision rises, which a broadcast announces immediately
// and a poll finds within half a second. Marks are derived from
//
//   - unpaid_holds: order events. Each unpaid closing is a row of risk.holds, which stays
//     without effect if the order was paid after all; the handler counts the users of
//     the event, and a full count every five minutes covers new rules and anything
//     missed.
//   - open_unpaid: the order module, queried about once a second by one instance
//     and only while there is such a rule. No copy is kept that could drift.
//
// A stored rule of another kind restricts no user. It is listed as not in force and
// named in the log at the start, so that an operator removes it.
//
// Pauses are derived from risk.holds too, and kept apart from the marks: a rush
// needs them, and each closing changes them. A broadcast makes every instance read
// what was written since its last read; without it an instance reads once a second.
// All of the last day are read at the start and every five minutes.
//
// A new shop has two rules about unpaid holds, which restrict no user for a week:
// during its dry run a rule only records decisions.
//
// A mark ends when its user falls below the threshold, and a rule at its
// expiry. While Postgres is unavailable the last snapshot stays in force.
//
// # Claims
//
// A claim is taken in one conditional statement when a path for an item of an
// exclusive activity is issued. It binds the user
//
//   - until the path can no longer become an order: its end plus a minute, the
//     time within which every queued number is settled;
//   - while an order of the activity is live;
//   - at most until an hour after the activity has ended (ClaimKeep).
//
// It is released early when the only number issued under it was refused, or
// closed unpaid. If several paths were issued it waits for the last one to end,
// because any of them may still be sent. Another request for the same activity
// prolongs it. Items of other activities never cost a query.
//
// # Invariants
//
//   - A path is never better than without the rules.
//   - Chance is a function of user, item and rule: retrying does not help.
//   - Every restriction has a row in risk.decisions with the rule at that time,
//     its data about the user, and the result. The queue of rows is bounded;
//     decisions that do not fit are counted.
//   - A refused shopper reads a neutral message: not that there is a list or a
//     rule.
//
// Consumes events.order.* as "risk-orders", idempotently: an older version of an
// order changes nothing. Publishes nothing but its own broadcast.
package risk
