// Package snapshot replicates a part of Postgres into the memory of every
// instance, so that reading it costs no query.
//
// The source has a revision, one number in one row, which every change raises
// in its own transaction. After the commit a broadcast makes all instances
// compare it; an instance that misses the broadcast compares twice a second. So
// a change takes effect everywhere within a second, and on the instance that
// made it before Change returns. A copy is immutable, belongs to one revision,
// and is replaced as a whole. While Postgres is away the last copy stays in
// use.
package snapshot
