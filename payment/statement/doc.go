// Package statement compares the statements of payment providers with the ledger: money
// that a provider has and we never recorded, because a callback was lost after the closing
// or the database was restored, is found here and nowhere else.
//
// # Owns
//
// In schema payments: statements (what is to be fetched and what was compared),
// statement_lines and statement_differences. It only reads the ledger.
//
// # Days
//
// An operator names a day of the shop's. A provider states days of its own zone
// (Profile.Zone: WeChat Pay and Alipay those of China) or any span; the day's statements
// are those that overlap it. Lines and rows are compared by key (provider, kind,
// transaction), never by date: a line is looked up in the whole ledger, and a row in the
// lines of every day that was fetched. A movement of 23:59:59 that was recorded after
// midnight is a line of the day before, so that the statement of the day before is fetched
// too; until it is, extra rows are not known (partial). Rows of a day's last minute are
// compared with the next day, because clocks differ.
//
// # Differences
//
//   - missing: the provider has it, we do not. If it names a payment of ours that is not
//     captured, or a refund of ours, it can be settled exactly as the provider's answer to
//     a query would be: the order is paid, or the late money goes back by rule. Otherwise a
//     person looks at it.
//   - extra: we have it, the provider does not.
//   - different: both have it, with other sums or numbers. A refund that the provider made
//     and took back is one, too.
//
// Nothing is settled unless an operator asks for it, which the audit log records first.
// Settling twice has its effect once, by the ledger's key.
//
// # Lifecycle
//
// One worker on each instance: it plans the last three days of each provider, and fetches
// what is due, claimed in the database, so that one instance does it. Lines are written as
// they are read, 1000 at a time: memory is bounded however long a statement is. A
// statement that cannot be fetched is tried again every half hour. It never exits on an
// error.
package statement
