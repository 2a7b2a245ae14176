package outbound

// Open reports whether the next call is refused, or a probe.
func (c *Calls) Open() bool { return c.breaker.IsOpen() }
