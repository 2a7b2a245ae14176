package sale

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestServerDeliversAlarmToWebhook raises an alarm in the database of a server
// with a webhook: the server delivers it signed, lists it and accepts the
// acknowledgement.
func TestServerDeliversAlarmToWebhook(t *testing.T) {
	t.Parallel()
	const secret = "a webhook secret of thirty-two bytes"
	told := make(chan string, 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || alarm.Verify(r.Header, []byte(secret), time.Now(), body) != nil {
			t.Errorf("unsigned message: %v %s", err, body)
		}
		told <- string(body)
	}))
	t.Cleanup(receiver.Close)
	databaseURL := pgtest.DatabaseURL(t)
	in := shop.Serve(t, databaseURL, pgtest.RedisURL(t), "--alarm-webhook-url="+receiver.URL, "--alarm-webhook-secret="+secret)
	conn, err := pgx.Connect(t.Context(), databaseURL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	require.NoError(t, alarm.BooksBroken.Raise(t.Context(), conn, "item 17", "One unit is missing."))
	deadline := time.After(30 * time.Second)
	for found := false; !found; {
		select {
		case body := <-told:
			found = strings.Contains(body, "item 17")
		case <-deadline:
			t.Fatal("the alarm was not delivered")
		}
	}
	operator := shop.Mint(t, 1, auth.Operator)
	_, doc := in.Call(t, http.MethodGet, "/api/v1/admin/alarms?open=true&code=books-broken", operator, nil)
	list, _ := doc["data"].([]any)
	if len(list) != 1 {
		t.Fatalf("open alarms: %v", doc)
	}
	id, _ := list[0].(map[string]any)["id"].(string)
	if status, doc := in.Call(t, http.MethodPost, "/api/v1/admin/alarms/"+id+"/acknowledge", operator, nil); status != http.StatusOK {
		t.Fatalf("acknowledge: %d %v", status, doc)
	}
}
