// Package risk decides at the door, with what the shop has learned of a shopper,
// whether he gets a rush path and how good a one. It is asked when a path is
// issued and never by the rush itself: what it decides travels in the path. It
// owns the schema risk.
//
// # Three checks
//
//   - The blacklist (platform/identity/blacklist) keeps people out. The order writer asks
//     it again, for who was listed after the grant.
//   - Rules weaken the paths of those who do harm: of whoever lets holds expire,
//     has many unpaid at once, or keeps running into refusals. The actions are
//     graded: less time to pay, later admission, a chance, nothing at all. All
//     rules that hit somebody apply together.
//   - The participation claim lets a user take part in one exclusive activity at
//     a time. It is a row of Postgres whose primary key is the user.
//
// # What it knows, and where from
//
// An innocent shopper costs two map lookups: every instance has the active rules
// and those few users whom a rule hits (risk.marks) in memory, read again when a
// revision rises, which a broadcast tells at once and a poll within half a
// second. Marks follow from
//
//   - unpaid_holds: order events. Each unpaid closing is a row of risk.holds; the
//     handler counts the users it has just met, and a full count every five
//     minutes makes good what a new rule or a lost moment left out.
//   - open_unpaid: the order module, asked about once a second by one instance
//     and only while there is such a rule. There is nothing to drift from.
//   - refusals_per_minute: counters in Redis, one hash for each minute, which
//     instances add to twice a second. Redis may lose them: they are worth a
//     minute.
//
// A mark ends by itself when its user falls below the threshold, and a rule at
// its expiry. When Postgres is away the last picture stays in force.
//
// # Claims
//
// A claim is taken in one conditional statement when a path for an item of an
// exclusive activity is issued. It binds
//
//   - until the path can no longer become an order: its end and a minute, the
//     time within which every queued number reaches its end;
//   - while an order of the activity is live;
//   - at the longest until an hour after the activity has ended (ClaimKeep).
//
// It is given back early when the one number that was issued under it was
// refused, or closed unpaid. With several paths issued it waits for the last to
// end, because any of them may still be sent. Asking again for the same activity
// prolongs it. Items of other activities never cost a query.
//
// # Invariants
//
//   - A path is never better than without the rules.
//   - Chance is a function of user, item and rule: asking again does not help.
//   - Whoever is restricted has a row in risk.decisions with the rule as it was,
//     what it saw and what came of it. The queue of rows is bounded; what it
//     could not take is counted.
//   - A refused shopper reads ordinary words: not that there is a list or a rule.
//
// Consumes events.order.* as "risk-orders", idempotently: an older version of an
// order changes nothing. Publishes nothing but its own broadcast.
package risk
