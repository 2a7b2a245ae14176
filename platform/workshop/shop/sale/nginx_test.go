package sale

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
	"stampede/platform/workshop/tooltest"
)

// TestBehindNginx starts the example in front of two instances and checks what
// it promises: a sale, the client's address, sockets, pages, limits, and the
// loss of an instance.
func TestBehindNginx(t *testing.T) {
	t.Parallel()
	program := tooltest.Command(t, "nginx")
	databaseURL, redisURL, natsURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t), bustest.StartServer(t).URL
	args := []string{"--nats-url=" + natsURL, "--trusted-proxies=127.0.0.1", "--paths-per-minute=5", "--login-per-address=3", "--rushes-per-second=10", "--drain-timeout=500ms"}
	first, second := shop.Serve(t, databaseURL, redisURL, args...), shop.Serve(t, databaseURL, redisURL, args...)
	sale := first.Plan(t, 10, time.Second)
	first.AwaitLoaded(t, sale.ItemID)
	second.AwaitLoaded(t, sale.ItemID)
	client, log := shop.StartNginx(t, program, first, second)
	pathURL := shop.SaleName + "/api/v1/items/" + sale.ItemID + "/rush-path"

	socket, _, err := websocket.Dial(t.Context(), strings.Replace(shop.SaleName, "http", "ws", 1)+"/api/v1/ws", &websocket.DialOptions{
		HTTPClient: client, Subprotocols: []string{"stampede.v1", "bearer." + shop.Mint(t, 1001, auth.Shopper)},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.CloseNow() })
	if _, greeting, err := socket.Read(t.Context()); err != nil || len(greeting) == 0 {
		t.Errorf("the socket's first message: %q, %v", greeting, err)
	}

	// Three logins from one address, whatever address they claim. A fourth follows
	// immediately, because one more is admitted every 20 s.
	login := func(client *http.Client, url, claimed string) httpxtest.Answer {
		t.Helper()
		return httpxtest.Send(t, client, http.MethodPost, url+"/api/v1/auth/login", "", `{"phone":"138001380`+claimed[len(claimed)-2:]+`","password":"not this one"}`, "X-Forwarded-For", claimed, "Forwarded", "for="+claimed)
	}
	for n := range 3 {
		require.Equal(t, "a login through nginx", login(client, shop.SaleName, fmt.Sprintf("198.51.100.%d", 10+n)).Doc["code"], "wrong-login")
	}
	require.Equal(t, "a fourth login from one address, over both instances", login(client, shop.SaleName, "192.0.2.66").Doc["rule"], "login-address")
	require.Equal(t, "one from an address that a trusted proxy names", login(http.DefaultClient, second.URL, "192.0.2.66").Doc["code"], "wrong-login")

	// A user's limit of five paths counts over both instances, but for the first of the second one. One more is admitted
	// every 10 s.
	for began, admitted := time.Now(), 0; ; admitted++ {
		a := httpxtest.Send(t, http.DefaultClient, http.MethodPost, []*shop.Instance{first, second}[admitted%2].URL+"/api/v1/items/"+sale.ItemID+"/rush-path", shop.Mint(t, 1005, auth.Shopper), `{"quantity":1}`)
		if a.Doc["code"] == "rate-limited" && admitted >= 6 {
			break
		}
		if a.Status != http.StatusOK || admitted >= 6+int(time.Since(began)/(10*time.Second)) {
			t.Fatalf("path %d of a user: %s", admitted+1, a.Raw)
		}
	}

	var nos, paths []string
	for user := int64(1001); user <= 1003; user++ {
		token := shop.Mint(t, user, auth.Shopper)
		a := httpxtest.Send(t, client, http.MethodPost, pathURL, token, `{"quantity":1}`)
		if a.Status != http.StatusOK || a.Header.Get("RateLimit") == "" {
			t.Fatalf("a path through nginx: %d %s", a.Status, a.Raw)
		}
		nos, paths = append(nos, a.Doc["order_no"].(string)), append(paths, a.Doc["path"].(string))
	}
	told := map[string]float64{} // answers to these rushes, as the funnel names them
	for i, path := range paths {
		var rushed httpxtest.Answer
		pgtest.Eventually(t, 30*time.Second, func() bool {
			rushed = httpxtest.Send(t, client, http.MethodPost, shop.RushName+"/api/v1/rush/"+path, "", "", "Accept-Encoding", "gzip")
			code := rushed.Doc["code"] // the last code is for requesting too often
			told[fmt.Sprint(code)]++
			return code != "not-started" && code != "fenced" && code != "rate-limited"
		}, "the opening")
		if rushed.Status != http.StatusAccepted || rushed.Doc["order_no"] != nos[i] || rushed.Header.Get("Content-Encoding") != "" {
			t.Errorf("a rush through nginx: %d %s", rushed.Status, rushed.Raw)
		}
	}
	no, path := nos[2], paths[2]
	told["queued"], told["repeated"] = told["<nil>"], 1 // the last path is sent again below

	// Routes that the two names answer, and routes that they do not.
	for _, c := range []struct {
		method, url string
		want        int
	}{
		{http.MethodGet, shop.SaleName + "/", http.StatusOK},
		{http.MethodGet, shop.SaleName + "/metrics", http.StatusNotFound},
		{http.MethodGet, shop.SaleName + "/debug/pprof/", http.StatusNotFound},
		{http.MethodGet, shop.RushName + "/", http.StatusNotFound},
		{http.MethodGet, shop.RushName + "/api/v1/sessions", http.StatusNotFound},
		{http.MethodGet, shop.RushName + "/api/v1/rush/" + path, http.StatusForbidden},
		{http.MethodPost, shop.SaleName + "/api/v1/rush/" + path, http.StatusAccepted}, // a page has one name only
	} {
		require.Equal(t, c.method+" "+c.url, httpxtest.Send(t, client, c.method, c.url, "", "").Status, c.want)
	}
	for _, path := range []string{"/static/style.css", "/?orders"} {
		for _, want := range []string{"MISS", "HIT"} {
			if a := httpxtest.Send(t, client, http.MethodGet, shop.SaleName+path, "", ""); a.Status != http.StatusOK || a.Header.Get("X-Cache") != want {
				t.Errorf("%s: %d, X-Cache %s, want %s", path, a.Status, a.Header.Get("X-Cache"), want)
			}
		}
	}
	tooLarge := httpxtest.Send(t, client, http.MethodPost, pathURL, shop.Mint(t, 1004, auth.Shopper), strings.Repeat(" ", 70_000))
	require.Equal(t, "too large a body", tooLarge.Status, http.StatusRequestEntityTooLarge)

	// Clients do not notice the loss of an instance.
	require.Equal(t, "exit code", first.Stop(), 0)
	pgtest.Eventually(t, 30*time.Second, func() bool { // what the stopped instance counted is in it
		_, doc := second.Call(t, http.MethodGet, "/api/v1/admin/items/"+sale.ItemID+"/funnel", shop.Mint(t, 1, auth.Viewer), nil)
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
		a := httpxtest.Send(t, client, http.MethodGet, shop.SaleName+"/api/v1/orders/"+no, shop.Mint(t, 1003, auth.Shopper), "")
		require.Equal(t, "the order while an instance is gone: "+string(a.Raw), a.Status, http.StatusOK)
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
				a := httpxtest.Send(t, client, http.MethodPost, shop.RushName+"/api/v1/rush/"+strings.Repeat("A", len(path)), "", "")
				if a.Status == http.StatusTooManyRequests && (a.Header.Get("Retry-After") != "1" || a.Header.Get("Content-Type") != "application/problem+json") {
					t.Errorf("refused with %v %s", a.Header, a.Raw)
				}
				mu.Lock()
				answers[fmt.Sprint(a.Doc["code"])]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if !met() || answers["bad-path"] < 50 || len(answers) != 2 {
		t.Errorf("a flood was answered %v", answers)
	}
	// Without an instance nginx answers as the shop would.
	require.Equal(t, "exit code", second.Stop(), 0)
	for _, url := range []string{shop.SaleName + "/api/v1/orders/" + no, shop.RushName + "/api/v1/rush/" + path} {
		pgtest.Eventually(t, 30*time.Second, func() bool { // while it still refuses the flood
			a := httpxtest.Send(t, client, http.MethodPost, url, "", "")
			return a.Status == http.StatusServiceUnavailable && a.Doc["code"] == "unavailable" && a.Header.Get("Retry-After") == "1" &&
				a.Header.Get("Content-Type") == "application/problem+json"
		}, "nginx says that no instance answers")
	}
	if logged, err := os.ReadFile(log); err != nil || strings.Contains(string(logged), "/api/v1/rush/") || !strings.Contains(string(logged), "/rush-path") {
		t.Errorf("the log (%v) has a path, or nothing:\n%s", err, logged)
	}
}

// TestNginxLeavesAHungInstance: reads that an instance does not answer go to the other
// one, and after some of them so do rushes.
func TestNginxLeavesAHungInstance(t *testing.T) {
	t.Parallel()
	program := tooltest.Command(t, "nginx")
	hung, err := net.Listen("tcp", "127.0.0.1:0") // it ends with the test
	require.NoError(t, err)
	t.Cleanup(func() { _ = hung.Close() }) // it accepts nothing: the kernel does
	works := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	t.Cleanup(works.Close)
	client, _ := shop.StartNginx(t, program, &shop.Instance{URL: "http://" + hung.Addr().String()}, &shop.Instance{URL: works.URL})
	// Below the 20 s of a rush, far above the 3 s of a read.
	client.Timeout = 12 * time.Second
	var reads sync.WaitGroup
	for item := range 12 {
		reads.Go(func() {
			if a := httpxtest.Send(t, client, http.MethodGet, fmt.Sprint(shop.SaleName, "/api/v1/items/", item), "", ""); a.Status != http.StatusOK {
				t.Errorf("a read: %d %s", a.Status, a.Raw)
			}
		})
	}
	reads.Wait()
	for range 5 {
		require.Equal(t, "a rush", httpxtest.Send(t, client, http.MethodPost, shop.RushName+"/api/v1/rush/path", "", "").Status, http.StatusOK)
	}
}

// TestNginxPassesOperatorsBodies: a sheet and a whole plan have 4 MiB, which no shopper's
// request has.
func TestNginxPassesOperatorsBodies(t *testing.T) {
	t.Parallel()
	program := tooltest.Command(t, "nginx")
	works := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	}))
	t.Cleanup(works.Close)
	client, _ := shop.StartNginx(t, program, &shop.Instance{URL: works.URL}, &shop.Instance{URL: works.URL})
	body := strings.Repeat(" ", 4<<20)
	for path, want := range map[string]int{
		"/admin/activities/import": http.StatusOK, "/api/v1/admin/activities": http.StatusOK,
		"/administration": http.StatusRequestEntityTooLarge, "/api/v1/orders/1/payments": http.StatusRequestEntityTooLarge,
	} {
		if a := httpxtest.Send(t, client, http.MethodPost, shop.SaleName+path, "", body); a.Status != want || want == http.StatusOK && string(a.Raw) != fmt.Sprint(len(body)) {
			t.Errorf("%s: %d %s, want %d", path, a.Status, a.Raw, want)
		}
	}
}

// TestNginxCountsWhatStaysOpenApart: shoppers of one address who hold more sockets and streams than an address may have
// requests can still ask. Beside TLS, the server that sends links on answers keepalived too.
func TestNginxCountsWhatStaysOpenApart(t *testing.T) {
	t.Parallel()
	program := tooltest.Command(t, "nginx")
	const most = 501 // more than the example's requests at a time
	held, release := make(chan struct{}, most), make(chan struct{})
	holds := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/api/v1/orders/") {
			held <- struct{}{}
			<-release
		}
	}))
	t.Cleanup(holds.Close)
	client, _ := shop.StartNginx(t, program, &shop.Instance{URL: holds.URL}, &shop.Instance{URL: holds.URL})
	var open sync.WaitGroup
	for i := range most {
		open.Go(func() {
			a := httpxtest.Send(t, client, http.MethodGet, shop.SaleName+"/api/v1/"+[]string{"ws", "ws", "ws", "ws", "events", "sse"}[i%6], "", "")
			if a.Status != http.StatusOK {
				t.Errorf("held: %d %s", a.Status, a.Raw)
				held <- struct{}{}
			}
		})
	}
	for range most {
		<-held
	}
	order := httpxtest.Send(t, client, http.MethodGet, shop.SaleName+"/api/v1/orders/1", "", "")
	answers := httpxtest.Send(t, client, http.MethodGet, "http://links.example.com/nginx-answers", "", "")
	close(release)
	open.Wait()
	require.Equal(t, "an order, and keepalived's question", fmt.Sprint(order.Status, answers.Status), "200 200")
}

// TestNginxKeepsInstancesThatAreAllSlow: reads that no instance answers in time keep no
// payment's callback and no rush out.
func TestNginxKeepsInstancesThatAreAllSlow(t *testing.T) {
	t.Parallel()
	program := tooltest.Command(t, "nginx")
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done() // nginx gives up
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(slow.Close)
	client, _ := shop.StartNginx(t, program, &shop.Instance{URL: slow.URL}, &shop.Instance{URL: slow.URL})
	var reads sync.WaitGroup
	for item := range 12 {
		reads.Go(func() {
			if a := httpxtest.Send(t, client, http.MethodGet, fmt.Sprint(shop.SaleName, "/api/v1/items/", item), "", ""); a.Status < http.StatusInternalServerError {
				t.Errorf("a read: %d %s", a.Status, a.Raw)
			}
		})
	}
	reads.Wait()
	for _, path := range []string{shop.SaleName + "/api/v1/payments/stripe/notify", shop.RushName + "/api/v1/rush/path"} {
		require.Equal(t, path, httpxtest.Send(t, client, http.MethodPost, path, "", "").Status, http.StatusOK)
	}
}
