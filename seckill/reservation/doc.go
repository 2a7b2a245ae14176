// Package reservation gives shoppers the qualification to rush (预约): while a
// session's reservation is open, whoever asks for an item gets one, up to a cap
// where the operator set one; and only those who hold one get a rush path.
//
// # Owns
//
// seckill.reservations, one row per user and item, which is the truth and nothing
// else is; and seckill.reservation_counts, one row per item with a cap. The
// session's settings belong to package seckill and come from its catalogue.
//
// # Invariants
//
//   - Nobody has two: the primary key says so. Asking again gets the same answer.
//   - No more than floor(cap × stock) of an item are given out. The counter is
//     raised by the statement that inserts the row, and its CHECK undoes both.
//     Without a cap there is no counter, and nobody waits for another's commit.
//   - The window is judged by Postgres's clock in that statement. This process's
//     own idea of the time only refuses what is more than clockTolerance outside.
//   - A user who loses a reservation gave it back before the window closed; later
//     nothing changes, which is what the caches live by.
//
// A cap may be lowered below what is given out: that takes nothing from anybody,
// and no more are given out. Stock that is added raises it. An item of unlimited
// stock has no cap.
//
// # Giving out
//
// Requests that come while others are under way are decided as one, by one
// statement for up to batchMost of them (give.go). So a crowd holds batchesAtOnce
// of the module's connections, however long a commit or a counter's row takes, and
// a counter is raised once for all of them.
//
// # The lock
//
// Requests of one user for one item take turns by a lock in Redis (redisx.Locks),
// so that a client that sends a hundred at once takes one place in a batch at a time
// and makes one human check in all. Nothing rests upon it: a request that cannot get
// it, because the lock's nodes are down or the others take too long, goes on without.
//
// # Asking who holds one
//
// The door asks for each path. Questions that come while others are under way are
// put together and asked as one (lookup.go), so that a crowd costs Postgres a query
// per some hundred paths. From settleAfter after the window closed the answers
// cannot change any more, and are kept: in this process for a short while, and in
// Redis as small sets of users, each named by the item, the moment of closing, and
// the user's bucket. A window that an operator moves gets other sets. Before that,
// Postgres is asked each time, so that a place that was given back is no place.
// Where Redis does not answer, Postgres does; where Postgres does not either, no
// path is given out.
//
// An item whose session asks for no reservation costs its door one comparison.
//
// # Lifecycle
//
// What is under way ends by itself within lookupTimeout or giveTimeout, also when
// everybody who waited for it has left. One worker deletes, in bounded steps, the
// reservations of sessions that ended longer ago than records are kept; their
// items then show none.
package reservation
