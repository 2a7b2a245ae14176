// Package change is what operators change: they create, edit, clone and repeat,
// publish, pause and end, and put units on sale and off it.
//
//	draft ──publish──▶ scheduled ──first opening──▶ running ──end──▶ ended
//	                       └──────────terminate───────┴──▶ terminated
//
// Every change locks its activity's row first, then stock rows in the order of
// items; plan.Permit is the table of what is allowed when, and phrases refusals for the
// operator. Time moves an activity by Postgres's clock, one conditional update
// that one instance wins; a change that runs before the worker makes the
// transition itself. A change commits together with its audit record, its stock
// rows and an event. Afterwards its own request carries it to Redis, and if that
// fails the event does; the preheat applies stock that still lags, and browse
// rewrites views that a failover of Redis lost. All of this may happen in any
// order: a view carries its activity's revision, a stock row its own, and an older
// one never replaces a newer one.
//
// Requesting a state that an activity is already in returns the activity
// unchanged. From 60 s before the first opening a plan is not edited but corrected:
// names, title, spec and picture change, and an end moves later (correct.go). Units are
// added, taken off or written off, and an item is paused by itself; its stock row has
// the pause of the item or the activity, so that the rush looks at one field. A clone
// and a daily repetition move by the shop's wall clock (clone.go).
//
// # Documents
//
// A whole activity is also put as one document by its external id (put.go). The document is
// compared with what is there, part by part (difference.go); each part that differs is
// checked by the rules of its single route, all flaws and refusals are answered together,
// and what differs is written in one transaction. Two requests that create the same id meet
// at its unique key: the second begins again and finds the activity of the first.
//
// # Invariant
//
// From 60 s before the first opening until the end, prices, limits and openings do not
// change, and an end only moves later. Units that leave the sale are those that no
// shopper holds, in both counts.
//
// # Size
//
// The package has more than 2,000 lines because each action is a function on the one
// open transaction (change.go), whose steps and duties after the commit are its own: in
// packages of their own, the actions would share all of that as exported names.
package change
