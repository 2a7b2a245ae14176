// Package desk lets operators act on orders: one by its own routes, and up to a
// thousand by one request.
//
// It owns no table. Each act is a change of package order or payment/refund, which has
// its own transaction with its line in the order's history and in the audit log; what
// an operator does for a shopper, cancel and refund, says why.
//
// # Lists
//
// POST admin/orders/actions answers with JSON lines: one for each order as it ends, and
// a last one with the sums. An order that fails does not keep the others from being
// done. Orders of a list share nothing: when the client leaves, orders under way end and
// the others are not begun. Repeating the request with its Idempotency-Key does what was
// not done and answers the same for what was: the key of an order is derived from both
// (see keyOf); cancel and ship need none, because a second time they find what they want.
package desk
