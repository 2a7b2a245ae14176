package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/tooltest"
)

// startNginx starts the example in front of the instances and returns a client
// that resolves both of its names to it, and its log file.
func startNginx(t *testing.T, program string, instances ...*instance) (client *http.Client, log string) {
	t.Helper()
	dir := t.TempDir()
	raw, err := os.ReadFile("platform/edge/nginx/stampede.conf")
	if err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	conf := string(raw)
	for _, change := range []struct {
		old, to string
		times   int
	}{
		{"listen 80;", "listen " + addr + ";", 2},
		{"10.0.0.11:8080", strings.TrimPrefix(instances[0].url, "http://"), 2},
		{"10.0.0.12:8080", strings.TrimPrefix(instances[1].url, "http://"), 2},
		{"/var/cache/nginx/stampede", filepath.Join(dir, "cache"), 1},
		{"error_log /var/log/nginx/error.log crit;", "error_log " + filepath.Join(dir, "log") + " crit;", 2},
	} {
		if got := strings.Count(conf, change.old); got != change.times {
			t.Fatalf("%q appears %d times in the example, want %d", change.old, got, change.times)
		}
		conf = strings.ReplaceAll(conf, change.old, change.to)
	}
	log = filepath.Join(dir, "log")
	main := "daemon off;\nworker_processes 1;\nerror_log " + log + " warn;\npid " + dir + "/pid;\n"
	if os.Geteuid() == 0 { // otherwise the workers could not enter the test's folder
		group, err := user.LookupGroupId("0")
		if err != nil {
			t.Fatal(err)
		}
		main += "user root " + group.Name + ";\n"
	}
	main += "events { worker_connections 1024; }\nhttp {\naccess_log " + log + ";\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += kind + "_temp_path " + filepath.Join(dir, kind) + ";\n"
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(main+conf+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-p", dir, "-e", log, "-c", file) //nolint:gosec,noctx // the nginx found above; it is stopped below
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // ended by the signal
		if t.Failed() {
			said, _ := os.ReadFile(log)
			t.Logf("nginx printed:\n%s", said)
		}
	})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		conn, err := dial(t.Context(), "", "")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, "nginx to listen")
	transport := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, log
}

// asked is an answer received through nginx.
type asked struct {
	status int
	header http.Header
	text   string
	doc    map[string]any
}

func ask(t *testing.T, client *http.Client, method, url, token, body string, header ...string) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := asked{status: resp.StatusCode, header: resp.Header, text: string(raw)}
	_ = json.Unmarshal(raw, &a.doc) // pages are not JSON
	return a
}

const (
	saleName = "http://sale.example.com"
	rushName = "http://rush.example.com"
)

// TestBehindNginx starts the example in front of two instances and checks what
// it promises: a sale, the client's address, sockets, pages, limits, and the
// loss of an instance.
func TestBehindNginx(t *testing.T) {
	t.Parallel()
	program := tooltest.Nginx(t)
	databaseURL, redisURL, natsURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t), startNATS(t)
	args := []string{"--nats-url=" + natsURL, "--trusted-proxies=127.0.0.1", "--paths-per-minute=5", "--login-per-address=3", "--rushes-per-second=10", "--drain-timeout=500ms"}
	first, second := serveInstance(t, databaseURL, redisURL, args...), serveInstance(t, databaseURL, redisURL, args...)
	sale := first.plan(t, 10, time.Second)
	first.awaitLoaded(t, sale.ItemID)
	second.awaitLoaded(t, sale.ItemID)
	client, log := startNginx(t, program, first, second)
	pathURL := saleName + "/api/v1/items/" + sale.ItemID + "/rush-path"

	socket, _, err := websocket.Dial(t.Context(), strings.Replace(saleName, "http", "ws", 1)+"/api/v1/ws", &websocket.DialOptions{
		HTTPClient: client, Subprotocols: []string{"stampede.v1", "bearer." + mint(t, 1001, auth.Shopper)},
	})
	if err != nil {
		t.Fatalf("a WebSocket through nginx: %v", err)
	}
	t.Cleanup(func() { _ = socket.CloseNow() })
	if _, greeting, err := socket.Read(t.Context()); err != nil || len(greeting) == 0 {
		t.Errorf("the socket's first message: %q, %v", greeting, err)
	}

	// Three logins from one address, whatever address they claim. A fourth follows
	// immediately, because one more is admitted every 20 s.
	login := func(client *http.Client, url, claimed string) asked {
		t.Helper()
		return ask(t, client, http.MethodPost, url+"/api/v1/auth/login", "", `{"phone":"138001380`+claimed[len(claimed)-2:]+`","password":"not this one"}`, "X-Forwarded-For", claimed, "Forwarded", "for="+claimed)
	}
	for n := range 3 {
		if a := login(client, saleName, fmt.Sprintf("198.51.100.%d", 10+n)); a.doc["code"] != "wrong-login" {
			t.Fatalf("a login through nginx: %d %s", a.status, a.text)
		}
	}
	if a := login(client, saleName, "192.0.2.66"); a.doc["rule"] != "login-address" {
		t.Errorf("a fourth login from one address, over both instances: %d %s; want rate-limited", a.status, a.text)
	}
	if a := login(http.DefaultClient, second.url, "192.0.2.66"); a.doc["code"] != "wrong-login" {
		t.Errorf("from an address that a trusted proxy names: %d %s", a.status, a.text)
	}

	// A user's limit of five paths counts over both instances.
	for i := range 6 {
		a := ask(t, http.DefaultClient, http.MethodPost, []*instance{first, second}[i%2].url+"/api/v1/items/"+sale.ItemID+"/rush-path", mint(t, 1005, auth.Shopper), `{"quantity":1}`)
		if limited := a.doc["code"] == "rate-limited"; limited != (i == 5) {
			t.Errorf("path %d of a user: %d %s", i+1, a.status, a.text)
		}
	}

	var nos, paths []string
	for user := int64(1001); user <= 1003; user++ {
		token := mint(t, user, auth.Shopper)
		a := ask(t, client, http.MethodPost, pathURL, token, `{"quantity":1}`)
		if a.status != http.StatusOK || a.header.Get("RateLimit") == "" {
			t.Fatalf("a path through nginx: %d %s", a.status, a.text)
		}
		nos, paths = append(nos, a.doc["order_no"].(string)), append(paths, a.doc["path"].(string))
	}
	told := map[string]float64{} // answers to these rushes, as the funnel names them
	for i, path := range paths {
		var rushed asked
		pgtest.Eventually(t, 30*time.Second, func() bool {
			rushed = ask(t, client, http.MethodPost, rushName+"/api/v1/rush/"+path, "", "", "Accept-Encoding", "gzip")
			code := rushed.doc["code"] // the last code is for requesting too often
			told[fmt.Sprint(code)]++
			return code != "not-started" && code != "fenced" && code != "rate-limited"
		}, "the opening")
		if rushed.status != http.StatusAccepted || rushed.doc["order_no"] != nos[i] || rushed.header.Get("Content-Encoding") != "" {
			t.Errorf("a rush through nginx: %d %s", rushed.status, rushed.text)
		}
	}
	no, path := nos[2], paths[2]
	told["queued"], told["repeated"] = told["<nil>"], 1 // the last path is sent again below

	// Routes that the two names answer, and routes that they do not.
	for _, c := range []struct {
		method, url string
		want        int
	}{
		{http.MethodGet, saleName + "/", http.StatusOK},
		{http.MethodGet, saleName + "/metrics", http.StatusNotFound},
		{http.MethodGet, saleName + "/debug/pprof/", http.StatusNotFound},
		{http.MethodGet, rushName + "/", http.StatusNotFound},
		{http.MethodGet, rushName + "/api/v1/sessions", http.StatusNotFound},
		{http.MethodGet, rushName + "/api/v1/rush/" + path, http.StatusForbidden},
		{http.MethodPost, saleName + "/api/v1/rush/" + path, http.StatusAccepted}, // a page has one name only
	} {
		if a := ask(t, client, c.method, c.url, "", ""); a.status != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.url, a.status, c.want)
		}
	}
	for _, path := range []string{"/static/style.css", "/?orders"} {
		for _, want := range []string{"MISS", "HIT"} {
			if a := ask(t, client, http.MethodGet, saleName+path, "", ""); a.status != http.StatusOK || a.header.Get("X-Cache") != want {
				t.Errorf("%s: %d, X-Cache %s, want %s", path, a.status, a.header.Get("X-Cache"), want)
			}
		}
	}
	if a := ask(t, client, http.MethodPost, pathURL, mint(t, 1004, auth.Shopper), strings.Repeat(" ", 70_000)); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("too large a body: %d", a.status)
	}

	// Clients do not notice the loss of an instance.
	if code := first.stop(); code != 0 {
		t.Errorf("stop: exit %d", code)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { // what the stopped instance counted is in it
		_, doc := second.call(t, http.MethodGet, "/api/v1/admin/items/"+sale.ItemID+"/funnel", mint(t, 1, auth.Viewer), nil)
		answers, _ := doc["answers"].(map[string]any)
		delete(told, "<nil>")
		delete(told, "rate-limited") // nginx has that answer too
		delete(answers, "rate-limited")
		for code, n := range told {
			if answers[code] != n {
				return false
			}
		}
		return len(answers) == len(told)
	}, "one funnel that equals what both instances told shoppers")
	for range 20 {
		if a := ask(t, client, http.MethodGet, saleName+"/api/v1/orders/"+no, mint(t, 1003, auth.Shopper), ""); a.status != http.StatusOK {
			t.Fatalf("the order while an instance is gone: %d %s", a.status, a.text)
		}
	}

	// A flood from one address is limited here to 50 requests a second after a
	// burst of 100. The loop continues until it hits the limit, however slow
	// the machine.
	var mu sync.Mutex
	answers := map[string]int{}
	met := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return answers["rate-limited"] >= 100
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := 0; i < 1000 && !met(); i++ {
				a := ask(t, client, http.MethodPost, rushName+"/api/v1/rush/"+strings.Repeat("A", len(path)), "", "")
				if a.status == http.StatusTooManyRequests && (a.header.Get("Retry-After") != "1" || a.header.Get("Content-Type") != "application/problem+json") {
					t.Errorf("refused with %v %s", a.header, a.text)
				}
				mu.Lock()
				answers[fmt.Sprint(a.doc["code"])]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if !met() || answers["bad-path"] < 50 || len(answers) != 2 {
		t.Errorf("a flood was answered %v", answers)
	}
	if logged, err := os.ReadFile(log); err != nil || strings.Contains(string(logged), "/api/v1/rush/") || !strings.Contains(string(logged), "/rush-path") {
		t.Errorf("the log (%v) has a path, or nothing:\n%s", err, logged)
	}
}

// TestNginxLeavesAHungInstance: reads that an instance does not answer go to the other
// one, and after some of them so do rushes.
func TestNginxLeavesAHungInstance(t *testing.T) {
	t.Parallel()
	program := tooltest.Nginx(t)
	hung, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hung.Close() }) // it accepts nothing: the kernel does
	works := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	t.Cleanup(works.Close)
	client, _ := startNginx(t, program, &instance{url: "http://" + hung.Addr().String()}, &instance{url: works.URL})
	// Below the 20 s of a rush, far above the 3 s of a read.
	client.Timeout = 12 * time.Second
	var reads sync.WaitGroup
	for item := range 12 {
		reads.Go(func() {
			if a := ask(t, client, http.MethodGet, fmt.Sprint(saleName, "/api/v1/items/", item), "", ""); a.status != http.StatusOK {
				t.Errorf("a read: %d %s", a.status, a.text)
			}
		})
	}
	reads.Wait()
	for range 5 {
		if a := ask(t, client, http.MethodPost, rushName+"/api/v1/rush/path", "", ""); a.status != http.StatusOK {
			t.Errorf("a rush: %d %s", a.status, a.text)
		}
	}
}

// TestNginxPassesOperatorsBodies: a sheet and a whole plan have 4 MiB, which no shopper's
// request has.
func TestNginxPassesOperatorsBodies(t *testing.T) {
	t.Parallel()
	program := tooltest.Nginx(t)
	works := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	}))
	t.Cleanup(works.Close)
	client, _ := startNginx(t, program, &instance{url: works.URL}, &instance{url: works.URL})
	body := strings.Repeat(" ", 4<<20)
	for path, want := range map[string]int{
		"/admin/activities/import": http.StatusOK, "/api/v1/admin/activities": http.StatusOK,
		"/administration": http.StatusRequestEntityTooLarge, "/api/v1/orders/1/payments": http.StatusRequestEntityTooLarge,
	} {
		if a := ask(t, client, http.MethodPost, saleName+path, "", body); a.status != want || want == http.StatusOK && a.text != fmt.Sprint(len(body)) {
			t.Errorf("%s: %d %s, want %d", path, a.status, a.text, want)
		}
	}
}

// TestNginxKeepsInstancesThatAreAllSlow: reads that no instance answers in time keep no
// payment's callback and no rush out.
func TestNginxKeepsInstancesThatAreAllSlow(t *testing.T) {
	t.Parallel()
	program := tooltest.Nginx(t)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done() // nginx gives up
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(slow.Close)
	client, _ := startNginx(t, program, &instance{url: slow.URL}, &instance{url: slow.URL})
	var reads sync.WaitGroup
	for item := range 12 {
		reads.Go(func() {
			if a := ask(t, client, http.MethodGet, fmt.Sprint(saleName, "/api/v1/items/", item), "", ""); a.status < http.StatusInternalServerError {
				t.Errorf("a read: %d %s", a.status, a.text)
			}
		})
	}
	reads.Wait()
	for _, path := range []string{saleName + "/api/v1/payments/stripe/notify", rushName + "/api/v1/rush/path"} {
		if a := ask(t, client, http.MethodPost, path, "", ""); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
}
