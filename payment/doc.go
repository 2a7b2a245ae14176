// Package payment takes shoppers' money through providers and refunds what
// it must not keep.
//
// # Owns
//
// Postgres schema payments: payments (one row per attempt to pay an order, at
// most one open per order), refunds (money that has to be returned), and the ledger
// (money that really moved, one row per provider transaction, append-only).
// The sandbox bank in payment/sandbox owns schema sandbox and shares nothing
// with this package but HTTP. Providers implement payment/provider and prove it
// with payment/providertest: payment/wechatpay, payment/alipay,
// payment/stripe and the sandbox's client. payment/providers opens those that the settings name. Refunds that a
// shopper, an operator or a dispute asks for are decided in payment/refund, which also
// follows every refund to its end. payment/view shows the payments of an order; what works
// on an order and its money together is in order/desk, above this package.
//
// payment/chargeback records payments that shoppers' banks take back. payment/statement
// compares the ledger with the providers' statements, and settles what was never
// recorded, through this package.
//
// # Invariants
//
//   - A movement of money takes effect once. Its ledger row is written first
//     in the transaction of the effect, and its key (provider, kind, the
//     provider's transaction) makes every repetition, also one that arrives at
//     another instance at the same moment, a no-op.
//   - Capture, order and event change in one transaction. Money for a closed order
//     pays it nevertheless if its item has units in the backup (package order,
//     Retake) and no operator canceled it. Other money for an order that is no longer pending, for one that is
//     paid already, or in another amount than was charged gets its refund row in
//     that same transaction; so the ledger less the open refunds always equals what
//     paid orders cost (I4).
//   - A callback with another amount than was charged is not believed: an alarm
//     is raised and the provider is queried. Its answer to our query is what
//     moved, and is refunded in full if it differs, while the order stays as it
//     is. Without an answer nothing is written and the callback is refused, so
//     that the provider sends it again.
//   - An order is closed only after its payment is closed at the provider. If
//     the money was faster, the order is paid, claimed or not. A provider that gives
//     no answer delays that until CloseUnansweredAfter the deadline; then the order
//     is closed with an alarm, its payment is queried further, and its money is late.
//   - A provider's expiry is never later than the order's deadline. Its shortest
//     window (Profile.MinWindow) is therefore also the last chance to pay: with
//     less time left, no payment is started.
//   - An order of zero amount is captured by the request to pay, with provider
//     "free" and a ledger row of zero. It needs no provider and no exception in
//     the books.
//   - The payment, the order's discount and its coupon fit each other: they change in
//     the transaction that opens the payment. An open payment of another amount is
//     closed at its provider first; if its money still arrives, it does not pay the
//     order, which costs another amount now, and goes back.
//
// A callback that its provider did not sign, or that cannot be read, reaches no
// store: it is refused, counted in memory, and many of them within a minute are an
// alarm (forged.go).
//
// Lock order: the ledger's key, then the stock row for late money and for an order
// that becomes refunded, then the order's row and its coupon (all package order), then rows of this
// schema. A transaction that waits for a ledger key holds no other lock. No
// transaction waits for a provider.
//
// # Publishes
//
// events.payment.captured when money paid an order, in time or late;
// events.payment.surplus when it paid none and goes back; events.payment.refunded
// when money was refunded, and events.payment.refund_failed when it will not be without
// an operator; events.payment.closed when a payment ended without money. order publishes
// that the order is paid, in the same transaction. All through the outbox.
//
// # Consumes
//
// No events. It calls order (Payable, Choose, MarkPaid, Claim, CloseClaimed,
// LockForRefund, MoveRefunding) because they share its transaction or its protocol,
// and reads order's table in Checks because books are compared in one snapshot.
//
// # Lifecycle
//
// New, Routes, Workers. Three workers run on each instance and share the work by
// SKIP LOCKED: order-expiry closes orders that were not paid in time, payment-queries queries open payments whose callback has not
// arrived (first after 30 s, then less and less often; it closes them once they
// have expired or their order no longer waits for them), payment-refunds
// requests and queries refunds until they end. Neither exits on an error. A stop
// in the middle leaves rows that are due again later.
//
// # Size
//
// The package has more than 2,000 lines because checkout, callbacks, queries and
// closing change the same row of a payment under one order of locks, and each may find
// that another was first.
package payment
