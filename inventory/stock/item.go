package stock

import (
	"fmt"
	"strconv"
	"strings"
)

// WeightField is an entry of the users, holds and buyers hashes that belongs to no user. Redis stores a hash of few
// entries as a packed list, and a batch of 512 then searches that list 512 times: up to four times the cost of a
// whole decision. One value longer than hash-max-listpack-value (64 by default) keeps the hash unpacked. The same
// text is a member of the tombstones, for the same reason. Nothing removes the entry from the hashes, so that a
// decision recognizes one that was lost by its absence.
const WeightField = "#"

// Weight is its value there, and its name in the tombstones.
var Weight = WeightField + strings.Repeat("-", 64)

// ItemSubject names an item in alarms, findings and the audit log.
func ItemSubject(id int64) string { return fmt.Sprintf("item %d", id) }

// RedisKeys are the prefixes of the module's keys.
var RedisKeys = []string{"{g:"}

// Item has what is needed to name an item's keys in Redis.
type Item struct {
	ID         int64
	ActivityID int64
	// Shard is the stock counter, 0 … K−1; a user's home shard is the bucket modulo K. It is 0 for items with one
	// counter and for every item of an activity whose rule spans its items.
	Shard int16
	// PerActivity says that a user may hold one item of the activity only. Such items share the activity's slot,
	// because one script must see them all.
	PerActivity bool
}

// Key identifies the item's stock row.
func (i Item) Key() Key { return Key{ItemID: i.ID, Shard: i.Shard} }

// group is the hash tag: everything that one script touches lies in one slot.
func (i Item) group() string {
	if i.PerActivity {
		return "{g:a" + strconv.FormatInt(i.ActivityID, 10) + ":0}"
	}
	if i.Shard > 0 {
		return tagOf(i.ID, i.Shard)
	}
	return "{g:i" + strconv.FormatInt(i.ID, 10) + ":0}"
}

func (i Item) base() string { return i.group() + ":" + strconv.FormatInt(i.ID, 10) + ":" }

// StateKey names the hash that says whether the item decides, and from what. The epoch is a field of it and not part
// of its name: replacing this one key switches the item to another epoch.
func (i Item) StateKey() string { return i.base() + "state" }

// epochKey names a key that belongs to one Load; the next Load renames it.
func (i Item) epochKey(epoch int64, what string) string {
	return i.base() + strconv.FormatInt(epoch, 10) + ":" + what
}

// UsersKey is a hash: user → "<number>", followed by ":<quantity>" unless it is 1, and ":c" once paid. "<number>:x"
// is not a hold: the order was closed and its user may not buy again.
func (i Item) UsersKey(epoch int64) string { return i.epochKey(epoch, "users") }

// HoldsKey is a hash: number → "user:quantity:seq:ms", followed by ":<seconds>" if the payment window is shorter than
// the sale's; only while no order row is known for it.
func (i Item) HoldsKey(epoch int64) string { return i.epochKey(epoch, "holds") }

// TombstonesKey is a sorted set: number → when it may be forgotten, in ms. A number in it was granted and has ended;
// it is never granted again. The score inf says that it was taken up again after its end, see retake.lua.
func (i Item) TombstonesKey(epoch int64) string { return i.epochKey(epoch, "gone") }

// BuyersKey is a hash: user → "<number>:<item>", followed by ":x" as in UsersKey, for PerActivity only. It is shared
// by the activity's items and so has no epoch; Load replaces its own item's entries.
func (i Item) BuyersKey() string { return i.group() + ":buyers" }

// EpochKeys are all keys that belong to one Load.
func (i Item) EpochKeys(epoch int64) []string {
	return []string{i.UsersKey(epoch), i.HoldsKey(epoch), i.TombstonesKey(epoch)}
}

// AppendKeys appends the keys of every script that decides or moves units: the state, those of its epoch, and the
// buyers if the activity's items share them.
func (i Item) AppendKeys(keys []string, epoch int64) []string {
	keys = append(keys, i.StateKey(), i.UsersKey(epoch), i.HoldsKey(epoch), i.TombstonesKey(epoch))
	if i.PerActivity {
		keys = append(keys, i.BuyersKey())
	}
	return keys
}
