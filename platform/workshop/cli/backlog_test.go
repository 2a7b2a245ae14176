package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestGrantsFlowFindsBacklog: a backlog is a violation only while the order
// writer handles nothing; what other consumers do does not matter.
func TestGrantsFlowFindsBacklog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		text     string
		handles  int64 // messages between two scrapes
		violated bool
		fails    bool
	}{
		{name: "a writer that stands still", text: "# TYPE stampede_bus_grants_messages gauge\nstampede_bus_grants_messages 3\n", violated: true},
		{name: "a writer at work", text: "# TYPE stampede_bus_grants_messages gauge\nstampede_bus_grants_messages 3\n", handles: 1},
		{name: "nothing waits", text: "# TYPE stampede_bus_grants_messages gauge\nstampede_bus_grants_messages 0\n"},
		{name: "another server", text: "up 1\n", fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var scrapes atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				n := scrapes.Add(1)
				_, _ = fmt.Fprint(w, c.text)
				_, _ = fmt.Fprintln(w, "# TYPE stampede_bus_messages_handled_total counter")
				_, _ = fmt.Fprintf(w, "stampede_bus_messages_handled_total{consumer=\"order-writer\",outcome=\"handled\"} %d\n", 7+n*c.handles)
				_, _ = fmt.Fprintf(w, "stampede_bus_messages_handled_total{consumer=\"notify\",outcome=\"handled\"} %d\n", n)
			}))
			defer server.Close()
			found, err := grantsFlow(server.URL, time.Millisecond).Run(t.Context())
			if (err != nil) != c.fails || (len(found) == 1) != c.violated || c.violated && !strings.HasPrefix(found[0].Detail, "3 messages wait") {
				t.Errorf("found %v, error %v", found, err)
			}
		})
	}
}
