package stock

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"

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
// golden section steps from the first one's, which spreads any number of them evenly over any number of nodes. Each
// gets the first name that lands near its place, of some two hundred that are tried: names that were only numbered
// would leave a node with half of the shards.
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

// Counters names an item's shards, of which it has so many.
func (i Item) Counters(shards int16) []Item {
	all := make([]Item, shards)
	for n := range all {
		all[n] = i.Counter(int16(n)) //nolint:gosec // below MostShards
	}
	return all
}

// layout is how many shards an item has under an epoch.
type layout struct {
	epoch  int64
	shards int16
}

// Shards returns how many shards an item has, and under which epoch: 1 and 0 if it has no state. Each Load may change
// it, so an answer of Redis under another epoch says that the item has to be asked again, see ForgetShards.
func (s *Store) Shards(ctx context.Context, item Item) (shards int16, epoch int64, err error) {
	if known, ok := s.shards.Load(item.ID); ok {
		l := known.(layout) //nolint:errcheck // the map holds nothing else
		return l.shards, l.epoch, nil
	}
	var state struct {
		Epoch  int64 `redis:"epoch"`
		Shards int64 `redis:"shards"`
	}
	err = s.Redis.HMGet(ctx, item.Counter(0).StateKey(), "epoch", "shards").Scan(&state)
	switch state.Shards = max(1, state.Shards); { // a state that was written before items had several says nothing
	case err != nil:
		return 0, 0, fmt.Errorf("inventory: read the shards of item %d: %w", item.ID, err)
	case state.Shards > MostShards:
		return 0, 0, fmt.Errorf("inventory: item %d has %d shards in Redis", item.ID, state.Shards)
	case state.Epoch > 0:
		s.SeeShards(item.ID, state.Epoch, int16(state.Shards))
	}
	return int16(state.Shards), state.Epoch, nil
}

// SeeShards records how many shards an item has under an epoch. A late answer may record an older pair: a call that uses
// it is answered with another epoch, and asks again.
func (s *Store) SeeShards(itemID, epoch int64, shards int16) {
	now := layout{epoch, shards}
	if known, ok := s.shards.Load(itemID); !ok || known.(layout) != now { //nolint:errcheck // the map holds nothing else
		s.shards.Store(itemID, now)
	}
}

// ForgetShards has the number of an item's shards read again.
func (s *Store) ForgetShards(itemID int64) { s.shards.Delete(itemID) }

// ForgetGuesses drops what is remembered of items, so that long ended ones do not accumulate: each that is needed
// again costs one call.
func (s *Store) ForgetGuesses() {
	tags.Clear()
	s.Epochs.Clear()
	s.shards.Clear()
}
