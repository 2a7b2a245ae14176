package inventory

import (
	"context"

	"stampede/platform/base/ids"
)

// scriptChunk is how many numbers one call of the other scripts takes: they
// stay as short as a decision.
const scriptChunk = 512

// Written are numbers of one item whose order rows exist.
type Written struct {
	Item  Item
	Epoch int64 // under which they were granted
	Nos   []ids.ID
}

// Persisted records that order rows exist for numbers granted under epoch, so
// that the queue moves on and the hold sweeper leaves them alone. It may be
// repeated, and does nothing for an epoch that a Load has replaced.
func (s *Service) Persisted(ctx context.Context, item Item, epoch int64, nos []ids.ID) error {
	return s.PersistedAll(ctx, []Written{{Item: item, Epoch: epoch, Nos: nos}})
}

// PersistedAll is Persisted for many items in one round trip: alone, each would
// wait for Redis to sync its log. An item that fails is returned as an error
// and does not affect the others. There are as many calls as the caller has
// items; the order writer's transaction bounds them.
func (s *Service) PersistedAll(ctx context.Context, all []Written) error {
	calls := make([]scriptCall, 0, len(all))
	for _, w := range all {
		keys := []string{w.Item.stateKey(), w.Item.holdsKey(w.Epoch)}
		for nos := w.Nos; len(nos) > 0; {
			chunk := nos[:min(len(nos), scriptChunk)]
			nos = nos[len(chunk):]
			args := make([]any, 0, 1+len(chunk))
			args = append(args, w.Epoch)
			for _, no := range chunk {
				args = append(args, no.String())
			}
			calls = append(calls, scriptCall{keys, args})
		}
	}
	return persistScript.runAll(ctx, s.deps.Redis, calls)
}
