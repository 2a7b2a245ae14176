package change

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/outbound"
	"stampede/platform/watch/preflight"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
	"stampede/seckill/readiness"
)

// Each kind of finding of a plan is raised by a plan that has it, and by no other.
func TestPreflight(t *testing.T) {
	t.Parallel()
	pictures := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/p.png":
			w.Header().Set("Content-Type", "image/png")
		case "/page":
			w.Header().Set("Content-Type", "text/html")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(pictures.Close)
	trusted := pictures.Client().Transport.(*http.Transport).TLSClientConfig
	images := outbound.New(outbound.Config{Peer: "images", Timeout: 30 * time.Second, Attempts: 1, MaxBytes: 1, TLS: trusted})
	t.Cleanup(images.CloseIdleConnections)
	y := setup(t)
	nats := preflight.Check{Code: "nats", Look: func(_ context.Context, n preflight.Need) ([]preflight.Finding, error) {
		return []preflight.Finding{{Level: preflight.OK, Found: fault.Text{fmt.Sprintf("%d units, %d shoppers", n.Units, n.Shoppers)}}}, nil
	}}
	looking := func(cfg plan.Config, servers ...preflight.Check) *readiness.Service {
		return readiness.New(cfg, readiness.Deps{DB: y.DB, Clock: new(seckilltest.Clock), Servers: servers, Images: images})
	}
	d := y.instance(func(cfg *plan.Config, deps *Deps) {
		cfg.TimeZone = noonZone(time.Now().UTC().Hour())
		deps.Readiness = looking(*cfg, nats)
	})
	strict := y.instance(func(cfg *plan.Config, deps *Deps) {
		cfg.TimeZone, cfg.ShortestPayWindow = noonZone(time.Now().UTC().Hour()), time.Minute
		deps.Readiness = looking(*cfg, nats)
	})
	full := y.instance(func(cfg *plan.Config, deps *Deps) {
		cfg.TimeZone = noonZone(time.Now().UTC().Hour())
		deps.Readiness = looking(*cfg, nats, preflight.Check{Code: "disk", Look: func(context.Context, preflight.Need) ([]preflight.Finding, error) {
			return []preflight.Finding{{Level: preflight.Stop, Found: fault.Text{"None is free."}}}, nil
		}})
	})
	d.SQL(`INSERT INTO platform.tally (subject, at, instance, counts) VALUES (1, date_trunc('second', now()), gen_random_uuid(), '{"answers":{"queued":10,"sold-out":490}}'),
		(2, date_trunc('second', now()), gen_random_uuid(), '{"answers":{"sold-out":500},"paths":{"given":9000}}'), (2, now() - interval '31 days', gen_random_uuid(), '{"answers":{"sold-out":9000}}')`)
	type parts = map[string]any
	for name, c := range map[string]struct {
		opens  time.Duration
		change func(activity, session, item parts)
		after  string // SQL after the draft exists
		code   string
		level  preflight.Level
		found  string
	}{
		"a good plan":          {opens: time.Hour},
		"opens in a minute":    {opens: time.Minute, code: "opening", level: preflight.Warning, found: `Session "First" opens in`},
		"has opened":           {opens: -time.Minute, code: "opening", level: preflight.Warning, found: "it sells as soon as it is published"},
		"over":                 {opens: -2 * time.Hour, code: "plan", level: preflight.Stop, found: `Session "First" is already over.`},
		"in the night":         {opens: 14 * time.Hour, code: "shop-hours", level: preflight.Warning, found: "opens at 0"},
		"a slipped decimal":    {opens: time.Hour, change: func(_, _, i parts) { i["sale_price"] = parts{"amount": 99, "currency": "CNY"} }, code: "price", level: preflight.Warning, found: "less than 10 % of its list price"},
		"free":                 {opens: time.Hour, change: func(_, _, i parts) { i["sale_price"] = parts{"amount": 0, "currency": "CNY"} }, code: "price", level: preflight.Warning, found: "is free"},
		"no discount":          {opens: time.Hour, change: func(_, _, i parts) { i["sale_price"] = i["list_price"] }, code: "price", level: preflight.Warning, found: "sells at its list price"},
		"a missing image":      {opens: time.Hour, change: func(_, _, i parts) { i["image_url"] = pictures.URL + "/missing.png" }, code: "images", level: preflight.Warning, found: "status 404"},
		"a page for an image":  {opens: time.Hour, change: func(_, _, i parts) { i["image_url"] = pictures.URL + "/page" }, code: "images", level: preflight.Warning, found: "not an image"},
		"a picture over http":  {opens: time.Hour, after: `UPDATE seckill.items SET image_url = 'http://shop.example/p.png' WHERE activity_id = $1`, code: "images", level: preflight.Warning, found: "Browsers block a picture over http"},
		"a picture of its own": {opens: time.Hour, change: func(_, _, i parts) { i["image_url"] = "/static/phone.svg" }},
		"goods to send without an address": {opens: time.Hour, change: func(a, _, _ parts) {
			a["checkout"] = parts{"ways": []string{"delivery"}, "name": "required"}
		}, code: "handover", level: preflight.Warning, found: "shoppers need not give an address"},
		"goods to send to an address": {opens: time.Hour, change: func(a, _, _ parts) { a["checkout"] = parts{"ways": []string{"delivery"}, "address": "required"} }},
		"without an image":            {opens: time.Hour, change: func(_, _, i parts) { delete(i, "image_url") }},
		"a missing picture": {opens: time.Hour, change: func(_, _, i parts) {
			i["detail"] = parts{"description": "", "images": []string{pictures.URL + "/p.png", pictures.URL + "/missing.png"}}
		}, code: "images", level: preflight.Warning, found: "/missing.png: status 404"},
		"no reservations": {opens: time.Hour, change: func(_, s, _ parts) {
			s["reservation_opens_at"], s["reservation_closes_at"] = time.Now().Add(-time.Hour).UTC(), time.Now().Add(30*time.Minute).UTC()
		}, code: "reservations", level: preflight.Warning, found: "0 shoppers have reserved"},
		"a short window": {opens: time.Hour, after: `UPDATE seckill.activities SET payment_window_share = NULL, payment_window_seconds = 10 WHERE id = $1`, code: "provider", level: preflight.Stop, found: "needs 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			s := d.Draft(c.opens, func(a, session, i parts) {
				i["image_url"] = pictures.URL + "/p.png"
				if c.change != nil {
					c.change(a, session, i)
				}
			})
			asked := d
			if c.after != "" {
				asked = strict
				d.SQL(c.after, s.Activity)
			}
			r := asked.As(auth.Viewer, http.MethodGet, "/api/v1/admin/activities/"+s.Activity+"/preflight?shoppers=5000", nil)
			r.Want(t, name, http.StatusOK, "", "10 units, 5000 shoppers")
			want := preflight.OK
			if c.code != "" {
				want = c.level
			}
			require.Equal(t, "level", r.Text("level"), string(want))
			for _, l := range r.Doc["lines"].([]any) {
				line := l.(map[string]any)
				switch {
				case strings.Contains(fmt.Sprint(line["found"]), "is over."): // an OK beside the blocker that says the same
					t.Errorf("%v", line)
				case line["level"] == "ok":
				case line["code"] != c.code || !strings.Contains(fmt.Sprint(line["found"]), c.found) || line["next"] == "" || line["next_zh"] == "":
					t.Errorf("%v", line)
				}
			}
		})
	}
	// Publication refuses the plan's stops, and answers with what it does not refuse.
	late := d.Draft(-time.Minute, func(_, _, i parts) { i["image_url"] = pictures.URL + "/p.png" })
	publish := "/api/v1/admin/activities/" + late.Activity + "/publish"
	r := full.Do(http.StatusOK, http.MethodPost, publish, nil)
	found, _ := r.Doc["preflight"].(parts)
	lines, _ := found["lines"].([]any)
	var codes []string
	for _, l := range lines {
		codes = append(codes, fmt.Sprint(l.(parts)["code"], " ", l.(parts)["level"]))
	}
	if r.Text("status") != plan.StatusScheduled || found["level"] != "stop" || fmt.Sprint(codes) != "[disk stop opening warning]" || !strings.Contains(string(r.Raw), "it sells as soon as it is published") {
		t.Errorf("published: %s", r.Raw)
	}
	require.Equal(t, "published before", d.Do(http.StatusOK, http.MethodPost, publish, nil).Doc["preflight"], nil)
	over := d.Draft(-2 * time.Hour)
	r = d.As(auth.Operator, http.MethodPost, "/api/v1/admin/activities/"+over.Activity+"/publish", nil)
	r.Want(t, "a plan that is over", http.StatusUnprocessableEntity, "", "already over")
	s := d.Draft(time.Hour)
	for shoppers, want := range map[string]string{"?shoppers=5001": "the busiest second of the last 30 days answered 1000", "": "Enter the expected number"} {
		r := d.As(auth.Viewer, http.MethodGet, "/api/v1/admin/activities/"+s.Activity+"/preflight"+shoppers, nil)
		if warned := strings.Contains(string(r.Raw), `"code":"capacity","level":"warning"`); !strings.Contains(string(r.Raw), want) || warned != (shoppers != "") {
			t.Errorf("%s: %s", shoppers, r.Raw)
		}
	}
	d.As(auth.Viewer, http.MethodGet, "/api/v1/admin/activities/999999/preflight", nil).Want(t, "an unknown activity", http.StatusNotFound, "")
}

// noonZone names a zone in which it is noon when it is this hour in UTC.
func noonZone(hour int) string {
	// The sign of these names is inverted: Etc/GMT-8 is eight hours east.
	if hour <= 12 {
		return fmt.Sprintf("Etc/GMT-%d", 12-hour)
	}
	return fmt.Sprintf("Etc/GMT+%d", hour-12)
}
