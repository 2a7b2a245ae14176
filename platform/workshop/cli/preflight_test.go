package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
)

// The command asks the server as a viewer, prints what it answers, and exits 1 at a
// stop and 3 without an answer.
func TestPreflightExits(t *testing.T) {
	t.Parallel()
	answer, asked := "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := auth.NewTokens([]byte(oneKey), time.Now).Verify(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		if err != nil || p.Role != auth.Viewer {
			t.Errorf("asked as %+v, %v", p, err)
		}
		asked = r.URL.String()
		w.Header().Set("Content-Type", "application/json")
		if answer == "" {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"code":"not-found","detail":"There is no activity with this id."}`
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	const line = `{"code":"disk","level":"%","title":"The disk has room for this stock","subject":"/data","found":"None is free.","next":"Add some."}`
	for _, c := range []struct {
		level, out, errs string
		code             int
	}{
		{"warning", "warning  The disk has room for this stock (/data): None is free.\n         → Add some.\n", "", 0},
		{"stop", "stop     The disk has room for this stock (/data): None is free.\n         → Add some.\n", "the sale is not ready", 1},
		{"", "", "the server answers not-found: There is no activity with this id.", 3},
	} {
		if answer = ""; c.level != "" {
			answer = `{"level":"` + c.level + `","lines":[` + strings.Replace(line, "%", c.level, 1) + `]}`
		}
		code, out, errs := carryOut(t.Context(), nil, "preflight", "--activity=7", "--shoppers=500", "--url="+server.URL, "--signing-key="+oneKey)
		if code != c.code || out != c.out || !strings.Contains(errs, c.errs) || (errs == "") != (c.errs == "") {
			t.Errorf("%s: exit %d, printed %q and %q", c.level, code, out, errs)
		}
		if asked != "/api/v1/admin/activities/7/preflight?shoppers=500" {
			t.Errorf("asked for %s", asked)
		}
	}
	if code, _, errs := carryOut(t.Context(), nil, "preflight", "--activity=0"); code != exitUsage || !strings.Contains(errs, "--activity must be an id") {
		t.Errorf("a bad id: exit %d, %q", code, errs)
	}
}
