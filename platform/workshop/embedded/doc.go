// Package embedded runs PostgreSQL and Redis as private child processes, so that one command is a whole shop.
//
// It owns one data folder, the processes that write to it, and a short folder for their unix sockets. Neither
// server listens on TCP: whoever may enter the socket folder (mode 0700) may use them, nobody else.
//
// # Lifecycle
//
// Start finds the binaries, locks the data folder, ends whatever an earlier process left running on it, creates the
// cluster on the first start, and returns once both servers answer. Stop ends them; the data stays. The children have
// a process group of their own, so Ctrl-C in a terminal reaches only the parent, which can drain before it stops them.
//
// A process that has to end without Stop, as after a second Ctrl-C, calls Kill: both servers are crash-safe, and nothing
// stays behind.
//
// Nothing ends the children when the parent is killed outright: Linux could do it by a parent-death signal, but that
// signal belongs to the thread that forked, and Go's threads come and go. So the children live on, and the next Start
// on the same data ends them before it starts its own. It signals a process only after its command line, its account
// and, where recorded, its start time say that it is one of ours.
//
// # Accounts
//
// Postgres refuses to run as root. Started by root, both servers run as another account (see [Config].RunAs), which
// owns the data folder. Files below that folder are opened through [os.Root], so that the unprivileged account cannot
// make root write elsewhere by planting a symbolic link.
//
// # Folders
//
//	<data>/stampede.json   the format of the data; its presence says the folder is ours
//	<data>/lock            flock'd by the process that uses the folder, holds its pid
//	<data>/postgres        the cluster
//	<data>/redis           append-only files
//	<data>/nats            left to the caller, see [Stack].NATSDir
//	<data>/stack.json      the caller's: how other commands reach the servers, and the signing key
//	<data>/log             what the children print, truncated at each start
//	<tmp>/stampede-<hash>  sockets and pid records; Linux allows 107 bytes for a socket's path, data paths are longer
//
// # Errors
//
// Whatever an operator can put right is a [StartError]: a code, an exit code, and one sentence that says what to do.
package embedded
