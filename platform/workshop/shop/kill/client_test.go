package kill

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"stampede/platform/edge/auth"
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
	var raw io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			c.t.Error(err)
			return r
		}
		raw = bytes.NewReader(text)
	}
	if target[0] == '/' {
		target = c.url + target
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, target, raw)
	if err != nil {
		c.t.Error(err)
		return r
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return r
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return r // cut off
	}
	if len(text) > 0 && json.Unmarshal(text, &r) != nil {
		c.t.Errorf("%s %s answered %d without JSON: %s", method, target, resp.StatusCode, text)
	}
	r.HTTP = resp.StatusCode
	return r
}

func (c *rushers) mint(user int64, role auth.Role) string {
	token, err := c.tokens.Mint(auth.Principal{UserID: user, Role: role}, time.Hour)
	if err != nil {
		c.t.Error(err)
	}
	return token
}
