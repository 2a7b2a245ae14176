package proof

import "stampede/platform/base/ids"

// ClientRecord is one line of a client's log: what the server answered a shopper.
type ClientRecord struct {
	OrderNo ids.ID `json:"order_no"` // the attempt's, or the one that the answer named instead
	UserID  int64  `json:"user_id,string"`
	Answer  string `json:"answer"`           // to the attempt: "queued" or a refusal's code
	Status  string `json:"status,omitempty"` // the last status received by poll or push
	Pushed  string `json:"pushed,omitempty"` // the last one received by push
}
