// Package coupon keeps the coupons of a shop (优惠券): what operators offer, what
// shoppers were issued, and which order each one takes money off.
//
// # Owns
//
// In the schema orders: coupon_kinds, an operator's offer with its terms, which do
// not change once it is active; coupons, one row per user's coupon, never changed;
// and coupon_uses, at most one row per order, which says why the order has a
// discount. A coupon expires by Postgres's clock; no worker touches it.
//
// # Invariants
//
//   - A kind issues at most total coupons, and per_user of them to a user. Each
//     issue locks the kind's row; a CHECK and a unique key enforce both again. An
//     issue to many users happens for all of them or for none, and repeating it
//     changes nothing.
//   - A coupon takes money off one order at a time: a unique key over the uses
//     that are locked or used. A discount is a fixed amount, or a percentage of the
//     goods rounded down to the minor unit, and never more than the goods cost:
//     freight is paid in full.
//   - The use of an order and the order's discount change in one transaction, under
//     the lock of the order's row. Check proves that they agree.
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
// it expires meanwhile.
//
// # Locks
//
// Stock rows, then orders, then the one coupon that is chosen, then payments. An
// issue locks its kind and nothing else.
package coupon
