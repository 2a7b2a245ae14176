package kill

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"stampede/migrations"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

var mixedFor = flag.Duration("upgrade.mixed", 0, "how long instances of both releases sell beside each other, each time; 0 plays the short form")

// TestReleasedCommitIsTheLastRelease checks what the upgrade starts from, in the repository that has it.
func TestReleasedCommitIsTheLastRelease(t *testing.T) {
	t.Parallel()
	shop.Released(t)
	read := func(name string) string {
		raw, err := shop.ReleasedFile(name)
		require.NoError(t, err)
		return string(raw)
	}
	require.Contains(t, "main.go of the last release", read("main.go"), `const release = "v`+migrations.LastRelease+`"`)
	changes := regexp.MustCompile(`(?m)^## (\S+)`).FindStringSubmatch(read("CHANGELOG.md"))
	require.Equal(t, "the newest release in its CHANGELOG.md", changes[1], migrations.LastRelease)
	files := regexp.MustCompile(`(?m)^\d{5}_\w+\.sql$`).FindAllString(read("migrations"), -1)
	require.Equal(t, "its last migration", files[len(files)-1][:5], fmt.Sprintf("%05d", migrations.LastReleaseVersion))
}

// TestRollingUpgradeAndBack replaces the instances of the last release by this program's one by one and back again while
// a crowd rushes, pays and cancels. Nothing that a shopper was told may be lost, whichever instance said it.
func TestRollingUpgradeAndBack(t *testing.T) {
	t.Parallel()
	before, now := shop.Released(t), shop.Program(t)
	databaseURL := pgtest.EmptyDatabaseURL(t)
	f := openFleet(t, databaseURL)
	f.replace(0, before)
	f.replace(1, before)
	f.publish()
	f.sell(both(before)...)

	f.while(func() { f.migrate(now) })
	f.while(func() { f.replace(0, now) })
	f.sell(now, before)
	f.agree()
	f.while(func() { f.replace(1, now) })
	f.sell(both(now)...)

	f.while(func() { f.migrate(now, "--back") })
	f.while(func() { f.replace(0, before) })
	f.sell(before, now)
	f.agree()
	f.while(func() { f.replace(1, before) })
	f.sell(both(before)...)
	pgtest.Eventually(t, time.Minute, func() bool { return f.command(before, "verify", f.stores[1], "--data="+t.TempDir()) == nil }, "the last release to prove the books")

	f.while(func() { f.migrate(now) })
	f.while(func() { f.replace(1, now) })
	f.crowd.checkAfterCrashes(&mortal{databaseURL: databaseURL, args: append([]string{"serve"}, f.stores...)})
}

func both(program string) []string { return []string{program, program} }

// fleet is a shop of two instances behind a load balancer, each of a program that a test chooses.
type fleet struct {
	t      *testing.T
	stores []string // flags
	front  *httptest.Server
	crowd  *rushers

	mu        sync.Mutex
	turn      int
	instances [2]struct {
		addr, program string
		in            *shop.Instance
		granted       int // attempts that it has answered 202
	}
}

func openFleet(t *testing.T, databaseURL string) *fleet {
	t.Helper()
	f := &fleet{t: t, stores: []string{"--database-url=" + databaseURL, "--redis-url=" + pgtest.RedisURL(t), "--nats-url=" + bustest.StartServer(t).URL}}
	for i := range f.instances {
		f.instances[i].addr = shop.FreeAddr(t)
	}
	f.front = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {},
		Transport: f,
		// As a balancer that loses an instance: the shopper gets no answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	t.Cleanup(f.front.Close)
	f.front.Config.ErrorLog = nil
	return f
}

// RoundTrip sends a request to the next instance, and to the other one if that does not take the connection.
func (f *fleet) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	f.turn++
	next := f.turn
	f.mu.Unlock()
	for i := range f.instances {
		n := (next + i) % len(f.instances)
		to := r.Clone(r.Context())
		to.URL = &url.URL{Scheme: "http", Host: f.instances[n].addr, Path: r.URL.Path, RawQuery: r.URL.RawQuery}
		to.Body = io.NopCloser(bytes.NewReader(body))
		if answer, err = http.DefaultTransport.RoundTrip(to); err == nil {
			if answer.StatusCode == http.StatusAccepted && strings.HasPrefix(r.URL.Path, "/api/v1/rush/") {
				f.mu.Lock()
				f.instances[n].granted++
				f.mu.Unlock()
			}
			return answer, nil
		}
		if !strings.Contains(err.Error(), "connection refused") {
			return nil, err // it may have been done
		}
	}
	return nil, err
}

// replace stops an instance, as its service manager does, and starts a program at its address.
func (f *fleet) replace(n int, program string) {
	f.t.Helper()
	of := &f.instances[n]
	if of.in != nil {
		if code := of.in.Stop(); code != 0 {
			f.t.Errorf("an instance of %s stopped with %d", of.program, code)
		}
	}
	of.in = shop.ServeWith(f.t, program, strings.TrimPrefix(f.stores[0], "--database-url="), strings.TrimPrefix(f.stores[1], "--redis-url="),
		f.stores[2], "--listen="+of.addr, "--public-url="+f.front.URL)
	of.in.URL = "http://" + of.addr // it says the public URL
	of.program = program
}

// publish opens a sale that no crowd of the test can buy up.
func (f *fleet) publish() {
	f.t.Helper()
	f.crowd = newRushers(f.t, rand.New(rand.NewPCG(rand.Uint64(), 0)), f.front.URL)
	f.crowd.stock = 1000 + 6*int(mixedFor.Seconds())*1000
	sales := f.crowd.publish(f.crowd.stock)
	if sales == nil {
		f.t.Fatal("no sale")
	}
	f.crowd.sale = sales[0]
}

// while lets the crowd rush while fn runs.
func (f *fleet) while(fn func()) {
	meanwhile(f.t, func(ctx context.Context) {
		for ctx.Err() == nil {
			f.crowd.wave(nil) //nolint:contextcheck // its requests have time-outs of their own
		}
	}, fn)
}

// sell lets the crowd rush until each of the instances, which are of these programs, has granted its part.
func (f *fleet) sell(programs ...string) {
	f.t.Helper()
	const part = 12
	granted := func(n int) int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.instances[n].granted
	}
	first := []int{granted(0), granted(1)}
	for n, program := range programs {
		if f.instances[n].program != program {
			f.t.Fatalf("instance %d is of %s", n, f.instances[n].program)
		}
	}
	deadline := time.Now().Add(*mixedFor)
	pgtest.Eventually(f.t, *mixedFor+time.Minute, func() bool {
		f.crowd.wave(nil)
		return granted(0) >= first[0]+part && granted(1) >= first[1]+part && time.Now().After(deadline)
	}, "both instances to sell")
}

// agree checks what one instance does and another one must know, in both directions.
func (f *fleet) agree() {
	t := f.t
	t.Helper()
	for n := range f.instances {
		one, other := f.instances[n].in, f.instances[1-n].in
		user := int64(9_000_000 + len(f.crowd.shoppers)*10 + n)
		buyer, elsewhere := shop.NewBuyer(t, one, user), shop.NewBuyer(t, other, user)
		socket, _, err := websocket.Dial(t.Context(), strings.Replace(other.URL, "http", "ws", 1)+"/api/v1/ws", &websocket.DialOptions{
			Subprotocols: []string{"stampede.v1", "bearer." + buyer.Token},
		})
		require.NoError(t, err)
		no, path := buyer.Path(t, f.crowd.sale.ItemID)
		require.Equal(t, "a path of the other instance", other.Send(t, path), "")
		require.Equal(t, "the same path again", one.Send(t, path), "")
		elsewhere.AwaitStatus(t, no, "pending_payment", 10*time.Second)
		within, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		for pushed := ""; !strings.Contains(pushed, no); {
			_, message, err := socket.Read(within)
			if err != nil {
				t.Fatalf("order %s was not pushed: %v", no, err)
			}
			pushed = string(message)
		}
		cancel()
		_ = socket.CloseNow()
		elsewhere.Pay(t, no)
		buyer.AwaitStatus(t, no, "paid", 10*time.Second)

		one.Do(t, http.MethodPost, fmt.Sprintf("/api/v1/admin/users/%d/end-logins", user), shop.Mint(t, 1, auth.Admin), nil, http.StatusNoContent)
		pgtest.Eventually(t, 30*time.Second, func() bool {
			status, _ := other.Call(t, http.MethodGet, "/api/v1/orders/"+no, buyer.Token, nil)
			return status == http.StatusUnauthorized
		}, "the other instance to refuse a revoked token")
		f.freight(one, other)
	}
}

// freight plans an activity with freight on one instance and publishes it on another.
func (f *fleet) freight(one, other *shop.Instance) {
	t := f.t
	t.Helper()
	operator, opens, closes := shop.Mint(t, 1, auth.Operator), time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	amount := map[string]any{"amount": 100, "currency": "CNY"}
	list, price := loadgen.Prices()
	activity := map[string]any{
		"name": "Freight", "starts_at": opens, "ends_at": closes,
		"sessions": []any{map[string]any{"name": "later", "opens_at": opens, "closes_at": closes, "items": []any{
			map[string]any{"sku": "s", "title": "Tea", "list_price": list, "sale_price": price, "stock": 1},
		}}},
	}
	var status int
	var made map[string]any
	for _, freight := range []any{100, amount} { // the last release has a number
		activity["checkout"] = map[string]any{"ways": []string{"delivery"}, "address": "required", "freight": freight}
		if status, made = one.Call(t, http.MethodPost, "/api/v1/admin/activities", operator, activity); status == http.StatusCreated {
			break
		}
	}
	id, _ := made["id"].(string)
	require.Equal(t, fmt.Sprint("an activity with freight: ", made), status, http.StatusCreated)
	other.Do(t, http.MethodPost, "/api/v1/admin/activities/"+id+"/publish", operator, nil, http.StatusOK)
}

func (f *fleet) migrate(program string, flags ...string) {
	f.t.Helper()
	require.NoError(f.t, f.command(program, append([]string{"migrate", f.stores[0]}, flags...)...))
}

// command runs a command of a program with the shop's database.
func (f *fleet) command(program string, args ...string) error {
	args = slices.Insert(args, 1, f.stores[0])
	out, err := exec.CommandContext(f.t.Context(), program, slices.Compact(args)...).CombinedOutput() //nolint:gosec // a program under test
	if err != nil {
		f.t.Logf("%s: %v\n%s", args, err, out)
	}
	return err
}
