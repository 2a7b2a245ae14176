// Package failpoint lets a test end the process at a named place: after Redis has
// decided and before the message is stored, after a commit and before its
// acknowledgement, and so on. A crash there is the real one, SIGKILL, which no
// deferred call survives; what the next start makes of it is what the tests of
// kill points are about.
//
// The places are compiled in always, so that what is tested is what is shipped.
// While nothing is armed, which is every production process, reaching one costs
// an atomic load and allocates nothing.
//
// The package that reaches a point declares it (New, NewErr). Nothing but the
// environment variable STAMPEDE_FAILPOINTS arms a point, and only when the process
// starts:
//
//	STAMPEDE_FAILPOINTS=decided=kill@3,stored=error
//
// reads as "the third time that decided is reached, die; the first time that stored
// is reached, fail". The actions are kill, error and pause:DURATION;
// @n defaults to 1. A name or an action that is not known stops the start, since a
// test that believes in a kill which never comes proves nothing. Every command
// warns on standard error while the variable is set.
//
// # Concurrency
//
// Points may be reached from any goroutine. The action runs in the one whose hit
// was the n-th; the others go on meanwhile, as they would around a crash.
package failpoint
