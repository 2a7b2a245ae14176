package stock

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ScanCount is how many entries of a big hash one step reads: a step of this size blocks Redis for about as long as a
// small batch of decisions.
const ScanCount = 1000

// Scan passes a hash's fields and values to each until it returns false. A field may be passed more than once while
// the hash grows.
func (s *Store) Scan(ctx context.Context, key string, each func(field, value string) (bool, error)) error {
	errEnough := errors.New("enough")
	err := s.ScanChunks(ctx, key, func(_ context.Context, pairs []string) error {
		for i := 0; i < len(pairs); i += 2 {
			more, err := each(pairs[i], pairs[i+1])
			if err != nil {
				return err
			}
			if !more {
				return errEnough
			}
		}
		return nil
	})
	if err == errEnough { //nolint:errorlint // this call's own
		return nil
	}
	return err
}

// ScanChunks is Scan for chunks of fields and values in turn, of about ScanCount fields each.
func (s *Store) ScanChunks(ctx context.Context, key string, each func(ctx context.Context, pairs []string) error) error {
	var cursor uint64
	for {
		pairs, next, err := s.Redis.HScan(ctx, key, cursor, "", ScanCount).Result()
		if err != nil {
			return fmt.Errorf("inventory: read %s: %w", key, err)
		}
		for at := slices.Index(pairs, WeightField); at >= 0; at = slices.Index(pairs, WeightField) {
			pairs = slices.Delete(pairs, at, at+2)
		}
		if len(pairs) > 0 {
			if err := each(ctx, pairs); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// OpenHolds passes the grants of an epoch without a known order row to each until it returns false.
func (s *Store) OpenHolds(ctx context.Context, item Item, epoch int64, each func(StaleHold) (bool, error)) error {
	return s.Scan(ctx, item.HoldsKey(epoch), func(number, value string) (bool, error) {
		h, err := ParseHold(epoch, number, value)
		if err != nil {
			return false, err
		}
		h.Shard = item.Shard
		return each(h)
	})
}
