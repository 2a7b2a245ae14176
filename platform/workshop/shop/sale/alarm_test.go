package sale

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/signature"
	"stampede/platform/edge/auth"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/robottest"
	"stampede/platform/workshop/shop"
)

// webhook receives a server's alarms, which are signed; robots receive them for people.
type webhook struct {
	args   []string // settings of the server
	told   chan string
	robots *robottest.Server
}

func newWebhook(t *testing.T) webhook {
	t.Helper()
	const secret = "a webhook secret of thirty-two bytes"
	told := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || signature.Stampede.Verify(r.Header, []byte(secret), time.Now(), body) != nil {
			t.Errorf("unsigned message: %v %s", err, body)
		}
		told <- string(body)
	}))
	t.Cleanup(receiver.Close)
	robots := robottest.New(t)
	to := robots.Address("wecom") + "&severity=critical," + robots.Address("feishu") + "," + robots.Via("dingtalk://gone")
	return webhook{[]string{"--alarm-webhook-url=" + receiver.URL, "--alarm-webhook-secret=" + secret, "--alarm-to=" + to}, told, robots}
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
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(w.robots.Took("wecom")) > 0 }, "the group is told")
	require.Contains(t, "the message", w.robots.Took("wecom")[0].Text, "【严重】", "item 17", "处理方法：若商品正在销售，请先暂停。", in.URL+"/admin/alarms?")
	server := []string{"alarm", "test", "--url=" + in.URL, "--signing-key=" + shop.Key}
	require.Contains(t, "the test", shop.Command(t, 1, server...), "ok       webhook: 200\n", "ok       wecom-", "ok       feishu-", `: 0 "ok"`,
		"failed   dingtalk-", `: 300001 "token is not exist"`+"\n         → The robot is no longer in its group")
	require.Contains(t, "an address in no setting", shop.Command(t, 0, "alarm", "test", "--to="+w.robots.Address("slack")), "ok       slack-")
	operator := shop.Mint(t, 1, auth.Operator)
	list, _ := in.Do(t, http.MethodGet, "/api/v1/admin/alarms?open=true&code=books-broken", operator, nil, http.StatusOK)["data"].([]any)
	require.Equal(t, "open alarms", len(list), 1)
	id, _ := list[0].(map[string]any)["id"].(string)
	in.Do(t, http.MethodPost, "/api/v1/admin/alarms/"+id+"/acknowledge", operator, nil, http.StatusOK)
}
