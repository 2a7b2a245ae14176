// Package coupon keeps the coupons of a shop (优惠券): what operators offer, what
// shoppers were issued, and which order each one takes money off.
//
// # Owns
//
// In the schema orders: coupon_kinds, an operator's offer with its terms, which do
// not change once it is active; coupons, one row per user's coupon, never changed but by its recall;
// and coupon_uses, at most one row per order, which says why the order has a
// discount. A coupon expires by Postgres's clock; no worker touches it.
//
// # Invariants
//
//   - A kind issues at most total coupons, and per_user of them to a user. Each
//     issue locks the kind's row; a CHECK and a unique key enforce both again. An
//     issue to many users happens for all of them or for none, and repeating it
//     changes nothing.
//   - By rule a user gets one coupon of a kind at most, the first; none is issued again
//     when an event, a page of reservations or the whole walk over them is repeated.
//   - A coupon takes money off one order at a time: a unique key over the uses
//     that are locked or used. A discount is a fixed amount, or a percentage of the
//     goods rounded down to the minor unit, and never more than the goods cost:
//     freight is paid in full.
//   - The use of an order and the order's discount change in one transaction, under
//     the lock of the order's row. Check proves that they agree.
//
// # By rule
//
// A kind may be issued to new accounts, by their event, or to users who reserved, by a
// worker that walks an item's reservations once they have closed. So a reservation
// pays nothing for it, and one that was given back brings no coupon.
// The alarm coupons-used-up says that a rule promises more than the kind's total.
//
// # Uses
//
//	locked    a payment of the order was started with it
//	used      the order was paid
//	returned  the order was closed or refunded in full; the coupon can be used again
//	borne     money came late for a closed order, whose stock took it back, and the
//	          coupon was in use elsewhere by then: the shop bears the discount
//
// A coupon that was chosen in time keeps its discount until its order ends, even if
// it expires or is recalled meanwhile. A recalled one serves no further order; a kind's
// recall is a time on its row, with which its coupons' issue is compared.
//
// # Publishes
//
// events.coupon.issued, used, returned and recalled (order/couponevent), each in the
// transaction of its change.
//
// # Locks
//
// Stock rows, then orders, then the one coupon that is chosen, then payments. An
// issue locks its kind and nothing else.
package coupon
