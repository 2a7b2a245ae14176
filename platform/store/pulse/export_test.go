package pulse

import "context"

// Ask makes one pulse.
func (p *Pulse) Ask(ctx context.Context) error { return p.ask(ctx) }
