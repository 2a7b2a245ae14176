// Package seckillevent is the contract between seckill and the other modules:
// the grants that the order writer turns into orders, and catalogue changes.
package seckillevent

import (
	"slices"
	"strconv"
	"time"

	"stampede/platform/base/currency"
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
	// Forgotten are the items whose stock was deleted, perhaps to be created again by other rules. The change's request
	// may have left keys of theirs in Redis.
	Forgotten []int64 `json:"forgotten,omitempty"`
}

// Subjects of what becomes of sessions and items while they are on sale; package
// seckill/bulletin says when each is published.
const (
	SubjectSessionOpened = "events.session.opened" // payload Session
	SubjectSessionEnded  = "events.session.ended"  // payload Session

	SubjectItemOpened    = "events.item.opened"     // payload Items
	SubjectItemSoldOut   = "events.item.sold_out"   // payload Items
	SubjectItemUnitsBack = "events.item.units_back" // payload Items
)

// Session is a session that opened or ended.
type Session struct {
	SessionID          int64     `json:"session_id,string"`
	ExternalID         string    `json:"external_id,omitempty"`
	ActivityID         int64     `json:"activity_id,string"`
	ActivityExternalID string    `json:"activity_external_id,omitempty"`
	OpensAt            time.Time `json:"opens_at"`
	ClosesAt           time.Time `json:"closes_at"`            // as planned
	Terminated         bool      `json:"terminated,omitempty"` // an operator ended it before
}

// Items are items of which the same happened at one moment.
type Items struct {
	Items []Item `json:"items"`
}

// Item is an item on sale, with the units that are left.
type Item struct {
	ItemID             int64  `json:"item_id,string"`
	ExternalID         string `json:"external_id,omitempty"`
	SKU                string `json:"sku"`
	SessionID          int64  `json:"session_id,string"`
	SessionExternalID  string `json:"session_external_id,omitempty"`
	ActivityID         int64  `json:"activity_id,string"`
	ActivityExternalID string `json:"activity_external_id,omitempty"`
	Left               int64  `json:"left"` // units that can be taken; of no meaning if Unlimited
	Held               int64  `json:"held"` // units of attempts and orders that are not paid
	Unlimited          bool   `json:"unlimited,omitempty"`
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

// Way is how the goods of an order reach the shopper.
type Way string

// The ways.
const (
	Delivery Way = "delivery"
	Pickup   Way = "pickup" // at a store of the shop
)

// Ask is whether shoppers give a detail of themselves; empty is never.
type Ask string

// What an activity asks for.
const (
	Optional Ask = "optional"
	Required Ask = "required"
)

// Asked is what a Checkout has in storage as in the API.
type Asked struct {
	Ways    []Way `json:"ways,omitempty" enum:"delivery,pickup" maxItems:"2" nullable:"false" doc:"How the goods reach the shopper, who chooses where there are both; none for what is not handed over"`
	Name    Ask   `json:"name,omitempty" enum:"optional,required" doc:"Whether the order asks for a name; left out, it does not"`
	Phone   Ask   `json:"phone,omitempty" enum:"optional,required" doc:"Whether it asks for a phone"`
	Address Ask   `json:"address,omitempty" enum:"optional,required" doc:"Whether a delivery asks for an address"`
	Note    Ask   `json:"note,omitempty" enum:"optional,required" doc:"Whether it asks for a note to the shop"`
}

// Checkout is what an activity settles with its shoppers between the order and its
// payment. It is final when the activity can no longer be edited, which is before
// its first order. The zero value settles nothing: goods that need neither. Its JSON is
// how activities are stored.
type Checkout struct {
	Asked
	Freight  int64  `json:"freight,omitempty"`   // of a delivery, whatever the quantity; in minor units of Currency
	FreeFrom int64  `json:"free_from,omitempty"` // goods of this amount or more are delivered free; 0 is never
	Currency string `json:"currency,omitempty"`  // of both, and of all items; empty without them
}

// CheckoutView is a Checkout in the API.
type CheckoutView struct {
	Asked
	Freight  *currency.Money `json:"freight,omitempty" doc:"Of a delivery, whatever the quantity, in the currency of the items; left out, it is free"`
	FreeFrom *currency.Money `json:"free_from,omitempty" doc:"Goods of this amount or more are delivered free; left out, none are"`
}

// View shows a checkout in the API.
func (c *Checkout) View() CheckoutView {
	v := CheckoutView{Asked: c.Asked}
	if c.Freight != 0 {
		v.Freight = &currency.Money{Amount: c.Freight, Currency: c.Currency}
	}
	if c.FreeFrom != 0 {
		v.FreeFrom = &currency.Money{Amount: c.FreeFrom, Currency: c.Currency}
	}
	return v
}

// Checkout reads a checkout from the API. Amounts in two currencies have none, which
// the plan refuses.
func (v *CheckoutView) Checkout() Checkout {
	c := Checkout{Asked: v.Asked}
	if v.Freight != nil && v.Freight.Amount != 0 {
		c.Freight, c.Currency = v.Freight.Amount, v.Freight.Currency
	}
	if v.FreeFrom != nil && v.FreeFrom.Amount != 0 {
		if c.FreeFrom = v.FreeFrom.Amount; v.FreeFrom.Currency != c.Currency {
			c.Currency = ""
		}
	}
	return c
}

// MaxFreight bounds a delivery's price, in minor units.
const MaxFreight = 100_000_000

// Offers reports whether goods may reach the shopper this way.
func (c *Checkout) Offers(w Way) bool { return slices.Contains(c.Ways, w) }

// Settled reports whether an order can be paid without any details: nothing is to
// be chosen, required or added to the amount.
func (c *Checkout) Settled() bool {
	return c.Freight == 0 && !c.Offers(Pickup) && c.Name != Required && c.Phone != Required && c.Address != Required && c.Note != Required
}

// FreightOf is what it costs for goods of this amount to reach the shopper.
func (c *Checkout) FreightOf(w Way, goods int64) int64 {
	if w != Delivery || c.FreeFrom > 0 && goods >= c.FreeFrom {
		return 0
	}
	return c.Freight
}

// Sale is what was on sale as an item, for those who read its orders later.
type Sale struct {
	SKU, Spec, ImageURL string
	Activity, Session   string // their names
	StartsAt, EndsAt    time.Time
	OpensAt, ClosesAt   time.Time
	Checkout            Checkout
	PointsRate          int32 // points for each 100 minor units paid
}

// Opening is an item that is published, for those who tell shoppers of it.
type Opening struct {
	ItemID, SessionID int64
	Title             string
	OpensAt, ClosesAt time.Time
}
