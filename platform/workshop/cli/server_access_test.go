package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
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
		require.Equal(t, "asked for", asked, "/api/v1/admin/activities/7/preflight?shoppers=500")
	}
	if code, _, errs := carryOut(t.Context(), nil, "preflight", "--activity=0"); code != exitUsage || !strings.Contains(errs, "--activity must be an id") {
		t.Errorf("a bad id: exit %d, %q", code, errs)
	}
}

// The command asks as a viewer, in the page's language, and replaces a file only by a
// whole report.
func TestReportIsWritten(t *testing.T) {
	t.Parallel()
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := auth.NewTokens([]byte(oneKey), time.Now).Verify(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		if err != nil || p.Role != auth.Viewer {
			t.Errorf("asked as %+v, %v", p, err)
		}
		if asked = r.URL.String() + " " + r.Header.Get("Accept-Language"); strings.Contains(asked, "/404/") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"not-found","detail":"There is no session with this id."}`))
			return
		}
		_, _ = w.Write([]byte("the report"))
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(file("kept.html"), []byte("kept"), 0o600))
	require.NoError(t, os.Symlink(file("linked.html"), file("link.html")))
	require.NoError(t, os.WriteFile(file("linked.html"), []byte("old"), 0o600))
	const route = "/api/v1/admin/sessions/7/report?format="
	for _, c := range []struct {
		args             []string
		code             int
		asked, out, errs string
		file, content    string
	}{
		{[]string{"7"}, 0, route + "json en", "the report", "", "", ""},
		{[]string{"7", "--format=html", "--lang=zh"}, 0, route + "html zh", "the report", "", "", ""},
		{[]string{"7", "--out=" + file("new.HTML"), "--lang=zh"}, 0, route + "html zh", "", "", "new.HTML", "the report"},
		{[]string{"7", "--out=" + file("link.html")}, 0, route + "html en", "", "", "linked.html", "the report"},
		{[]string{"7", "--out=" + file("new.json")}, 0, route + "json en", "", "", "new.json", "the report"},
		{[]string{"7", "--out=" + file("new"), "--format=json"}, 0, route + "json en", "", "", "new", "the report"},
		{[]string{"404", "--out=" + file("kept.html")}, exitBlind, "/api/v1/admin/sessions/404/report?format=html en", "", "the server answers not-found: There is no session with this id.", "kept.html", "kept"},
		{[]string{"7", "--out=/dev/null", "--format=json"}, 1, route + "json en", "", "/dev/null is not a file", "", ""},
		{[]string{"7", "--out=" + file("none/new.json")}, 1, route + "json en", "", "write the report: ", "", ""},
		{[]string{"7", "--out=" + file("new.pdf")}, exitUsage, "", "", "ends neither in .html nor in .json", "", ""},
		{[]string{"0"}, exitUsage, "", "", "--session must be an id", "", ""},
	} {
		asked = ""
		args := append([]string{"report", "--url=" + server.URL, "--signing-key=" + oneKey, "--session"}, c.args...)
		code, out, errs := carryOut(t.Context(), nil, args...)
		if code != c.code || asked != c.asked || out != c.out || !strings.Contains(errs, c.errs) || (errs == "") != (c.errs == "") {
			t.Errorf("%v: exit %d, asked for %q, printed %q and %q", c.args, code, asked, out, errs)
		}
		if c.file == "" {
			continue
		}
		if raw, err := os.ReadFile(file(c.file)); err != nil || string(raw) != c.content {
			t.Errorf("%v: %s has %q, %v", c.args, c.file, raw, err)
		}
	}
	if left, err := filepath.Glob(file(".*")); err != nil || len(left) > 0 {
		t.Errorf("unfinished files are left: %v, %v", left, err)
	}
}
