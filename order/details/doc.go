// Package details keeps what a shopper settles about an order before its first
// payment: how the goods reach them, and what the activity asks of them (see
// seckillevent.Checkout).
//
// # Owns
//
// The table orders.details: a row per order whose shopper has settled it. Its names,
// phones, addresses and notes are personal data. Package order erases them when the order
// ended long enough ago, or soon after its end if the shopper deleted the account;
// until then the shop needs them to deliver.
//
// # Locks
//
// The order's row is locked before its details.
//
// # Pickup codes
//
// An order that is to be picked up gets its code with its details, so that neither
// the payment nor a later taking of money for a closed order has to make one; it is
// shown and accepted once the order is paid. A code has 60 random bits; it is looked
// up by its SHA-256, so that how long the search takes says nothing about codes that
// exist.
package details
