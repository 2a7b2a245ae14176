// Package clock gives the process one notion of time: the Redis server's. Lua
// and SQL decide by their servers' clocks; this one serves countdowns, the
// lifetime of paths and tokens, and cheap early refusals.
//
// The machine's own clock may be wrong by any amount and may be set at any
// moment; nothing here depends on it. [Server] knows the time Redis reported at
// one instant and adds what the monotonic clock has measured since.
package clock

import "time"

// Clock tells the time. Tests control it by passing their own function.
type Clock interface{ Now() time.Time }

// System is the machine's clock.
type System struct{}

// Now is time.Now in UTC.
func (System) Now() time.Time { return time.Now().UTC() }
