// Package pgtest gives each test a private, real Postgres database and Redis,
// in some tens of milliseconds.
//
// # What a test gets
//
// DB and DatabaseURL return a fresh database with all migrations applied,
// cloned from a template; Redis and RedisURL return an empty logical Redis
// database. Both are private to the test and are reclaimed with it, so tests
// may run in parallel. Server-wide state is shared and must not be changed:
// FLUSHALL, SCRIPT FLUSH, CONFIG SET, ALTER SYSTEM.
//
// # Where the servers come from
//
// With STAMPEDE_TEST_DATABASE_URL (an account that may create databases) and STAMPEDE_TEST_REDIS_URL (whose databases
// other than 0 are emptied) those servers are used. `make test` runs `go test ./...` through pgtest/servers, which starts
// one Postgres and one Redis and passes their URLs: go test runs each package in a process of its own, and starting
// servers in each would take longer than the tests.
//
// Otherwise, under a plain `go test`, each test process starts its own pair
// when its first test needs one.
//
// The servers belong to a separate process, which is the starting binary
// executed once more. It reads from a pipe that the kernel closes when its
// starter exits, even by kill -9; then it stops both servers and deletes their
// data. Durability is switched off: a crash of the machine ends the tests
// anyway.
//
// A package needs no TestMain for any of this: no goroutine and no connection to
// a test's database outlives the test. Main is for packages that want the checks of a TestMain,
// such as goleak, in one line.
package pgtest
