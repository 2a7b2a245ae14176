package outbound

// Probes makes the next call a probe.
func (c *Calls) Probes() { c.breaker.HalfOpen() }
