// Package plan is what is planned: activities with their sessions and items, what
// operators may write in them (Flaws), which actions are allowed when (Permit), and
// how a plan reads to operators, to shoppers and to the catalogue. It changes nothing;
// package change does.
//
// An item has on sale its stock and the agreed share beyond it (UnitsOnSale); every
// total is that number. What shoppers read on an item's page, and an activity's rules
// in words, are in tables of their own, with versions of their own.
//
// # Invariants
//
//   - A published item has exactly one plan and one stock, which agree, also about
//     its pause (Checks: stock follows the plan).
//   - Without a payment provider, nothing that costs money is published (Payable).
package plan
