// Package redlock is the lock that many keep in Redis: SET key token NX PX to
// take it, a compare-and-delete to give it back, a compare-and-extend to keep it
// longer. Over one node, or over N independent ones of which a majority decides
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
//
// # What it gives
//
// Two callers rarely do the same work at the same time. A caller that dies gives
// the lock back by itself when its time is over. Nobody gives back a lock that is
// another's by now: both scripts compare the token, which is random per holding,
// and do nothing for another one. While Redis keeps its data and no holder
// outlives its time, at most one holds it.
//
// # What it does not give
//
// Mutual exclusion that something may rest upon. A holder that is stopped for
// longer than its time (a collection, a suspended machine, a packet in a queue)
// goes on in the belief to hold what another has by now. A node that restarts
// without its data, or a replica that takes over before it has heard of the
// lock, gives it out twice. The majority over N nodes makes the second case
// rare, not impossible, and does nothing about the first: see Martin Kleppmann,
// "How to do distributed locking",
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html.
//
// What would repair both is a fencing token: a number that grows with each
// holding and that the guarded store compares. A random token is none, and one
// counted in Redis would be lost with Redis. Where a store can compare, it does
// not need this lock; where work must be done once, use a row in Postgres with a
// unique key or a conditional update, or platform/lease, whose token grows and
// is kept in Postgres. Use this package to save work, never to be right: every
// caller must stay correct when two hold the lock, and should go on without it
// when ErrNoQuorum says that Redis cannot be asked.
//
// # Time
//
// A holding is counted by this process's monotonic clock from before the first
// node was asked, less what the nodes' clocks may drift apart meanwhile
// (driftShare of the time and driftLeast). Nodes whose clocks run at different
// speeds by more than that break the quorum.
//
// # Concurrency
//
// A Locker is safe for concurrent use. A Lock belongs to whoever acquired it;
// Extend and Release must not be called at the same time. There are no
// background goroutines: a lock is not extended unless its holder does it.
package redlock
