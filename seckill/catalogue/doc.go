// Package catalogue is what is on sale, in memory: the one thing that the halves
// of seckill share.
//
// The planning writes activities, sessions and items into Postgres, in
// transactions; the rush has no time for either. Between them stands the
// Catalogue, an immutable picture of what is published and not long over. A
// refresh reads the plan anew and replaces the picture as a whole, so whoever
// looks never waits, never sees half a change and allocates nothing, and an Item
// that was handed out stays as it was.
//
// # How fresh it is
//
// The operator's own request refreshes the instance that answered it, an event
// refreshes the others, and every two seconds each compares the plan's
// fingerprint with the one it has, in case the event was lost. A read that fails
// leaves the picture. What must not be outdated for even that long, windows and
// pauses, Redis decides.
//
// # Dependencies
//
// The package knows no table: it is given a Plan, which the planning implements.
// It also carries one message the other way. A rush that finds an item fenced
// says so (Heal), and whoever loads items hears it (Fenced): a channel that never
// blocks its sender and drops what does not fit, because the items are looked at
// every second anyway.
package catalogue
