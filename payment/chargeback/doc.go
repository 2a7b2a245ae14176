// Package chargeback records payments that their shoppers' banks take back. The shop has
// no say in that: it answers in the provider's console, with proof of delivery, and an
// operator learns of each from the alarm "chargeback".
//
// A provider reports the whole chargeback with each change, and its reports overtake each
// other. What moved (the money withdrawn, and reinstated when the shop wins) is a row of
// the ledger each, under the provider's number of the chargeback; how it stands only goes
// from an inquiry of the bank to open, and to an end; and from lost to won, once the money
// is back. So the reports may come in any order, and repeatedly.
//
// The order stays as it is: what becomes of the goods is for an operator. What a
// chargeback holds cannot be refunded as well, and a refund that ended by a chargeback is owed
// again once that is won after all (package refund). Statements list both
// movements under one number. A movement that a statement has and the ledger has not is
// for an operator to look at: its event can be sent again from the provider's console.
package chargeback
