// Package loadgen plays shoppers: over HTTP and WebSocket, the way a page or an
// app would, against a server it knows only by URL and signing key. It keeps a
// log of what every shopper was told, so that the books can be held against it.
//
// A run has five phases. Door: where the item asks for it, every shopper reserves
// and does the proof of work, before anything is measured; what a program cannot do
// is said in one sentence instead. Prepare: tokens are minted, sockets opened and
// rush paths fetched while the item has not opened yet. Fire: every shopper sends
// the attempt, at a rate or as fast as the connections allow. Follow: every
// winner polls and listens until the order is there, and the chosen share pays
// at the bank. Report: latencies, answers and what did not add up.
//
// Whatever is sent by the thousand goes through package wire; planning, sockets
// and paying at the bank go through ordinary clients. A [Crowd] is shoppers without
// sockets, payments and a progress bar, for measurements with a plan of their own.
//
// One Run owns its shoppers; each is touched by one goroutine at a time: first
// by a preparing worker, then by a firing one, then by its own follower. What
// sockets report goes through a mutex of the shopper.
package loadgen
