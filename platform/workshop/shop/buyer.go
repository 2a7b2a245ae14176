// Package shop is the kit of the tests that play against the program from outside: it builds the program once, starts it,
// and speaks to it as shoppers, operators and their tools do. It links no module.
package shop

import (
	"net/http"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// Buyer rushes as one user through one instance.
type Buyer struct {
	In    *Instance
	Token string
}

// NewBuyer returns a shopper with a token of an hour.
func NewBuyer(t *testing.T, in *Instance, user int64) Buyer {
	t.Helper()
	return Buyer{in, Mint(t, user, auth.Shopper)}
}

// Path fetches a rush path without sending it.
func (b Buyer) Path(t *testing.T, item string) (no, path string) {
	t.Helper()
	doc := b.In.Do(t, http.MethodPost, "/api/v1/items/"+item+"/rush-path", b.Token, map[string]int{"quantity": 1}, http.StatusOK)
	return doc["order_no"].(string), doc["path"].(string) //nolint:errcheck // strings, or the contract is broken
}

// Rush gets a path and sends it; it returns the number and the code, "" for 202.
func (b Buyer) Rush(t *testing.T, item string) (no, code string) {
	t.Helper()
	status, doc := b.In.Call(t, http.MethodPost, "/api/v1/items/"+item+"/rush-path", b.Token, map[string]int{"quantity": 1})
	if status == http.StatusTooManyRequests { // a test asks more often than a shopper may
		return "", "rate-limited"
	}
	if status != http.StatusOK && status != http.StatusCreated {
		t.Fatalf("rush-path: %d %v", status, doc)
	}
	return doc["order_no"].(string), b.In.Send(t, doc["path"].(string)) //nolint:errcheck // strings, or the contract is broken
}

// AwaitStatus polls until the order has a status.
func (b Buyer) AwaitStatus(t *testing.T, no, want string, within time.Duration) {
	t.Helper()
	var last any
	pgtest.Eventually(t, within, func() bool {
		_, doc := b.In.Call(t, http.MethodGet, "/api/v1/orders/"+no, b.Token, nil)
		last = doc["status"]
		return last == want
	}, "order "+no+" to be "+want)
}

// Order rushes, again until the item sells, and returns the number of the order that then waits for its payment.
func (b Buyer) Order(t *testing.T, item string) (no string) {
	t.Helper()
	var code string
	pgtest.Eventually(t, 30*time.Second, func() bool {
		no, code = b.Rush(t, item)
		return code == "" || code == "all-held" || code == "sold-out"
	}, "the item to sell")
	require.Equal(t, "the answer to the rush", code, "")
	b.AwaitStatus(t, no, "pending_payment", time.Minute)
	return no
}

// Paid buys an item and pays for it at the sandbox bank.
func (b Buyer) Paid(t *testing.T, item string) (no string) {
	t.Helper()
	no = b.Order(t, item)
	b.Pay(t, no)
	return no
}

// Pay pays for an order at the sandbox bank.
func (b Buyer) Pay(t *testing.T, no string) {
	t.Helper()
	_, payment := b.In.Call(t, http.MethodPost, "/api/v1/orders/"+no+"/payments", b.Token, map[string]string{})
	address, _ := payment["pay_url"].(string)
	b.In.Do(t, http.MethodPost, address, "", map[string]string{"action": "pay"}, http.StatusOK)
	b.AwaitStatus(t, no, "paid", time.Minute)
}
