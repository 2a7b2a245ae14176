// Package refund refunds money that an order was paid with, because its shopper, an
// operator or a dispute asks for it. Money that no order keeps (late, duplicate, in
// another amount) is refunded by package payment, whose worker requests both kinds
// from the providers; from then on this package follows both.
//
// # States
//
//	awaiting_approval → requested | rejected        a second operator decides
//	requested         → succeeded | failed          the provider decides
//	succeeded         → failed                      it took the refund back, as card networks do
//	failed            → succeeded                   it made the refund after all
//	                  → settled_by_hand             paid back with a receipt
//	                  → charged_back                the shopper's bank took the money, and the shop lost
//	                  → replaced                    a new refund takes its place
//	charged_back      → failed                      the bank gave the money back after all
//
// A provider that has failed a refund keeps that answer for its number, so a retry is
// a new refund. Should the provider make the old one too, its report contradicts the
// books and raises an alarm. What was taken back has a reversal in the ledger beside its
// refund, and is failed like any other. Reports overtake each other: one that contradicts
// how a refund ended is not believed, but the provider asked.
//
// The order follows its refunds: while they do not reach all that was paid, its
// status stays. Then it is refunding, refund_failed while one of them has failed, and
// refunded when each has succeeded, was settled by hand or ended by a chargeback. One function, follow,
// derives the state from the rows after each change of one, in the same transaction.
// The units of a refunded order return to the stock or are written off there; so it stays
// refunded if money is taken back later, with the reason taken-back until it is paid again.
//
// # Invariants
//
//   - All refunds of a capture, except rejected and replaced ones, never exceed it.
//     They are counted under the order's row lock.
//   - Above Settings.RefundApprovalAbove an operator other than the requesting one
//     approves. What operators have asked back of an order counts together, so that
//     several small refunds need the approval that their sum needs.
//   - A movement has its ledger row, also one by hand: provider "by-hand", the
//     refund's number as its transaction. No provider's statement has it.
//
// Lock order: ledger key, stock row, order, refund. Only the refund that completes an
// order takes the stock row: a transaction that finds out too late that it needs it
// starts over with it.
//
// # Publishes
//
// events.payment.refund_awaiting when a second operator has to decide, events.payment.refunded
// when money went back, events.payment.refund_failed when it will not without an operator;
// order publishes the states.
package refund
