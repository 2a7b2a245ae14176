// Package reservation gives shoppers the qualification to rush (预约): while a
// session's reservation is open, every shopper who requests a reservation of an
// item gets one, up to a cap if the operator set one; and only shoppers with a
// reservation get a rush path.
//
// # Owns
//
// seckill.reservations, one row per user and item, the only source of truth; and
// seckill.reservation_counts, one row per item with a cap. The session's settings
// belong to package seckill and come from its catalogue.
//
// # Invariants
//
//   - A user has at most one reservation of an item: the primary key guarantees
//     it. Requesting it again gets the same answer.
//   - At most floor(cap × stock) reservations of an item are granted. The
//     statement that inserts the row raises the counter, and its CHECK rolls back
//     both. Without a cap there is no counter, and no user waits for another's
//     commit.
//   - Postgres's clock judges the window in that statement. This process's own
//     clock only refuses what is more than clockTolerance outside.
//   - A user can lose a reservation only by giving it back before the window
//     closes; afterwards nothing changes, which the caches rely on. Once paths are
//     issued nothing is given back: the rush trusts a path and looks up no
//     reservation, so a place that changed hands would let two users rush.
//
// A cap may be lowered below the number already granted: no reservation is
// revoked, and no more are granted. Added stock raises it. An item of unlimited
// stock has no cap.
//
// # Granting
//
// Requests that arrive while others are in progress are decided together, by one
// statement for up to batchMost of them (give.go). So a crowd uses at most
// batchesAtOnce of the module's connections, however long a commit or a counter's
// row takes, and a counter is raised once for all of them.
//
// # The lock
//
// Requests of one user for one item take turns by a lock in Redis (redisx.Locks), so
// that a client that sends a hundred concurrently takes one place in a batch at a
// time and passes one human check in all. Correctness does not depend on it: a
// request that cannot get the lock, because its nodes are down or the other requests
// take too long, continues without it.
//
// # Looking up reservations
//
// The door looks up a reservation for each path. Lookups that arrive while others
// are in progress are batched (lookup.go), so that a crowd costs Postgres one query
// per some hundred paths. Starting settleAfter after the window closed, the answers
// can no longer change and are cached in this process for a short while; a window
// that an operator moves starts without answers. Before that, every lookup goes to
// Postgres, so that a reservation that was given back does not count. If Postgres
// does not answer, no path is issued to a user who is not in the cache. A cache that
// the instances share would save little: the first lookup of each user would reach
// Postgres all the same.
//
// For an item whose session requires no reservation the door's check is one
// comparison.
//
// # Lifecycle
//
// Work in progress ends within lookupTimeout or giveTimeout, even if all its
// callers have left. One worker deletes, in bounded steps, the reservations of
// sessions that ended longer ago than the retention period; their items then show
// none.
package reservation
