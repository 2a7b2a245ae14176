// Package browse is the shop window: the sessions and items that shoppers see
// before they rush, and the server time for their countdowns. It answers without
// requiring a token, from memory or Redis.
//
// # Owns
//
// In Redis, the views (sv:*, one hash per session) and their index, and for a minute
// each the details of items (sd:*), which are finished answers. A view has only
// data that changes with the plan; the remaining units are read from the item's
// stock state on each read. The root owns the plan: this package is given a Plan
// and reads no table.
//
// # How a view stays true
//
//   - A change's own request writes its activity's views after the commit (Sync),
//     and the change's event repeats that until it succeeds.
//   - A view carries its activity's revision; put.lua never replaces a newer one.
//     A deleted session leaves a tombstone for a while that refuses older views.
//   - A member of the index records that every published session was written since
//     Redis was last empty. If it is missing, all views are rewritten.
//   - When another Redis server takes over, or the same one restarts, it may lack
//     the last writes: all views are rewritten, and views that are not in the plan
//     are withdrawn (store.renew).
//
// # Crowds
//
// A finished answer is cached for 1 to 2 s; concurrent misses of the same answer
// share one read from Redis. An id under which nothing is published costs at most
// one read, and then none for as long.
//
// # Invariants
//
//   - Browsing never queries Postgres, with two exceptions: a view that Redis lost
//     of a session that the catalogue knows is rewritten, once for all who miss it,
//     and the detail of an item is read about once a minute.
//   - HTML made of an operator's text executes nothing.
//   - The status is "sold out" only when every unit is paid for; before that it is
//     "all held".
package browse
