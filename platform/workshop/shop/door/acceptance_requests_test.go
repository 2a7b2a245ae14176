package door

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// socketRows are WebSockets that are refused or closed.
func (d *frontDoor) socketRows(t *testing.T) []row {
	t.Helper()
	as := func(token string) websocket.DialOptions {
		return websocket.DialOptions{Subprotocols: []string{"stampede.v1", "bearer." + token}}
	}
	from := func(origin string) websocket.DialOptions {
		opts := as(d.shopper(t))
		opts.HTTPHeader = http.Header{"Origin": {origin}}
		return opts
	}
	bare := websocket.DialOptions{}
	frame := strings.Repeat("x", 65<<10)
	var open []*websocket.Conn
	t.Cleanup(func() {
		for _, conn := range open {
			_ = conn.CloseNow()
		}
	})
	rows := []row{
		{name: "a socket with a token", try: d.dial(as(d.shopper(t)), "", nil), want: "101"},
		{name: "with the token as the first message", try: d.dial(bare, fmt.Sprintf(`{"token":%q}`, d.shopper(t)), nil), want: "101"},
		{name: "from the shop's own page", try: d.dial(from(d.URL), "", nil), want: "101"},
		{name: "from a foreign page", try: d.dial(from("https://evil.example"), "", nil), want: "403 forbidden"},
		{name: "from a null origin", try: d.dial(from("null"), "", nil), want: "403 forbidden"},
		{name: "without a token", try: d.dial(bare, `{}`, nil), want: "closed 1008"},
		{name: "with an invalid token", try: d.dial(as("made.up.token"), "", nil), want: "closed 1008"},
		{name: "with a frame of 65 KiB", try: d.dial(bare, frame, nil), want: "closed 1009"},
		{name: "with a frame of 65 KiB after the login", try: d.dial(as(d.shopper(t)), frame, nil), want: "closed 1008"},
	}
	crowded := d.shopper(t)
	for n := 1; n <= 5; n++ {
		rows = append(rows, row{name: fmt.Sprintf("socket %d of one user", n), try: d.dial(as(crowded), "", &open), want: "101"})
	}
	return append(rows,
		row{name: "the sixth socket of one user", try: d.dial(as(crowded), "", nil), want: "closed 1008"},
		row{name: "the first socket of another", try: d.dial(as(d.shopper(t)), "", nil), want: "101"})
}

// keyRows repeat requests under an Idempotency-Key.
func (d *frontDoor) keyRows(t *testing.T) []row {
	t.Helper()
	operator := d.mint(t, 9101, auth.Operator)
	plan := func(name string) string {
		from := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Hour)
		return fmt.Sprintf(`{"name":%q,"starts_at":%q,"ends_at":%q}`, name, from.Format(time.RFC3339), from.Add(time.Hour).Format(time.RFC3339))
	}
	create := func(key, body string) func(*testing.T) got {
		return d.post("/api/v1/admin/activities", operator, body, "Idempotency-Key", key)
	}
	pay := d.post("/api/v1/orders/"+d.no+"/payments", d.a, `{"provider":"sandbox"}`, "Idempotency-Key", "pay")
	once, twice := plan("Once"), plan("Twice")
	var first, payment got
	same := func(what *got, try func(*testing.T) got) func(*testing.T) got {
		return func(t *testing.T) got {
			t.Helper()
			g := try(t)
			if what.Status == 0 {
				*what = g
			} else if !bytes.Equal(g.Raw, what.Raw) {
				t.Errorf("the answer is %s, the first was %s", g.Raw, what.Raw)
			}
			return g
		}
	}
	return []row{
		{name: "a request under a key", try: same(&first, create("k", once)), want: "201"},
		{name: "the same again", try: same(&first, create("k", once)), want: "201"},
		{name: "another body under the key", try: create("k", twice), want: "422 idempotency-mismatch"},
		{name: "another key", try: create("k2", once), want: "201"},
		{name: "a second payment while the first is in progress", try: d.besideItself(pay), want: "409 idempotency-in-flight"},
		{name: "the payment again", try: same(&payment, pay), want: "200"},
		{name: "and again", try: same(&payment, pay), want: "200"},
		{name: "a key without text", try: create("\xff", once), want: "422 invalid"},
	}
}

// besideItself sends a request for A's order twice: the first waits, because
// the order's row is locked, and besideItself returns the answer to the second.
func (d *frontDoor) besideItself(try func(*testing.T) got) func(*testing.T) got {
	return func(t *testing.T) got {
		t.Helper()
		release := pgtest.Locked(t, d.db, `SELECT FROM orders.orders WHERE order_no = $1 FOR UPDATE`, d.no)
		var first got
		var waiting sync.WaitGroup
		waiting.Go(func() { first = try(t) })
		pgtest.Eventually(t, 30*time.Second, func() bool {
			return pgtest.Read[int](t, d.db, `SELECT count(*) FROM platform.idempotency WHERE response IS NULL`) == 1
		}, "the first request to be in progress")
		second := try(t)
		release()
		waiting.Wait()
		require.Equal(t, "the first request: "+string(first.Raw), first.Status, http.StatusOK)
		return second
	}
}
