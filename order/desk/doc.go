// Package desk shows orders and acts on them where an order and its money meet: the
// documents of shoppers and operators, the details before the payment, the operators'
// actions, singly and up to a thousand by one request, the search and the disputes.
//
// It stands above order and payment, is built after both, and owns no table; those of
// details, actions and disputes belong to the packages of these names. Each action is one
// transaction with its line in the order's history and in the audit log; what an
// operator does for a shopper, cancel and refund, says why. Cancel is payment's, by the
// protocol that shoppers' cancel has.
//
// # Lists
//
// POST admin/orders/actions answers with JSON lines: one for each order as it ends, and
// a last one with the sums. An order that fails does not keep the others from being
// done. Orders of a list share nothing: when the client leaves, orders under way end and
// the others are not begun. Repeating the request with its Idempotency-Key does what was
// not done and answers the same for what was: the key of an order is derived from both
// (see keyOf); cancel and ship need none, because a second time they find what they want.
//
// # Shipments
//
// POST admin/shipments and its import of a sheet ship many orders, each with a carrier and a
// number of its own. They look at 200 orders with three queries, which is all that a dry run
// does, and note those that are ready by the transaction of the other routes (ship), which
// looks again under the order's row lock: a refund or another operator may have been there
// first. Unlike the action ship they check numbers against carriers, never change what was noted
// before, and answer in words that a person reads beside the row.
package desk
