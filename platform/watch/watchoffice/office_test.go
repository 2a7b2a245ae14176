package watchoffice

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/officetest"
	"stampede/platform/workshop/require"
)

// TestPagesSayWhatTheAPIMeans: a check that could not run has proved nothing, the list of messages names the state that the
// API lists by default, and an event that NATS refused can be sent again before it has failed.
func TestPagesSayWhatTheAPIMeans(t *testing.T) {
	t.Parallel()
	const refused, first = `{"id":"refused","status":"pending","next_try_at":"2026-11-11T20:00:00Z"}`, `{"id":"first","status":"pending"}`
	open := officetest.Open(t, Section(), auth.Operator, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, cmp.Or(map[string]string{
			api + "/proof/3": `{"id":"3","status":"failed","outcomes":[{"id":"I1","violations":[],"error":"canceled"},
				{"id":"I2","violations":[{"subject":"item 7","detail":"off by one"}]},{"id":"I3","violations":[]}]}`,
			api + "/messages": `{"data":[` + refused + `,` + first + `]}`, api + "/messages/refused": refused, api + "/messages/first": first,
		}[r.URL.Path], "{}"))
	})
	proof := open("/admin/proofs/3", nil, "en")
	for _, says := range []string{`<span class="bad">canceled</span> <span class="tag bad">Failed</span>`, `<span class="tag bad">Violated</span>`, `<span class="tag good">Proved</span>`} {
		require.Contains(t, "the proof", proof, says)
	}
	list := open("/admin/messages", nil, "en")
	require.Contains(t, "the list's states", list, `name="status" required><option value="failed">`)
	for page, want := range map[string]string{list: "refused", open("/admin/messages/refused", nil, "en"): "refused", open("/admin/messages/first", nil, "en"): ""} {
		for _, id := range []string{"refused", "first"} {
			require.Equal(t, "a button for "+id, strings.Contains(page, `action="/admin/messages/`+id+`/again"`), id == want)
		}
	}
}
