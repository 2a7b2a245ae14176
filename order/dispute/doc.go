// Package dispute lets shoppers dispute an order that they have paid, and operators
// answer (售后).
//
// # Owns
//
// The tables orders.disputes, one row per dispute, and orders.dispute_texts, what both
// sides wrote after the reason. A dispute changes no order: a refund that closes it
// does, as any refund. What was written is personal data: package order erases it when the
// dispute was closed long enough ago, or soon after if the shopper deletes the account.
//
// # States
//
//	open     → answered   the shop answers
//	answered → open       the shopper replies
//	either   → closed     the shop closes it, with a refund or without
//
// # Invariants
//
//   - An order has at most one dispute that is not closed, and maxDisputes in all.
//   - A dispute closes with at most one refund, which is requested in the transaction that
//     closes it. The order's lock comes before the dispute's.
//   - Each change, its event and its line in the audit log commit together.
//
// # Publishes
//
// events.dispute.* (order/disputeevent) through the outbox.
//
// # Watches
//
// The alarm dispute-unanswered says that disputes have waited for the shop for two
// days.
package dispute
