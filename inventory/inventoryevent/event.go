// Package inventoryevent has inventory's broadcasts to every instance.
package inventoryevent

// SubjectReturned says that units were returned and sold-out flags are to be
// cleared. It is broadcast without storage: a flag lives 2 s at most, so a lost
// broadcast costs no more than that.
const SubjectReturned = "broadcast.inventory.returned"

// SubjectLoaded says that an item was loaded under a new epoch. It is a
// broadcast too.
const SubjectLoaded = "broadcast.inventory.loaded"

// Returned is the payload of SubjectReturned.
type Returned struct {
	ItemID int64 `json:"item_id,string"`
	Epoch  int64 `json:"epoch"`
	Rel    int64 `json:"rel"`             // the shard's count of returns; a flag that saw a lower one is stale
	Shard  int16 `json:"shard,omitempty"` // 0 in messages of instances that know of no other
}

// Loaded is the payload of SubjectLoaded.
type Loaded struct {
	ItemID int64 `json:"item_id,string"`
	Epoch  int64 `json:"epoch"`
}
