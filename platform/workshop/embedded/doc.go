// Package embedded runs PostgreSQL and Redis as private child processes, so
// that one command starts a whole shop.
//
// It owns one data folder, the processes that write to it, and a short folder
// for their unix sockets. Neither server listens on TCP: only the account that
// can enter the socket folder (mode 0700) can use them.
//
// # Lifecycle
//
// Start finds the binaries, locks the data folder, stops servers that an
// earlier process left running on it, creates the cluster on the first start,
// and returns once both servers answer. Stop ends them; the data stays. The
// children are in their own process group, so Ctrl-C in a terminal reaches only
// the parent, which can drain before it stops them.
//
// With [Config].Restarted, a server that exits or does not answer for some
// seconds is started again; one goroutine for each server checks it, and owns
// its restarts. What a kill may interrupt, a start repairs. If starts fail for
// long, Died delivers the last one's error. platform/adr/0017 gives the bounds
// and their reasons.
//
// A process that has to exit without Stop, as after a second Ctrl-C, calls
// Kill: both servers are crash-safe, and nothing is left running.
//
// If the parent is killed by SIGKILL, the children survive: Linux has a
// parent-death signal, but that is tied to the thread that forked, and Go's
// threads come and go. The next Start on the same data stops them before it
// starts its own. It signals a process that a server's pid file names only after
// checking by its command line and its account that it is one of ours.
//
// # Accounts
//
// Postgres refuses to run as root. A process of root's that calls Start gives
// the data folder to another account (see [Config].RunAs) and becomes that
// account, for good, before it opens anything in there: what the account may
// have planted, links for example, leads to nothing that it could not reach
// itself. Whatever needs root, such as binding a port below 1024, comes before
// Start; a program that must stay root calls Start in a child process.
//
// # Folders
//
//	<data>/stampede.json   the format of the data; its presence says the folder is ours
//	<data>/lock            flock'd by the process that uses the folder, holds its pid
//	<data>/postgres        the cluster
//	<data>/redis           append-only files
//	<data>/nats            left to the caller, see [Stack].NATSDir
//	<data>/stack.json      the caller's: how other commands reach the servers, and the signing key
//	<data>/log             what the children print, truncated at each start; a restart keeps one as <name>.log.old
//	<tmp>/stampede-<hash>  sockets; Linux allows 107 bytes for a socket's path, data paths are longer
//
// # Errors
//
// Any error that an operator can fix is a [StartError]: a code, an exit code,
// and one sentence that says what to do.
//
// # Size
//
// The package has more than 2,000 lines because Postgres and Redis are started, watched
// and stopped by one supervisor in one data folder; what belongs to one of them is in
// its own file.
package embedded
