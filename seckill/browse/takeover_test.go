package browse

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// A Redis that took over shows a sale before its last edit and a deleted sale,
// and lacks one that was published since.
func TestViewsOfARedisThatTookOverAreRenewed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const mark = viewTakeovers + "run"
	// Run the process until it has handled the takeover.
	live := func() {
		t.Helper()
		defer w.Run(w.svc.Run)()
		pgtest.Eventually(t, 3*viewsEvery, func() bool {
			text, err := w.Redis.Info(t.Context(), "server").Result()
			run, _ := w.Redis.Get(t.Context(), mark).Result()
			return err == nil && run != "" && strings.Contains(text, "run_id:"+run)
		}, "the run id to be recorded")
	}
	live()
	edited, deleted := w.publish(time.Hour), w.publish(time.Hour)
	views := make(map[string]string)
	for _, key := range w.Redis.Keys(t.Context(), "sv*").Val() {
		views[key] = w.Redis.Dump(t.Context(), key).Val()
	}
	w.edit(edited, func(a *Activity) { a.Sessions[0].Items[0].Title = "A better phone" })
	w.drop(deleted)
	late := w.publish(time.Hour)

	for _, key := range w.Redis.Keys(t.Context(), "sv*").Val() {
		w.Redis.Del(t.Context(), key)
	}
	for key, dump := range views {
		// In a cluster, the record by which a deletion finds its views is on
		// another node.
		if key == viewOfActivityPrefix+deleted.activity {
			continue
		}
		require.NoError(t, w.Redis.Restore(t.Context(), key, 0, dump).Err())
	}
	shows := func(s sale) string {
		w.forget()
		r := w.get("/api/v1/items/" + s.item)
		if r.status != http.StatusOK {
			return http.StatusText(r.status)
		}
		return r.text("title")
	}
	require.Equal(t, "the old view", shows(edited), "A phone")
	require.NoError(t, w.Redis.Set(t.Context(), mark, "the run of its predecessor", 0).Err())
	live()
	for _, c := range []struct {
		what string
		sale sale
		want string
	}{{"edited", edited, "A better phone"}, {"deleted", deleted, "Not Found"}, {"published late", late, "A phone"}} {
		if got := shows(c.sale); got != c.want {
			t.Errorf("the sale that was %s shows %q, want %q", c.what, got, c.want)
		}
	}
	w.forget()
	if list := w.get("/api/v1/sessions"); len(list.body["data"].([]any)) != 2 {
		t.Errorf("the list shows %s", list.raw)
	}
}
