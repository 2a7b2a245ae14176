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
// other than 0 are emptied) those servers are used. Otherwise one Postgres and one Redis serve all test processes of
// this user: `go test ./...` runs each package in a process of its own, several at a time, and starting servers in each
// would take longer than the tests.
//
// The servers belong to a keeper, a detached process of its own, which is the first test binary executed once more.
// Everything is agreed upon by locks in the folder stampede-test-<uid> below the temporary folder, which the kernel
// gives back however a process ends:
//
//	start   held while a test process joins, so that one of them starts the keeper
//	keeper  held by the keeper for its life
//	users   held shared by each test process for its life; the keeper tries to hold it alone
//
// A test process takes them in that order, the keeper only the last two. When nobody has been there for 20 s, the keeper
// holds "users" alone, stops the servers, deletes their data and ends; who comes in between waits for that lock and then
// starts a new keeper. Durability is switched off: a crash of the machine ends the tests anyway.
//
// A package needs no TestMain for any of this: no goroutine and no connection outlives a test. Main exists for packages
// that want the checks of a TestMain, such as goleak, in one line.
package pgtest
