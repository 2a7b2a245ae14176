// Package redistest starts Redis servers that belong to one test: a single one,
// a group under sentinels, and a cluster. Tests may kill them, which the shared
// server of platform/workshop/pgtest does not allow.
//
// All listen on 127.0.0.1, keep their files in the test's folder, and end with
// the test. Time-outs are set as low as they stay reliable on a busy machine, so
// that a failover takes one to three seconds instead of the half minute of the
// defaults; nothing else differs from what an operator would run.
package redistest
