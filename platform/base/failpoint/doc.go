// Package failpoint lets a test end the process at a named place: after Redis has
// decided and before the message is stored, after a commit and before its
// acknowledgement, and so on. The crash is a real SIGKILL, which runs no
// deferred calls; the kill point tests check how the next start recovers from
// it.
//
// The places are always compiled in, so that the tested binary is the shipped
// one. While nothing is armed, as in every production process, reaching one
// costs an atomic load and allocates nothing.
//
// The package that reaches a point declares it (New, NewErr). Only the
// environment variable STAMPEDE_FAILPOINTS arms a point, and only when the
// process starts:
//
//	STAMPEDE_FAILPOINTS=decided=kill@3,stored=error
//
// reads as "the third time that decided is reached, die; the first time that stored
// is reached, fail". The actions are kill, error and pause:DURATION;
// @n defaults to 1. An unknown name or action aborts the start, since a test
// that waits for a kill that never comes proves nothing. Every command warns on
// standard error while the variable is set.
//
// # Concurrency
//
// Points may be reached from any goroutine. The action runs in the goroutine
// that made the n-th hit; the others continue meanwhile, as they would around a
// crash.
package failpoint
