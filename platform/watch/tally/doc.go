// Package tally keeps what a sale's funnel is made of: per subject (an item) and
// second, how often each step ended in which way, over all instances.
//
// # Counting
//
// A module counts on its instance's Board: Count for what happens in batches or
// rarely, a Source for what is counted many thousand times a second and whose
// counters are therefore its own. Names belong to the modules: a stage ("answers")
// and a code ("sold-out"). Mark keeps the first and the last moment at which
// something happened, to the millisecond.
//
// # Storing
//
// One goroutine per instance folds the counts once a second into one statement:
// a row per subject and second for the curves, and the subject's totals. A row's
// key is the instance, its second and the subject, so that a statement whose
// outcome is unknown is repeated without counting twice. While Postgres does not
// answer, counts gather in memory and belong to the second in which it is back.
//
// What a process counted in its last second is lost if it is killed, and stored if
// it is stopped. The funnel is a measurement; the orders and the ledger are the
// books, and verify does not rely on this package.
//
// # Gauges
//
// What is measured and not counted, such as open sockets, is a Gauge: each instance
// stores its latest value, and the sum over those that still report is the shop's.
//
// # Bounds
//
// Seconds are kept for 90 days, totals and moments as long as the database: one
// row per item. Reading sums the totals of the requested subjects, so that it costs
// the same after a minute and after a day.
package tally
