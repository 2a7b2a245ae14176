package stock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/ids"
)

// MostShards bounds the shards of an item: four for each of sixteen Redis nodes. Attempts look at all of them
// before they hear that nothing is left.
const MostShards = 64

// HomeOf is the shard, of so many, that the users of a bucket have their units from.
func HomeOf(bucket int16, shards int) int16 { return bucket % int16(shards) } //nolint:gosec // at most MostShards

// slots is how many hash slots a Redis Cluster has, which its nodes share.
const slots = 1 << 14

// slotOf is the hash slot of a key with this tag: CRC-16/XMODEM of what is in the braces, as the Redis Cluster
// specification says.
func slotOf(tag string) int {
	crc := uint16(0)
	for _, b := range []byte(tag) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}

var tags sync.Map // Key → string, see tagOf

// tagOf is the hash tag of a shard other than the first. Slots are shared in ranges, so shards go round the slots by
// golden section steps from the first one's, which spreads any number of them evenly over any number of nodes. Each gets
// the first name that lands near its place, of some two hundred that are tried: names that were only numbered would leave a
// node with half of the shards.
func tagOf(item int64, shard int16) string {
	if tag, ok := tags.Load(Key{item, shard}); ok {
		return tag.(string) //nolint:errcheck // the map holds nothing else
	}
	name := "g:i" + strconv.FormatInt(item, 10) + ":"
	step := float64(shard) * (math.Phi - 1)
	place := (slotOf(name+"0") + int((step-math.Floor(step))*slots)) % slots
	tag := name + strconv.Itoa(int(shard))
	for n := 1; ; n++ {
		if off := (slotOf(tag) - place + slots) % slots; min(off, slots-off) <= slots/400 {
			break
		}
		tag = name + strconv.Itoa(int(shard)) + "." + strconv.Itoa(n)
	}
	tag = "{" + tag + "}"
	tags.Store(Key{item, shard}, tag)
	return tag
}

// Home names a user's shard of an item that has so many.
func (i Item) Home(user int64, shards int16) Item {
	return i.Counter(HomeOf(ids.Bucket(user), int(max(1, shards))))
}

// Counter names one of an item's shards.
func (i Item) Counter(shard int16) Item {
	i.Shard = shard
	return i
}

// Shards returns how many shards an item has by its last Load: 1 if it has no state. Each Load may change it, so
// the answer is that of an epoch; scripts return what they know of a newer one.
func (s *Store) Shards(ctx context.Context, item Item) (int16, error) {
	if n, ok := s.shards.Load(item.ID); ok {
		return n.(int16), nil //nolint:errcheck // the map holds nothing else
	}
	if item.PerActivity {
		return 1, nil
	}
	n, err := s.Redis.HGet(ctx, item.Counter(0).StateKey(), "shards").Int64()
	switch {
	case errors.Is(err, redis.Nil): // no state, or one written before items had several
		return 1, nil
	case err != nil:
		return 0, fmt.Errorf("inventory: read the shards of item %d: %w", item.ID, err)
	case n < 1 || n > MostShards:
		return 0, fmt.Errorf("inventory: item %d has %d shards in Redis", item.ID, n)
	}
	s.SeeShards(item.ID, int16(n))
	return int16(n), nil
}

// SeeShards records how many shards an item has; 0 says that the number has to be read again.
func (s *Store) SeeShards(itemID int64, n int16) {
	if known, ok := s.shards.Load(itemID); n < 1 {
		s.shards.Delete(itemID)
	} else if !ok || known != n {
		s.shards.Store(itemID, n)
	}
}

// ForgetGuesses drops what is remembered of items, so that long ended ones do not accumulate: each that is needed
// again costs one call.
func (s *Store) ForgetGuesses() {
	tags.Clear()
	s.Epochs.Clear()
	s.shards.Clear()
}
