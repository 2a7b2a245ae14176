// Package browse is the shop window: the sessions and items that shoppers look at
// before they rush, and the time by which they count down. It answers anybody,
// without a token, from memory or Redis.
//
// # Owns
//
// In Redis the views (sv:*, one hash per session) and their index. A view has what
// does not change by itself; what is left of an item is read from its stock state
// when it is looked at. The plan itself is the root's: this package is given a Plan
// and knows no table.
//
// # How a view stays true
//
//   - A change's own request writes its activity's views after the commit (Sync),
//     and the change's event repeats that until it has worked.
//   - A view carries its activity's revision; put.lua never replaces a newer one.
//     A deleted session leaves a mark for a while that refuses older views.
//   - The index has a member that says that every published session was written
//     since Redis was last empty. Where it is missing all views are written again.
//   - When another Redis server took over, or the same one started again, it may
//     lack the last writes; all views are written again, and what it shows beside
//     the plan is withdrawn (takeover.go).
//
// # Crowds
//
// A finished answer is kept for 1 to 2 s; callers that miss the same one wait for
// one look into Redis. Ids that nothing was published under cost one look at most,
// and then none for as long.
//
// # Invariants
//
//   - Browsing asks Postgres for nothing. Only a view that Redis lost of a session
//     that the catalogue knows is written again, once for all who miss it.
//   - "Sold out" is said when every unit is paid for; before that it is "all held".
package browse
