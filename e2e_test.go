package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/cli"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
)

// atOnce is how many tests run in parallel on any machine. They mostly wait,
// for a server to start, an opening or an election, so one per processor would
// leave two processors half idle; and each uses up to fifty connections of the
// Postgres that all packages share.
const atOnce = "4"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" || f.Name == "test.cpu" })
	if !chosen {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err)
		}
	}
	// A test run by root leaves no account behind.
	if os.Geteuid() == 0 && os.Getenv("STAMPEDE_RUN_AS") == "" {
		if err := os.Setenv("STAMPEDE_RUN_AS", "daemon"); err != nil {
			panic(err)
		}
	}
	pgtest.Main(m, removeBinary)
}

const testKey = "6f1c0a92d8e54b7391aa02c4f1e0d9b8e5"

// console collects a command's output and lets a test wait for a line.
type console struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	news chan struct{}
}

func newConsole() *console { return &console{news: make(chan struct{}, 1)} }

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
	return c.buf.Write(p)
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

// await returns the first submatch of the pattern once it is printed, or fails
// if ended closes or the time runs out first.
func (c *console) await(t *testing.T, pattern string, within time.Duration, ended <-chan struct{}) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(within)
	for {
		if m := re.FindStringSubmatch(c.String()); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-c.news:
		case <-ended:
			t.Fatalf("the command exited without printing %q:\n%s", pattern, c)
		case <-timeout:
			t.Fatalf("%q was not printed within %s:\n%s", pattern, within, c)
		}
	}
}

// instance is a server that runs inside the test process.
type instance struct {
	url    string
	router *httpx.Router
	out    *console
	err    *console
	ended  <-chan struct{} // closes when the command has returned
	stop   func() int      // stops it like Ctrl-C and returns the exit code
}

// serveInstance starts `stampede serve` on free ports with the given stores.
func serveInstance(t *testing.T, databaseURL, redisURL string, args ...string) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	in := &instance{out: newConsole(), err: newConsole(), ended: ended}
	var code int
	all := append([]string{
		"serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--database-url=" + databaseURL, "--redis-url=" + redisURL,
		"--signing-key=" + testKey, "--nats-dir=" + filepath.Join(t.TempDir(), "nats"), "--sandbox-bank", "--log-level=warn",
		"--max-conns=28",
		"--paths-per-minute=0", "--rushes-per-second=0", "--units-return-within=0s", // tests are quicker than people
	}, args...)
	go func() {
		defer close(ended)
		set := new(settings)
		serve := func(ctx context.Context, io cli.Streams, start cli.Stack, show func(cli.Parts) error) error {
			return set.serve(ctx, io, start, func(p cli.Parts) error {
				in.router, in.url = p.Router, set.Addresses.LocalURL()
				return show(p)
			})
		}
		program := set.program()
		program.Serve = serve
		code = cli.Main(ctx, program, all, cli.Streams{Out: in.out, Err: in.err})
	}()
	var once sync.Once
	in.stop = func() int {
		once.Do(cancel)
		select {
		case <-ended:
		case <-time.After(30 * time.Second): // three times the promised 10 s
			t.Error("the server did not stop within 30 s")
		}
		return code
	}
	t.Cleanup(func() {
		in.stop()
		if t.Failed() {
			t.Logf("server printed:\n%s%s", in.out, in.err)
		}
	})
	in.out.await(t, `serves (\S+);`, 60*time.Second, ended)
	return in
}

func mint(t *testing.T, user int64, role auth.Role) string {
	t.Helper()
	token, err := auth.NewTokens([]byte(testKey), time.Now).Mint(auth.Principal{UserID: user, Role: role}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func jsonNumber(n int64) string {
	raw, _ := json.Marshal(n) // an integer cannot fail to encode
	return string(raw)
}

// call sends a request and decodes the answer, whatever its status.
func (in *instance) call(t *testing.T, method, path, token string, body any) (status int, doc map[string]any) {
	t.Helper()
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	target := path
	if strings.HasPrefix(path, "/") {
		target = in.url + path
	}
	req, err := http.NewRequestWithContext(t.Context(), method, target, reader)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := checked(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 0 && json.Unmarshal(raw, &doc) != nil {
		t.Fatalf("%s %s answered %d without JSON: %s", method, path, resp.StatusCode, raw)
	}
	return resp.StatusCode, doc
}

// plan publishes a sale of stock units that opens after the given time.
func (in *instance) plan(t *testing.T, stock int, opensIn time.Duration) loadgen.Planned {
	t.Helper()
	planned, err := loadgen.PlanSale(t.Context(), in.url, mint(t, 1, auth.Operator), loadgen.Sale{
		Name: "Test sale", Title: "Test phone", Stock: stock, OpensAt: time.Now().Add(opensIn), Open: 10 * time.Minute, PayAfter: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return planned
}

func TestSaleRunsEndToEnd(t *testing.T) {
	t.Parallel()
	databaseURL, redisURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t)
	in := serveInstance(t, databaseURL, redisURL)
	sale := in.plan(t, 30, 2*time.Second)

	log := filepath.Join(t.TempDir(), "client.jsonl")
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{
		"rush", "--item=" + sale.ItemID, "--shoppers=400", "--conns=32", "--pay=80%", "--json", "--url=" + in.url, "--signing-key=" + testKey,
		"--log=" + log, "--database-url=" + databaseURL, "--redis-url=" + redisURL, "--data=" + t.TempDir(),
	}, &out, &errs)
	if code != 0 {
		t.Fatalf("rush: exit %d\n%s\n%s", code, out.String(), errs.String())
	}
	var report struct {
		Answers     map[string]int64
		Outcomes    map[string]int64
		Troubles    map[string]int64
		BooksProved bool `json:"books_proved"`
		Books       []inventory.BookRow
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	if report.Answers["queued"] != 30 || report.Outcomes["paid"] != 24 || report.Outcomes["pending_payment"] != 6 || !report.BooksProved {
		t.Errorf("report %+v; want 30 in line, 24 paid, 6 waiting to pay, books proved", report)
	}
	// A slow machine may load the item after its opening, or renew a lane's lease
	// too late; such attempts are refused with a time to come again, and do.
	delete(report.Troubles, "an attempt was answered fenced and repeated")
	if len(report.Troubles) > 0 {
		t.Errorf("troubles: %v", report.Troubles)
	}

	if b := report.Books; len(b) != 1 || b[0].ItemID != mustID(t, sale.ItemID) || b[0].Total != 30 || b[0].Held != 6 || b[0].Sold != 24 || b[0].Difference != 0 {
		t.Errorf("the report's books are %+v, want 24 of 30 sold and 6 held", b)
	}

	// The same books, proved by the command that an operator runs afterwards.
	out.Reset()
	code = run(t.Context(), []string{"verify", "--client-log=" + log, "--database-url=" + databaseURL, "--redis-url=" + redisURL, "--data=" + t.TempDir()}, &out, &errs)
	if code != 0 || !strings.Contains(out.String(), "I1") || !strings.Contains(out.String(), "I9") {
		t.Errorf("verify: exit %d\n%s\n%s", code, out.String(), errs.String())
	}

	began := time.Now()
	if code := in.stop(); code != 0 {
		t.Errorf("stop: exit %d\n%s", code, in.err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the stop took %s, want at most 10 s", took)
	}
}

func TestVerifyNamesAPlantedViolation(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	redisURL := pgtest.RedisURL(t)
	// Money for an order that does not exist. Nothing about it is in flight, so
	// verify does not wait and check again.
	no := ids.New()
	_, err := pool.Exec(t.Context(), `INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, amount, currency)
		VALUES ('sandbox', 'capture', 'planted', $1, $2, 9900, 'CNY')`, ids.New(), no)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"verify", "--database-url=" + pool.Config().ConnString(), "--redis-url=" + redisURL, "--data=" + t.TempDir()}, &out, &errs)
	if code != 1 || !strings.Contains(out.String(), no.String()) {
		t.Errorf("verify: exit %d, want 1 naming order %s\n%s\n%s", code, no, out.String(), errs.String())
	}
	out.Reset()
	code = run(t.Context(), []string{"verify", "--item=78", "--database-url=" + pool.Config().ConnString(), "--redis-url=" + redisURL}, &out, &errs)
	if want := "Item 78 has no books: no item with that number was published."; code != 1 || !strings.HasPrefix(out.String(), want) {
		t.Errorf("verify of an unknown item: exit %d, want 1 and %q\n%s", code, want, out.String())
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string // in stderr, or in stdout for code 0
	}{
		{[]string{"version"}, 0, "stampede "},
		{nil, 0, "Usage: stampede"},
		{[]string{"--help"}, 0, "verify"},
		{[]string{"sell"}, 2, "unexpected argument sell\nTry: stampede --help\n"},
		{[]string{"serve", "--preheat-lead=30"}, 2, `--preheat-lead: a duration needs a unit, such as 30s, 5m or 1h30m; "30" has none`},
		{[]string{"serve"}, 2, "--database-url and --redis-url are needed"},
		{[]string{"serve", "--database-url=postgres://h/d", "--redis-url=redis://h:1"}, 2, "STAMPEDE_SIGNING_KEY"},
		{[]string{"serve", "--database-url=postgres://h/d", "--redis-url=redis://h:1", "--signing-key=changeme-changeme-changeme-changeme"}, 2, "example"},
		{[]string{"serve", "--database-url=mysql://h/d", "--redis-url=redis://h:1"}, 2, "--database-url must be like"},
		{[]string{"token", "--user=0", "--signing-key=" + testKey}, 2, "--user must be an id from 1, not 0\nTry: stampede token --help\n"},
		{[]string{"token", "--user=9223372036854775807", "--count=2", "--signing-key=" + testKey}, 2, "--count 2 exceeds the largest user id"},
		{[]string{"token", "--user=1", "--role=root", "--signing-key=" + testKey}, 2, "--role must be one of"},
		{[]string{"token", "--user=1", "--data=" + empty}, 1, "no stack is known there"},
		{[]string{"rush", "--item=1", "--data=" + empty}, 1, "no signing key"},
		{[]string{"rush", "--data=" + empty, "--signing-key=" + testKey}, 2, "name the item with --item ID, or let --demo plan a sale\nTry: stampede rush --help\n"},
		{[]string{"rush", "--item=1", "--rate=fast", "--data=" + empty, "--signing-key=" + testKey}, 2, "--rate must be attempts per second or max"},
		{[]string{"rush", "--item=1", "--pay=8", "--data=" + empty, "--signing-key=" + testKey}, 2, "--pay must be a share"},
		{[]string{"rush", "--item=1", "--demo", "--data=" + empty, "--signing-key=" + testKey}, 2, "either --item or --demo"},
		{[]string{"rush", "--demo", "--conns=0"}, 2, "the number of connections must be between 1 and 10000, not 0"},
		{[]string{"bench", "--stages=nothing"}, 2, "there is no stage \"nothing\""},
		{[]string{"run", "--demo-every=1s", "--data=" + empty}, 2, "--demo-every must be at least 10s"},
		{[]string{"run", "--signing-key=short", "--data=" + empty}, 2, "STAMPEDE_SIGNING_KEY"},
		{[]string{"verify", "--data=" + empty}, 3, "no stack is known there"},
		{[]string{"verify", "--database-url=postgres://h.invalid/d", "--redis-url=redis://h.invalid:1"}, 3, "The host name of postgres://h.invalid/d does not resolve here"},
		{[]string{"reconcile", "--data=" + empty}, 3, "no stack is known there"},
		{[]string{"migrate", "--database-url=postgres://h.invalid/d"}, 31, "correct --database-url (STAMPEDE_DATABASE_URL)"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), c.args, &out, &errs)
		text := errs.String()
		if c.code == 0 {
			text = out.String()
		}
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("stampede %s: exit %d, want %d with %q:\n%s", strings.Join(c.args, " "), code, c.code, c.want, text)
		}
	}
}

func TestTokensForExternalTools(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"token", "--user=100", "--count=3", "--signing-key=" + testKey}, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	tokens := auth.NewTokens([]byte(testKey), time.Now)
	lines := strings.Fields(out.String())
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3", len(lines))
	}
	for i, line := range lines {
		if p, err := tokens.Verify(line); err != nil || p.UserID != int64(100+i) {
			t.Errorf("line %d names %+v, %v", i, p, err)
		}
	}
}

// The committed OpenAPI document must match the routes; `make generate` rewrites it.
func TestServedRoutes(t *testing.T) {
	t.Parallel()
	in := serveInstance(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--paths-per-minute=5", "--rushes-per-second=10") // as by default
	in.checkClasses(t)
	_, served := fetch(t, in.url+"/openapi.json")
	for _, described := range regexp.MustCompile(`Problem"\}\}\},"description":"([a-z]+(?:-[a-z]+)*(?:, [a-z]+(?:-[a-z]+)*)*)"`).FindAllSubmatch(served, -1) {
		for code := range strings.SplitSeq(string(described[1]), ", ") {
			if _, known := fault.Codes()[code]; !known {
				t.Errorf("the document names %q, which is not the code of any fault", code)
			}
		}
	}
	const name = "platform/edge/httpx/openapi.json"
	if os.Getenv("STAMPEDE_UPDATE_OPENAPI") != "" {
		if err := os.WriteFile(name, served, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	committed, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(committed, served) {
		t.Errorf("%s differs from the served document (%v); run `make generate` and commit it", name, err)
	}
}

// checkClasses checks every route's class, which follows from the cost of
// refusing it. Unlisted API routes are normal.
func (in *instance) checkClasses(t *testing.T) {
	t.Helper()
	want := map[string]httpx.Class{}
	for class, routes := range map[httpx.Class][]string{
		httpx.Critical: {
			"POST /api/v1/payments/{provider}/notify", "POST /api/v1/payments/{provider}/refund-notify", "GET /api/v1/orders",
			"GET /api/v1/orders/{no}", "PUT /api/v1/orders/{no}/details", "POST /api/v1/orders/{no}/payments", "POST /api/v1/orders/{no}/cancel",
		},
		httpx.Held:   {"GET /api/v1/ws"},
		httpx.Events: {"GET /api/v1/admin/items/{id}/funnel/live", "GET /api/v1/admin/activities/{id}/war-room/live"},
		httpx.Sheddable: {
			"GET /api/v1/sessions", "GET /api/v1/sessions/{id}", "GET /api/v1/items/{id}", "GET /api/v1/items/{id}/detail", "GET /api/v1/admin/activities", "GET /api/v1/admin/activities/{id}/rules",
			"GET /api/v1/admin/activities/{id}", "GET /api/v1/admin/alarms", "GET /api/v1/admin/audit", "GET /api/v1/admin/settings", "GET /api/v1/admin/blacklist", "GET /api/v1/admin/coupons", "GET /api/v1/admin/coupons/{id}", "GET /api/v1/admin/coupons/{id}/issued",
			"GET /api/v1/admin/dead-letters", "GET /api/v1/admin/dead-letters/{id}", "GET /api/v1/admin/disputes", "GET /api/v1/admin/disputes/{no}", "GET /api/v1/admin/items",
			"GET /api/v1/admin/items/{id}", "GET /api/v1/admin/items/{id}/admission", "GET /api/v1/admin/items/{id}/detail", "GET /api/v1/admin/items/{id}/preview", "GET /api/v1/admin/activities/{id}/preflight", "GET /api/v1/admin/items/{id}/funnel",
			"GET /api/v1/admin/sessions/{id}/funnel", "GET /api/v1/admin/sessions/{id}/report", "GET /api/v1/admin/activities/{id}/funnel", "GET /api/v1/admin/proof", "GET /api/v1/admin/proof/{id}",
			"GET /api/v1/admin/items/{id}/reservations", "GET /api/v1/admin/activities/{id}/war-room",
			"GET /api/v1/admin/messages", "GET /api/v1/admin/messages/{id}", "GET /api/v1/admin/orders", "GET /api/v1/admin/orders/export", "GET /api/v1/admin/orders/{no}",
			"GET /api/v1/admin/reconcile", "GET /api/v1/admin/refunds", "GET /api/v1/admin/risk/decisions", "GET /api/v1/admin/risk/rules", "GET /api/v1/admin/sessions",
			"GET /api/v1/admin/sessions/{id}", "GET /api/v1/admin/statements/{date}", "GET /api/v1/admin/stores", "GET /api/v1/admin/stores/{id}", "GET /api/v1/admin/users", "GET /api/v1/admin/users/{id}",
		},
	} {
		for _, route := range routes {
			want[route] = class
		}
	}
	err := chi.Walk(in.router.Bare, func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		route := method + " " + pattern
		expected, listed := want[route]
		switch {
		case listed:
		case pattern == "/openapi.json" || pattern == "/" || strings.HasPrefix(pattern, "/docs") || strings.HasPrefix(pattern, "/static/") || strings.HasPrefix(pattern, "/admin/static/"):
			expected = httpx.Static
		case strings.HasPrefix(pattern, "/admin"):
			expected = httpx.Relayed
		case method == http.MethodGet && !strings.HasPrefix(pattern, "/api/"): // pages
			expected = httpx.Sheddable
		default:
			expected = httpx.Normal
		}
		delete(want, route)
		if got := in.router.ClassOf(method, pattern); got != expected {
			t.Errorf("%s is %s, want %s", route, got, expected)
		}
		return nil
	})
	if err != nil || len(want) != 0 {
		t.Errorf("these routes are not served (%v): %v", err, want)
	}
}
