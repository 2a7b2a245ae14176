// Package points keeps the points of shoppers (积分): what their paid orders earned, and
// what refunds took back.
//
// # Owns
//
// The table orders.points, a ledger to which entries are only added. A user's balance is
// its sum, read over an index: a shopper has few orders, and an order few entries. Nothing
// keeps it above zero: what a refund takes back, it takes whether or not the shopper has
// spent it in the shop's own systems.
//
// # Invariants
//
//   - An order earns its activity's points_rate for each 100 minor units of what the
//     shopper paid, freight and discount included, rounded down. The rule in force when
//     it was paid is the one the plan has for ever: no operator can change it from 60 s
//     before the first opening on, and no instance remembers an older one for longer.
//   - Of E points for an amount A, refunds of R in all take back E*R/A, rounded down: all
//     of them with the last refund, whatever the parts were. Only refunds of the order
//     count, not those of money that paid no order, nor a chargeback, whose money may come
//     back: a part that a refund sought and a chargeback took keeps its points until the
//     order is refunded. A refunded order keeps none, also if
//     its money went by a chargeback or is owed again since a provider undid the refund.
//   - Check proves both against the orders, the plan and the refunds.
//
// # Events
//
// The package follows orders that are paid or refunded, and refunds that succeed or fail.
// An event only says which order to look at: the handler locks the order's row, reads
// what was earned, what went back and what is booked, and books the difference. So
// events may come twice, at several instances and in any order, and a refund that is
// handled before the payment books what was earned first. Where a partial refund was
// undone by its provider, the difference is positive (given_back) until it is retried.
// The payment of an order without a rule costs no statement.
//
// # Publishes
//
// events.points.earned, taken_back and given_back (order/pointsevent), each in the
// transaction of its entry.
//
// # Locks
//
// The order's row and nothing else.
package points
