package seckill

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilldb"
)

// TestPayWindow checks a share of a session: whole seconds, between ten seconds
// and seven days.
func TestPayWindow(t *testing.T) {
	t.Parallel()
	share := func(f float64) *float64 { return &f }
	for _, c := range []struct {
		session time.Duration
		share   *float64
		want    time.Duration
	}{
		{time.Hour, nil, 15 * time.Minute},
		{time.Hour, share(1), time.Hour},
		{time.Hour, share(0.25), 15 * time.Minute},
		{100 * time.Second, share(0.333), 33 * time.Second},
		{100 * time.Second, share(0.01), 10 * time.Second},
		{60 * 24 * time.Hour, share(0.5), 7 * 24 * time.Hour},
	} {
		now := time.Now()
		a := seckilldb.SeckillActivity{PaymentWindowSeconds: 900, PaymentWindowShare: c.share}
		if got := payWindow(&a, &seckilldb.SeckillSession{OpensAt: now, ClosesAt: now.Add(c.session)}); got != c.want {
			t.Errorf("share %v of %v is %v, want %v", c.share, c.session, got, c.want)
		}
	}
}

// TestAShareBecomesADurationWhenItIsPublished checks that grants and shoppers
// get a duration, and that publication refuses a share shorter than a provider
// can keep, so that no payment fails on it later.
func TestAShareBecomesADurationWhenItIsPublished(t *testing.T) {
	t.Parallel()
	d := setup(t).instance(func(cfg *Config, _ *Deps) { cfg.ShortestPayWindow = time.Minute })
	with := func(share float64) sale { // of an hour
		return d.draft(time.Hour, func(activity, _, _ map[string]any) { activity["payment_window_share"] = share })
	}
	short := with(0.016) // 57 s
	tr := d.traced(func() {
		r := d.as(auth.Operator, http.MethodPost, "/api/v1/admin/activities/"+short.activity+"/publish", nil)
		if r.status != 422 || !strings.Contains(string(r.raw), "needs 1m0s to take a payment") || !strings.Contains(string(r.raw), "57s") {
			t.Errorf("a share of 57 s: %d %s", r.status, r.raw)
		}
	})
	if tr.String() != "[] and 0 events" {
		t.Errorf("a refused publication left %v", tr)
	}
	s := with(0.02) // 72 s
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/publish", nil)
	id, err := strconv.ParseInt(s.item, 10, 64)
	require.NoError(t, err)
	if item, ok := d.svc.Catalogue.Item(id); !ok || item.PayWindow != 72*time.Second {
		t.Errorf("grant: %+v", item)
	}
	tr = d.traced(func() {
		for path, body := range map[string]string{
			"activities/" + s.activity: `{"version":1,"payment_window_share":0.01}`,
			"sessions/" + s.session:    `{"version":1,"closes_at":"` + time.Now().Add(90*time.Minute).UTC().Format(time.RFC3339) + `"}`,
		} {
			if r := d.as(auth.Operator, http.MethodPatch, "/api/v1/admin/"+path, body); r.status != 422 || !strings.Contains(string(r.raw), "needs 1m0s to take a payment") {
				t.Errorf("an edit to less: %d %s", r.status, r.raw)
			}
		}
	})
	if tr.String() != "[] and 0 events" {
		t.Errorf("refused edits left %v", tr)
	}
	if r := d.as("", http.MethodGet, "/api/v1/items/"+s.item, nil); r.body["payment_window_seconds"] != 72.0 {
		t.Errorf("shoppers get: %s", r.raw)
	}
}
