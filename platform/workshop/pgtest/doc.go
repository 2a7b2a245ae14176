// Package pgtest gives tests a real Postgres database and a real Redis of their own, in some tens of milliseconds.
//
// # What a test gets
//
// DB and DatabaseURL give a fresh database with all migrations applied, cloned from a template; Redis and RedisURL give
// an empty logical Redis database. Both are the test's alone and are taken back with it, so tests may run in parallel.
// What belongs to a whole server is shared and must be left alone: FLUSHALL, SCRIPT FLUSH, CONFIG SET, ALTER SYSTEM.
//
// # Where the servers come from
//
// With STAMPEDE_TEST_DATABASE_URL (an account that may create databases) and STAMPEDE_TEST_REDIS_URL (whose databases
// other than 0 are emptied) those servers are used. `make test` runs `go test ./...` through pgtest/servers, which starts
// one Postgres and one Redis and passes their URLs: go test runs each package in a process of its own, and starting
// servers in each would take longer than the tests.
//
// Otherwise, under a plain `go test`, each test process starts its own pair when its first test asks for one.
//
// Servers belong to a process of their own, which is the starting binary executed once more. It reads from a pipe that
// the kernel closes when its starter ends, be it by kill -9; then it stops both servers and deletes their data.
// Durability is switched off: a crash of the machine ends the tests anyway.
//
// A package needs no TestMain for any of this: no goroutine and no connection outlives a test. Main exists for packages
// that want the checks of a TestMain, such as goleak, in one line.
package pgtest
