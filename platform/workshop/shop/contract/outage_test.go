package contract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/linktest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// postgresLink is a database's URL over a link.
func postgresLink(t *testing.T, databaseURL string) (*linktest.Link, string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(databaseURL)
	require.NoError(t, err)
	network, addr := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	l := linktest.New(t, network, addr)
	u := url.URL{Scheme: "postgres", User: url.UserPassword(cfg.User, cfg.Password), Host: l.Addr(), Path: "/" + cfg.Database, RawQuery: "sslmode=disable"}
	return l, u.String()
}

// sample returns a small value that is valid for a schema of the document.
func sample(d *shop.Document, schema map[string]any) any {
	if ref, ok := schema["$ref"].(string); ok {
		return sample(d, d.At(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
	}
	for _, word := range []string{"enum", "examples"} {
		if list, ok := schema[word].([]any); ok && len(list) > 0 {
			return list[0]
		}
	}
	kind, _ := schema["type"].(string)
	if list, ok := schema["type"].([]any); ok {
		kind, _ = list[0].(string)
	}
	switch kind {
	case "object":
		value := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if property, ok := properties[name.(string)].(map[string]any); ok {
				value[name.(string)] = sample(d, property)
			}
		}
		return value
	case "array":
		return []any{}
	case "boolean":
		return true
	case "integer", "number":
		return 1
	}
	if schema["format"] == "date-time" {
		return moment(time.Hour)
	}
	return "1"
}

// sweep sends every documented operation once and returns the statuses.
func sweep(t *testing.T, in *shop.Instance, itemID, activityID string) map[string]int {
	t.Helper()
	doc, err := shop.Documented()
	require.NoError(t, err)
	names := strings.NewReplacer("admin/activities/{id}", "admin/activities/"+activityID, "items/{id}", "items/"+itemID,
		"{no}", ids.NewFor(3001).String(), "{order_no}", ids.NewFor(3001).String(), "{provider}", "sandbox", "{path}", "AAAA", "{id}", "77")
	bodies := map[string]string{
		"POST /api/v1/admin/activities":       `{"name":"Sale","starts_at":"2030-01-01T00:00:00Z","ends_at":"2030-01-02T00:00:00Z"}`,
		"POST /api/v1/admin/sessions":         `{"activity_id":"1","name":"Night","opens_at":"2030-01-01T00:00:00Z","closes_at":"2030-01-01T01:00:00Z"}`,
		"POST /api/v1/admin/items/{id}/stock": `{"add":1}`,
	}
	admin, shopper := shop.Mint(t, 8, auth.Admin), shop.Mint(t, 3001, auth.Shopper)
	statuses, mu, all := map[string]int{}, sync.Mutex{}, errgroup.Group{}
	all.SetLimit(8)
	for route, methods := range doc.At("paths") {
		if doc.At("paths", route, "get", "responses", "200", "content", "text/event-stream") != nil {
			continue // a stream, which its client ends
		}
		for method := range methods.(map[string]any) {
			operation, token := strings.ToUpper(method)+" "+route, shopper
			if strings.HasPrefix(route, "/api/v1/admin/") {
				token = admin
			}
			body := bodies[operation]
			if schema := doc.At("paths", route, method, "requestBody", "content", "application/json", "schema"); schema != nil && body == "" {
				raw, err := json.Marshal(sample(doc, schema))
				require.NoError(t, err)
				body = string(raw)
			}
			all.Go(func() error {
				a := shop.Exchange(t, strings.ToUpper(method), in.URL+names.Replace(route), token, body)
				if a.Status == http.StatusInternalServerError {
					t.Errorf("%s answers %d %.300s", operation, a.Status, a.Raw)
				}
				mu.Lock()
				defer mu.Unlock()
				statuses[operation] = a.Status
				return nil
			})
		}
	}
	_ = all.Wait() // none fails
	return statuses
}

// readOnly makes a database read only, as a standby is, or writable again.
func readOnly(t *testing.T, databaseURL string, on bool) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	for _, sql := range []string{
		`SET default_transaction_read_only = off`,
		fmt.Sprintf(`ALTER DATABASE %s SET default_transaction_read_only = %t`, pgx.Identifier{conn.Config().Database}.Sanitize(), on),
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
	} {
		pgtest.Exec(t, conn, sql)
	}
}

// unwell returns the message of each component that a server names as such. The server stays in the load balancer: it can
// answer with 503 and Retry-After, and every other instance lacks the same store.
func unwell(t *testing.T, in *shop.Instance) map[string]string {
	t.Helper()
	doc := in.Do(t, http.MethodGet, in.OpsURL(t)+"/readyz", "", nil, http.StatusOK)
	why := map[string]string{}
	components, _ := doc["components"].(map[string]any)
	for _, name := range []string{"postgres", "redis", "nats", "orders", "items", "process"} {
		c, _ := components[name].(map[string]any)
		if c["ok"] != true {
			why[name], _ = c["why"].(string)
		}
	}
	if doc["ready"] != true || doc["degraded"] != (len(why) > 0) {
		t.Errorf("readyz: %v", doc)
	}
	return why
}

// TestOutageOfAStoreIsA503 calls every documented operation while Postgres reads
// only, while it is down, while Redis is, and while Redis has no memory: none may
// cause a 500, but a 503 that says what to do. After an outage there is an alarm.
func TestOutageOfAStoreIsA503(t *testing.T) {
	t.Parallel()
	direct, private := pgtest.DatabaseURL(t), redistest.Start(t)
	postgres, databaseURL := postgresLink(t, direct)
	store := linktest.New(t, "tcp", private.Addr)
	in := shop.Serve(t, databaseURL, "redis://"+store.Addr()+"/0")
	sale, operator := in.Plan(t, 20, 500*time.Millisecond), shop.Mint(t, 9, auth.Operator)
	activity, item := "/api/v1/admin/activities/"+sale.ActivityID, "/api/v1/admin/items/"+sale.ItemID
	pgtest.Eventually(t, 30*time.Second, func() bool {
		status, doc := in.Call(t, http.MethodGet, item+"/funnel", operator, nil)
		_, shown := in.Call(t, http.MethodGet, "/api/v1/items/"+sale.ItemID, "", nil)
		return status == http.StatusOK && doc["loaded"] == true && shown["status"] == "on_sale"
	}, "the item to be loaded and on sale")
	holder, line := shop.NewBuyer(t, in, 5001), shop.NewBuyer(t, in, 5002)
	held := holder.Order(t, sale.ItemID)
	queued, path := line.Path(t, sale.ItemID)

	readOnly(t, direct, true)
	sweep(t, in, sale.ItemID, sale.ActivityID)
	if a := shop.Exchange(t, http.MethodPost, in.URL+item+"/stock", operator, `{"add":1}`); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
		t.Errorf("while Postgres reads only: %d %s", a.Status, a.Raw)
	}
	readOnly(t, direct, false)

	for _, away := range []struct {
		name string
		*linktest.Link
	}{{"Postgres", postgres}, {"Redis", store}} {
		name, l := away.name, away.Link
		began := time.Now()
		pgtest.Eventually(t, 30*time.Second, func() bool { return len(unwell(t, in)) == 0 }, "every component to be well")
		l.Cut(true)
		if name == "Postgres" {
			require.Equal(t, "the answer to a rush while Postgres is away", in.Send(t, path), "")
		} else {
			var last string
			pgtest.Eventually(t, 30*time.Second, func() bool {
				why := unwell(t, in)
				last = why["redis"]
				return len(why) == 1 && last != ""
			}, "only Redis to be named")
			if strings.Contains(last, "password") || len(last) > 300 {
				t.Errorf("why: %q", last)
			}
			holder.AwaitStatus(t, held, "pending_payment", 10*time.Second)
			in.Do(t, http.MethodPost, "/api/v1/orders/"+held+"/payments", holder.Token, map[string]any{}, http.StatusOK)
		}
		statuses := sweep(t, in, sale.ItemID, sale.ActivityID)
		for _, asked := range []struct{ method, path, says string }{
			{http.MethodPost, activity + "/pause", "repeat the request until it succeeds"},
			{http.MethodPost, activity + "/terminate", "repeat the request until it succeeds"},
			{http.MethodPost, item + "/stock", "repeat the request until it succeeds"},
			{http.MethodGet, item + "/funnel", "selling continues"},
			{http.MethodGet, "/api/v1/admin/audit", "selling continues"},
			{http.MethodGet, activity, "selling continues"},
		} {
			if name == "Redis" && !strings.HasSuffix(asked.path, "/funnel") {
				continue // answered from Postgres, and their effect is done
			}
			a := shop.Exchange(t, asked.method, in.URL+asked.path, operator, map[bool]string{true: `{"add":1}`}[strings.HasSuffix(asked.path, "/stock")])
			if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || !strings.Contains(string(a.Raw), asked.says) {
				t.Errorf("without %s, %s %s: %d %s", name, asked.method, asked.path, a.Status, a.Raw)
			}
		}
		if len(statuses) < 80 {
			t.Errorf("only %d operations were called", len(statuses))
		}
		code := strings.ToLower(name) + "-unreachable"
		pgtest.Eventually(t, 30*time.Second, func() bool { return strings.Contains(in.Err.String(), "code="+code) }, "the log to report it")
		l.Cut(false)
		pgtest.Eventually(t, 30*time.Second, func() bool {
			status, doc := in.Call(t, http.MethodGet, "/api/v1/admin/alarms?code="+code, operator, nil)
			list, _ := doc["data"].([]any)
			if status != http.StatusOK || len(list) != 1 {
				return false
			}
			a := list[0].(map[string]any)
			return strings.Contains(text(a, "detail"), "It lasted ") && text(a, "first_seen_at") < text(a, "last_seen_at")
		}, "the alarm that says how long it lasted")
		if name == "Postgres" {
			line.AwaitStatus(t, queued, "pending_payment", 10*time.Second)
		}
		t.Logf("without %s for %s", name, time.Since(began).Round(time.Millisecond))
	}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		status, _ := in.Call(t, http.MethodGet, item+"/funnel", operator, nil)
		return status == http.StatusOK && len(unwell(t, in)) == 0
	}, "the funnel, and every component to be well again")

	require.NoError(t, private.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	if _, doc := in.Call(t, http.MethodGet, in.OpsURL(t)+"/readyz", "", nil); doc["degraded"] != true || !strings.Contains(fmt.Sprint(doc["components"]), "raise its maxmemory") {
		t.Errorf("readyz while Redis is full: %v", doc)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		_, doc := in.Call(t, http.MethodGet, "/api/v1/admin/alarms?code=redis-refuses-writes", operator, nil)
		list, _ := doc["data"].([]any)
		return len(list) == 1
	}, "the alarm about the full Redis")
	sweep(t, in, sale.ItemID, sale.ActivityID)
}
