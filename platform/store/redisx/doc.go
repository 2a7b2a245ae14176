// Package redisx opens Redis by URL: one server, a sentinel group or a cluster.
//
// # What a failover means
//
// Redis replicates after it has answered. A replica that takes over may lack
// the last grants that its primary gave, and no command (not even WAIT, which
// confirms only that a replica received something) makes the two agree. So
// nothing here relies on it: a server that takes over has another run id, every
// item loaded before refuses to decide (503 fenced), and a Load brings it back
// from Postgres and from the grants in NATS, which were stored before any
// shopper got a 202. The sale is unavailable for as long as the group takes to
// notice and elect, about a second for the client to follow, and, with several
// instances, the publish deadline, because another one may still be publishing
// what it was granted.
//
// A primary that is cut off without knowing it continues to grant under its old
// epoch. Postgres has left that epoch behind once the new primary is loaded:
// attempts that got a 202 meanwhile end refused (interrupted), and nothing is
// oversold. min-replicas-to-write and min-replicas-max-lag bound how long this
// lasts.
//
// Copies in Redis that are not fenced, such as the order cache, may go back in
// time in a failover. Their owners detect it through Takeovers and start over.
//
// # What the operator must configure
//
//   - every server, replicas too: appendonly yes, appendfsync always,
//     maxmemory-policy noeviction. Check reads them, in a cluster from every node,
//     under sentinels from the primary.
//   - sentinels: three or more, a quorum of two, on three machines.
//     down-after-milliseconds is the greatest part of a sale's downtime;
//     the default of 30 s is too long for one.
//   - a cluster: cluster-require-full-coverage no, so that the items of the other
//     nodes keep selling; cluster-node-timeout is what down-after-milliseconds is
//     above.
//   - two replicas or more: min-replicas-to-write 1. With a single replica this
//     would stop the sale when the replica stops.
//
// # Clusters
//
// The keys that one script or transaction touches are in one slot: an item's
// keys, those of all items of an activity under one rule, the rate limits.
// While one node is down, the items on the others sell; a slot may move during
// a sale.
package redisx
