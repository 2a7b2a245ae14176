// Package catalogue is what is on sale, in memory: the one thing that the halves
// of seckill share.
//
// The planning half writes activities, sessions and items into Postgres, in
// transactions; the rush has no time for either. The Catalogue connects them: an
// immutable snapshot of what is published and not long over. A refresh reads the
// plan and replaces the snapshot as a whole, so a lookup never waits, never sees
// half a change and allocates nothing, and an Item that was handed out never
// changes.
//
// # How fresh it is
//
// The operator's own request refreshes the instance that answered it, an event
// refreshes the others, and every two seconds each instance compares the plan's
// fingerprint with its own, in case the event was lost. A failed read keeps the
// old snapshot. Redis decides what must not be outdated even that long: windows
// and pauses.
//
// # Dependencies
//
// The package reads no table: it is given a Plan, which the planning half
// implements. It also carries one message in the other direction: a rush that
// finds an item fenced reports it (Heal), and the preheat receives it (Fenced),
// through a channel that never blocks its sender. Reports that do not fit are
// dropped, because the preheat checks the items every second anyway.
package catalogue
