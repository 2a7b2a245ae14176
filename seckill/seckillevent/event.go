// Package seckillevent is the contract between seckill and the other modules:
// the grants that the order writer turns into orders, and catalogue changes.
package seckillevent

import (
	"strconv"
	"time"

	"stampede/platform/base/ids"
)

// GrantsPrefix begins the subjects of the GRANTS stream.
const GrantsPrefix = "grants."

// GrantsSubject is the subject of an item's grants on the GRANTS stream; it
// contains the item, so that each item's backlog can be seen separately.
func GrantsSubject(itemID int64) string { return GrantsPrefix + strconv.FormatInt(itemID, 10) }

// SubjectChanged announces to every instance that activities, sessions or items
// have changed and the catalogue must be read again. Its payload is Changed.
const SubjectChanged = "events.seckill.changed"

// Changed names the activity that an operator changed.
type Changed struct {
	ActivityID int64 `json:"activity_id,string"`
}

// Batch is one message on GRANTS: the grants of one Lua call for one item. It
// carries everything that an order needs, so that the writer reads no other
// module.
type Batch struct {
	ID          ids.ID // the message's own number: Nats-Msg-Id and inbox key
	ItemID      int64
	ActivityID  int64
	SessionID   int64
	Shard       int16
	Epoch       int64 // the Load under which the units were taken
	UnitPrice   int64 // minor units, as shown when the path was used
	Currency    string
	Title       string
	PayWindow   time.Duration // from the commit of the order, by Postgres's clock
	PerActivity bool          // one item per activity and user
	Grants      []Grant
}

// Grant is the fact that an order number holds units for a user.
type Grant struct {
	No       ids.ID
	User     int64
	Quantity int32
	// PayWithin is the payment window in seconds if it is shorter than the
	// batch's; 0 means the batch's. Between 0 and MaxPayWindow.
	PayWithin int32
	Seq       int64 // the grant's place in its epoch, from 1
}
