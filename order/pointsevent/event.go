// Package pointsevent is the contract of order/points with the other modules: entries of
// the ledger of shoppers' points.
package pointsevent

import "stampede/platform/base/ids"

// Subjects on the EVENTS stream. The payload of each is Entry as JSON.
const (
	SubjectEarned    = "events.points.earned"     // the order was paid
	SubjectTakenBack = "events.points.taken_back" // a refund of the order succeeded
	SubjectGivenBack = "events.points.given_back" // the provider undid a refund of the order
)

// Entry is an entry of a user's ledger. A consumer that adds up the entries, each number
// once, has the balance.
type Entry struct {
	EntryNo ids.ID `json:"entry_no"`
	OrderNo ids.ID `json:"order_no"`
	UserID  int64  `json:"user_id,string"`
	Points  int64  `json:"points"` // negative for those taken back
}
