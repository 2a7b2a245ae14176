package inventory

import (
	"context"

	"stampede/platform/ids"
)

// scriptChunk is how many numbers one call of the other scripts takes: they
// stay as short as a decision does.
const scriptChunk = 512

// Persisted notes that order rows exist for numbers granted under epoch, so
// that the queue moves on and the hold sweeper leaves them alone. It may be
// repeated, and does nothing for an epoch that a Load has replaced.
func (s *Service) Persisted(ctx context.Context, item Item, epoch int64, nos []ids.ID) error {
	keys := []string{item.stateKey(), item.holdsKey(epoch)}
	for len(nos) > 0 {
		chunk := nos[:min(len(nos), scriptChunk)]
		nos = nos[len(chunk):]
		args := make([]any, 0, 1+len(chunk))
		args = append(args, epoch)
		for _, no := range chunk {
			args = append(args, no.String())
		}
		if err := persistScript.Run(ctx, s.deps.Redis, keys, args...).Err(); err != nil {
			return persistScript.failed(err)
		}
	}
	return nil
}
