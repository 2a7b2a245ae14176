package seckill

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/auth"
	"stampede/platform/pgtest"
)

// A Redis that took over shows a sale before its last edit, one that is deleted,
// and none that was published since.
func TestViewsOfARedisThatTookOverAreRenewed(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	const mark = viewTakeovers + "run"
	// A process lives until its Redis has been looked after.
	live := func() {
		t.Helper()
		defer d.Run(d.svc.runViews)()
		pgtest.Eventually(t, 3*viewsEvery, func() bool {
			text, err := d.Redis.Info(t.Context(), "server").Result()
			run, _ := d.Redis.Get(t.Context(), mark).Result()
			return err == nil && run != "" && strings.Contains(text, "run_id:"+run)
		}, "the run to be noted")
	}
	live()
	edited, deleted := d.publish(time.Hour), d.publish(time.Hour)
	views := make(map[string]string)
	for _, key := range d.Redis.Keys(t.Context(), "sv*").Val() {
		views[key] = d.Redis.Dump(t.Context(), key).Val()
	}
	d.do(http.StatusOK, http.MethodPatch, "/api/v1/admin/items/"+edited.item, map[string]any{"version": 1, "title": "A better phone"})
	d.do(http.StatusNoContent, http.MethodDelete, "/api/v1/admin/activities/"+deleted.activity, nil)
	late := d.publish(time.Hour)

	for _, key := range d.Redis.Keys(t.Context(), "sv*").Val() {
		d.Redis.Del(t.Context(), key)
	}
	for key, dump := range views {
		// The note by which a deletion finds its views lies elsewhere in a cluster.
		if key == viewOfActivityPrefix+deleted.activity {
			continue
		}
		if err := d.Redis.Restore(t.Context(), key, 0, dump).Err(); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(s sale) string {
		d.forgetBrowse()
		r := d.as(auth.Shopper, http.MethodGet, "/api/v1/items/"+s.item, nil)
		if r.status != http.StatusOK {
			return http.StatusText(r.status)
		}
		return r.text("title")
	}
	if got := shows(edited); got != "A phone" {
		t.Fatalf("the old view shows %q", got)
	}
	if err := d.Redis.Set(t.Context(), mark, "the run of its predecessor", 0).Err(); err != nil {
		t.Fatal(err)
	}
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
	d.forgetBrowse()
	if list := d.as(auth.Shopper, http.MethodGet, "/api/v1/sessions", nil); len(list.body["data"].([]any)) != 2 {
		t.Errorf("the list shows %s", list.raw)
	}
}
