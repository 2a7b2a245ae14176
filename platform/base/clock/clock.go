// Package clock gives the process one notion of time: the Redis server's. Lua and
// SQL decide with their servers' own clocks; this one serves countdowns, the
// lifetime of paths and tokens, and cheap early refusals.
//
// The machine's own clock may be wrong by any amount and may be set at any
// moment; nothing here depends on it. [Server] knows what Redis said at one
// instant and adds what has passed since by the monotonic clock.
package clock

import "time"

// Clock tells the time. Tests own it by giving another function.
type Clock interface{ Now() time.Time }

// System is the machine's clock.
type System struct{}

// Now is time.Now in UTC.
func (System) Now() time.Time { return time.Now().UTC() }
