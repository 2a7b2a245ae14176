package seckilltest

import (
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/inventory"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// Desk is where operators work on a shop, over the API of one instance.
type Desk struct {
	*Bundle
	Clock  *Clock
	Router *httpx.Router
	Tokens map[auth.Role]string
}

// NewDesk returns a desk whose router has no routes yet.
func NewDesk(y *Bundle) *Desk {
	y.T.Helper()
	tokens := auth.NewTokens(Key, time.Now)
	d := &Desk{
		Bundle: y, Clock: new(Clock), Tokens: map[auth.Role]string{},
		Router: httpx.NewRouter(tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry()),
	}
	for user, role := range []auth.Role{auth.Shopper, auth.Viewer, auth.Operator} {
		token := httpxtest.Token(y.T, tokens, auth.Principal{UserID: int64(user) + 70, Role: role})
		d.Tokens[role] = token
	}
	return d
}

// Reply is an answer.
type Reply struct{ httpxtest.Answer }

// ID reads a field that holds an id.
func (r Reply) ID(t testing.TB, path ...any) string {
	t.Helper()
	var v any = r.Doc
	for _, p := range path {
		switch p := p.(type) {
		case string:
			doc, _ := v.(map[string]any)
			v = doc[p]
		case int:
			if list, ok := v.([]any); ok && p < len(list) {
				v = list[p]
			}
		}
	}
	s, ok := v.(string)
	if !ok {
		t.Fatalf("no id at %v in %s", path, r.Raw)
	}
	return s
}

// As calls the API in a role; body is JSON text or anything to encode.
func (d *Desk) As(role auth.Role, method, path string, body any, headers ...string) Reply {
	d.T.Helper()
	return Reply{httpxtest.Ask(d.T, d.Router, d.Tokens[role], method, path, body, headers...)}
}

// Do calls the API as an operator and requires a status.
func (d *Desk) Do(want int, method, path string, body any, headers ...string) Reply {
	d.T.Helper()
	r := d.As(auth.Operator, method, path, body, headers...)
	if r.Status != want {
		d.T.Fatalf("%s %s: %d, want %d: %s", method, path, r.Status, want, r.Raw)
	}
	return r
}

// Sale is an activity with one session and one item.
type Sale struct{ Activity, Session, Item string }

// StockItem is the item of the sale in the books.
func (s Sale) StockItem(t testing.TB, perActivity bool) inventory.Item {
	t.Helper()
	item, err := strconv.ParseInt(s.Item, 10, 64)
	require.NoError(t, err)
	activity, err := strconv.ParseInt(s.Activity, 10, 64)
	require.NoError(t, err)
	return inventory.Item{ID: item, ActivityID: activity, PerActivity: perActivity}
}

// Draft creates a sale that opens after opensIn and lasts an hour.
func (d *Desk) Draft(opensIn time.Duration, change ...func(activity, session, item map[string]any)) Sale {
	d.T.Helper()
	now := time.Now().UTC()
	item := map[string]any{
		"sku": "phone", "title": "A phone", "list_price": map[string]any{"amount": 20000, "currency": "CNY"},
		"sale_price": map[string]any{"amount": 9900, "currency": "CNY"}, "stock": 10, "image_url": "https://127.0.0.1/p.png", // refused before it is dialed
	}
	session := map[string]any{"name": "First", "opens_at": now.Add(opensIn), "closes_at": now.Add(opensIn + time.Hour)}
	activity := map[string]any{"name": "Sale", "starts_at": now.Add(opensIn - time.Hour), "ends_at": now.Add(opensIn + 2*time.Hour)}
	for _, f := range change {
		f(activity, session, item)
	}
	more, _ := session["items"].([]any)
	session["items"] = append([]any{item}, more...)
	activity["sessions"] = []any{session}
	r := d.Do(http.StatusCreated, http.MethodPost, "/api/v1/admin/activities", activity)
	return Sale{r.ID(d.T, "id"), r.ID(d.T, "sessions", 0, "id"), r.ID(d.T, "sessions", 0, "items", 0, "id")}
}

// Publish creates and publishes a sale.
func (d *Desk) Publish(opensIn time.Duration, change ...func(activity, session, item map[string]any)) Sale {
	d.T.Helper()
	s := d.Draft(opensIn, change...)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/publish", nil)
	return s
}

// SQL runs a statement for what the API cannot do, such as moving time.
func (d *Desk) SQL(statement string, args ...any) {
	d.T.Helper()
	_, err := d.DB.Exec(d.T.Context(), statement, args...)
	require.NoError(d.T, err)
}

// Number reads one number from the database.
func (d *Desk) Number(query string, args ...any) (n int64) {
	d.T.Helper()
	require.NoError(d.T, d.DB.QueryRow(d.T.Context(), query, args...).Scan(&n))
	return n
}

// Trace is what an action recorded: audit entries, oldest first, and events.
type Trace struct {
	Actions []string
	Events  int64
}

func (tr Trace) String() string { return fmt.Sprintf("%v and %d events", tr.Actions, tr.Events) }

// Recorded returns the whole audit log, newest first, and the number of change
// events.
func (d *Desk) Recorded() (actions []audit.Entry, events int64) {
	d.T.Helper()
	actions, err := audit.List(d.T.Context(), d.DB, audit.Filter{})
	require.NoError(d.T, err)
	return actions, d.Number(`SELECT count(*) FROM platform.outbox WHERE subject = $1`, seckillevent.SubjectChanged)
}

// Traced runs fn and returns what it recorded.
func (d *Desk) Traced(fn func()) (tr Trace) {
	d.T.Helper()
	before, events := d.Recorded()
	fn()
	after, now := d.Recorded()
	for i := len(after) - len(before) - 1; i >= 0; i-- {
		tr.Actions = append(tr.Actions, after[i].Action)
	}
	tr.Events = now - events
	return tr
}

// Waker stands for the outbox's relay, which these tests do without.
type Waker struct{}

// Wake does nothing.
func (Waker) Wake() {}
