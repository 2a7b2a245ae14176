package sale

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// webhook receives a server's alarms, which are signed.
type webhook struct {
	args []string // settings of the server
	told chan string
}

func newWebhook(t *testing.T) webhook {
	t.Helper()
	const secret = "a webhook secret of thirty-two bytes"
	told := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || alarm.Verify(r.Header, []byte(secret), time.Now(), body) != nil {
			t.Errorf("unsigned message: %v %s", err, body)
		}
		told <- string(body)
	}))
	t.Cleanup(receiver.Close)
	return webhook{[]string{"--alarm-webhook-url=" + receiver.URL, "--alarm-webhook-secret=" + secret}, told}
}

// delivers raises an alarm in the database of the webhook's server, which delivers it,
// lists it and accepts the acknowledgement.
func (w webhook) delivers(t *testing.T, in *shop.Instance, databaseURL string) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	require.NoError(t, alarm.BooksBroken.Raise(t.Context(), conn, "item 17", "One unit is missing."))
	deadline := time.After(30 * time.Second)
	for found := false; !found; {
		select {
		case body := <-w.told:
			found = strings.Contains(body, "item 17")
		case <-deadline:
			t.Fatal("the alarm was not delivered")
		}
	}
	operator := shop.Mint(t, 1, auth.Operator)
	list, _ := in.Do(t, http.MethodGet, "/api/v1/admin/alarms?open=true&code=books-broken", operator, nil, http.StatusOK)["data"].([]any)
	require.Equal(t, "open alarms", len(list), 1)
	id, _ := list[0].(map[string]any)["id"].(string)
	in.Do(t, http.MethodPost, "/api/v1/admin/alarms/"+id+"/acknowledge", operator, nil, http.StatusOK)
}
