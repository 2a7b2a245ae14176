package door

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// row is one line of the acceptance table: an attempt and its expected result:
// a status and a problem code ("401 bad-token"), or how a socket ends ("closed
// 1008").
type row struct {
	name string
	try  func(t *testing.T) got
	want string
	then func(t *testing.T) // further checks afterwards; nil means none
}

// TestAcceptance tries forbidden actions on one real server, and beside each
// refusal an allowed one, so that a server that refuses everything also fails.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	d := openDoor(t)
	for _, rows := range [][]row{
		d.tokenRows(t), d.accountRows(t), d.ownerRows(t), d.bodyRows(t), d.roleRows(t), d.socketRows(t), d.portRows(),
		d.keyRows(t), d.addressRows(t),
	} {
		for _, r := range rows {
			answer := r.try(t)
			if answer.String() != r.want {
				t.Errorf("%s: %s, want %s\n%s", r.name, answer, r.want, answer.Raw)
			}
			if r.then != nil {
				r.then(t)
			}
		}
	}
	d.nothingLeaks(t)
}

// Bodies that request too much, or set values that a shopper may not set.
func (d *frontDoor) bodyRows(t *testing.T) []row {
	t.Helper()
	path := "/api/v1/items/" + d.sale.ItemID + "/rush-path"
	ask := func(body string) func(*testing.T) got { return d.post(path, d.shopper(t), body) }
	return []row{
		{name: "one unit", try: ask(`{"quantity":1}`), want: "200"},
		{name: "quantity 0", try: ask(`{"quantity":0}`), want: "422 invalid"},
		{name: "quantity -1", try: ask(`{"quantity":-1}`), want: "422 invalid"},
		{name: "quantity 2^31", try: ask(`{"quantity":2147483648}`), want: "422 invalid"},
		{name: "quantity 1.5", try: ask(`{"quantity":1.5}`), want: "422 invalid"},
		{name: "quantity above the limit", try: ask(`{"quantity":2}`), want: "422 over-limit"},
		{name: "a price in the body", try: ask(`{"quantity":1,"price":{"amount":1,"currency":"CNY"}}`), want: "422 invalid"},
		{name: "an unknown field", try: ask(`{"quantity":1,"vip":true}`), want: "422 invalid"},
		{name: "a price for a payment", try: d.post("/api/v1/orders/"+d.no+"/payments", d.a, `{"amount":1}`), want: "422 invalid"},
		{name: "half a body", try: ask(`{"quantity":`), want: "400 bad-request"},
		{name: "a body too large", try: ask(`{"quantity":1,"note":"` + strings.Repeat("x", 64<<10) + `"}`), want: "413 too-large"},
		{name: "a rush with a large body", try: d.post("/api/v1/rush/"+d.path, "", strings.Repeat("x", 1025)), want: "413 too-large"},
		{name: "a forged rush path", try: d.post("/api/v1/rush/"+strings.Repeat("A", len(d.path)), "", ""), want: "403 bad-path"},
	}
}

// Another shopper's order looks nonexistent.
func (d *frontDoor) ownerRows(t *testing.T) []row {
	t.Helper()
	order := "/api/v1/orders/" + d.no
	rows := []row{
		{name: "A reads her order", try: d.get(order, d.a), want: "200"},
		{name: "an anonymous caller reads it", try: d.get(order, ""), want: "401 no-token"},
	}
	// B shares A's bucket, which the number carries; C does not.
	for name, token := range map[string]string{"B": d.mint(t, d.twin, auth.Shopper), "C": d.shopper(t)} {
		rows = append(rows,
			row{name: name + " reads A's order", try: d.get(order, token), want: "404 not-found"},
			row{name: name + " pays it", try: d.post(order+"/payments", token, `{}`), want: "404 not-found"},
			row{name: name + " refunds it", try: d.post(order+"/refunds", token, ""), want: "404 not-found"},
			row{name: name + " cancels it", try: d.post(order+"/cancel", token, ""), want: "404 not-found"},
		)
	}
	return append(rows, row{name: "A can still pay it", try: d.get(order, d.a), want: "200", then: func(t *testing.T) {
		t.Helper()
		require.Equal(t, "the order", d.Do(t, http.MethodGet, order, d.a, nil, http.StatusOK)["status"], "pending_payment")
	}})
}

// Staff members have roles, and attempts beyond them are audited.
func (d *frontDoor) roleRows(t *testing.T) []row {
	t.Helper()
	pause := "/api/v1/admin/activities/" + d.sale.ActivityID + "/pause"
	viewer, shopper := d.mint(t, 9102, auth.Viewer), d.shopper(t)
	audited := func(t *testing.T) {
		t.Helper()
		_, doc := d.Call(t, http.MethodGet, "/api/v1/admin/audit?actor=9102", viewer, nil)
		list, _ := doc["data"].([]any)
		if len(list) != 1 {
			t.Fatalf("the audit log has %d rows of the viewer, want 1: %v", len(list), doc)
		}
		if e := list[0].(map[string]any); e["action"] != "refused.pause-activity" || e["role"] != "viewer" || e["subject"] != pause {
			t.Errorf("audited as %v", e)
		}
		require.Equal(t, "the item", d.Do(t, http.MethodGet, "/api/v1/items/"+d.sale.ItemID, "", nil, http.StatusOK)["status"], "on_sale")
	}
	return []row{
		{name: "a viewer reads", try: d.get("/api/v1/admin/activities/"+d.sale.ActivityID, viewer), want: "200"},
		{name: "a viewer pauses a sale", try: d.post(pause, viewer, ""), want: "403 forbidden", then: audited},
		{name: "a shopper pauses a sale", try: d.post(pause, shopper, ""), want: "403 forbidden"},
		{name: "a shopper reads the plan", try: d.get("/api/v1/admin/activities", shopper), want: "403 forbidden"},
		{name: "an anonymous caller pauses a sale", try: d.post(pause, "", ""), want: "401 no-token"},
	}
}

// Endpoints for the shop's engineers are not on the public address.
func (d *frontDoor) portRows() []row {
	rows := []row{{name: "the API's document", try: d.get("/openapi.json", ""), want: "200"}}
	for _, path := range []string{"/metrics", "/debug", "/debug/", "/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/livez", "/readyz"} {
		rows = append(rows, row{name: path + " on the public address", try: d.get(path, ""), want: "404 not-found"})
	}
	return rows
}

// The connection's address counts, whatever a header says.
func (d *frontDoor) addressRows(t *testing.T) []row {
	t.Helper()
	forged := []string{"X-Forwarded-For", "203.0.113.9", "Forwarded", "for=203.0.113.9", "X-Real-IP", "203.0.113.9", "True-Client-IP", "203.0.113.9"}
	login := fmt.Sprintf(`{"phone":%q,"password":%q,"device":{"kind":"web","id":"forger","name":"forger"}}`, plantedPhone, plantedPassword)
	return []row{{name: "a login with a forged address", try: d.post("/api/v1/auth/login", "", login, forged...), want: "200", then: func(t *testing.T) {
		t.Helper()
		_, doc := d.Call(t, http.MethodGet, "/api/v1/me/logins", d.account(t), nil)
		list, _ := doc["data"].([]any)
		seen := map[any]any{}
		for _, l := range list {
			seen[l.(map[string]any)["device_name"]] = l.(map[string]any)["address"]
		}
		require.Equal(t, fmt.Sprint("the address in ", doc), seen["forger"], "127.0.0.1")
	}}}
}
