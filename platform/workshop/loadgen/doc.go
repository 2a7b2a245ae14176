// Package loadgen plays shoppers: over HTTP and WebSocket, as a page or an app
// would, against a server of which it knows only the URL and the signing key.
// It keeps a log of every answer that shoppers got, so that the books can be
// checked against it.
//
// A run has five phases. Door: if the item requires it, every shopper reserves
// and does the proof of work, before anything is measured; a check that a
// program cannot pass is reported in one sentence instead. Prepare: tokens are
// minted, sockets opened and rush paths fetched while the item has not opened
// yet. Fire: every shopper sends the attempt, at a rate or as fast as the
// connections allow. Follow: every winner polls and listens until the order
// exists, and the chosen share pays at the bank. Report: latencies, answers and
// inconsistencies.
//
// Requests sent by the thousand go through package wire; planning, sockets and
// paying at the bank use ordinary clients. A [Crowd] is shoppers without
// sockets, payments and a progress bar, for custom measurements.
//
// One Run owns its shoppers; each is used by one goroutine at a time: first by
// a preparing worker, then by a firing one, then by its own follower. Reports
// from sockets go through a mutex of the shopper.
package loadgen
