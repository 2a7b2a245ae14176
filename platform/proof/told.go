package proof

import "stampede/platform/ids"

// Told is one line of a client's log: what a shopper was told about an attempt.
type Told struct {
	OrderNo ids.ID `json:"order_no"`
	UserID  int64  `json:"user_id,string"`
	Answer  string `json:"answer"`           // to the attempt: "queued" or a refusal's code
	Status  string `json:"status,omitempty"` // the last status told by poll or push
}
