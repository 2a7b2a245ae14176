package kill

import (
	"encoding/json"

	"stampede/platform/workshop/httpxtest"
)

// reply is the part of any answer that the crowd reads. Status 0 means no answer.
type reply struct {
	HTTP    int    `json:"-"`
	Code    string `json:"code"`
	OrderNo string `json:"order_no"`
	Path    string `json:"path"`
	Status  any    `json:"status"` // an order's state; in a refusal the HTTP status
	Reason  string `json:"reason"`
	PayURL  string `json:"pay_url"`
	ID      string `json:"id"`
	Session []struct {
		ID    string `json:"id"`
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	} `json:"sessions"`
}

func (r reply) ok() bool { return r.HTTP >= 200 && r.HTTP < 300 }

// ask sends a request. No answer from a dying process is not a failure.
func (c *rushers) ask(method, target, token string, body any) (r reply) {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			c.t.Error(err)
			return r
		}
	}
	if target[0] == '/' {
		target = c.url + target
	}
	a, err := httpxtest.Try(c.t.Context(), c.client, method, target, token, string(raw))
	if err != nil {
		return r // cut off
	}
	if len(a.Raw) > 0 && json.Unmarshal(a.Raw, &r) != nil {
		c.t.Errorf("%s %s answered %d without JSON: %s", method, target, a.Status, a.Raw)
	}
	r.HTTP = a.Status
	return r
}
