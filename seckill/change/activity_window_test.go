package change

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
)

// TestAShareBecomesADurationWhenItIsPublished checks that grants and shoppers
// get a duration, and that publication refuses a share shorter than a provider
// can keep, so that no payment fails on it later.
func TestAShareBecomesADurationWhenItIsPublished(t *testing.T) {
	t.Parallel()
	d := setup(t).instance(func(cfg *plan.Config, _ *Deps) { cfg.ShortestPayWindow = time.Minute })
	with := func(share float64) seckilltest.Sale { // of an hour
		return d.Draft(time.Hour, func(activity, _, _ map[string]any) { activity["payment_window_share"] = share })
	}
	short := with(0.016) // 57 s
	tr := d.Traced(func() {
		r := d.As(auth.Operator, http.MethodPost, "/api/v1/admin/activities/"+short.Activity+"/publish", nil)
		if r.Status != 422 || !strings.Contains(string(r.Raw), "needs 1m0s to take a payment") || !strings.Contains(string(r.Raw), "57s") {
			t.Errorf("a share of 57 s: %d %s", r.Status, r.Raw)
		}
	})
	if tr.String() != "[] and 0 events" {
		t.Errorf("a refused publication left %v", tr)
	}
	s := with(0.02) // 72 s
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/publish", nil)
	id, err := strconv.ParseInt(s.Item, 10, 64)
	require.NoError(t, err)
	if item, ok := d.items.Item(id); !ok || item.PayWindow != 72*time.Second {
		t.Errorf("grant: %+v", item)
	}
	tr = d.Traced(func() {
		for path, body := range map[string]string{
			"activities/" + s.Activity: `{"version":1,"payment_window_share":0.01}`,
			"sessions/" + s.Session:    `{"version":1,"closes_at":"` + time.Now().Add(90*time.Minute).UTC().Format(time.RFC3339) + `"}`,
		} {
			if r := d.As(auth.Operator, http.MethodPatch, "/api/v1/admin/"+path, body); r.Status != 422 || !strings.Contains(string(r.Raw), "needs 1m0s to take a payment") {
				t.Errorf("an edit to less: %d %s", r.Status, r.Raw)
			}
		}
	})
	if tr.String() != "[] and 0 events" {
		t.Errorf("refused edits left %v", tr)
	}
	if r := d.As("", http.MethodGet, "/api/v1/items/"+s.Item, nil); r.Doc["payment_window_seconds"] != 72.0 {
		t.Errorf("shoppers get: %s", r.Raw)
	}
}
