package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	nats "github.com/nats-io/nats-server/v2/server"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/modeltest"
	"stampede/platform/workshop/pgtest"
)

// startNATS runs a NATS server with JetStream that outlives every instance.
func startNATS(t *testing.T) string {
	t.Helper()
	srv, err := nats.NewServer(&nats.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server did not start")
	}
	return srv.ClientURL()
}

// buyer rushes as one user through one instance.
type buyer struct {
	in    *instance
	token string
}

func newBuyer(t *testing.T, in *instance, user int64) buyer {
	t.Helper()
	token, err := auth.NewTokens([]byte(testKey), time.Now).Mint(auth.Principal{UserID: user, Role: auth.Shopper}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return buyer{in, token}
}

// rush gets a path and sends it; it returns the number and the code, "" for 202.
func (b buyer) rush(t *testing.T, item string) (no, code string) {
	t.Helper()
	status, path := b.in.call(t, http.MethodPost, "/api/v1/items/"+item+"/rush-path", b.token, map[string]int{"quantity": 1})
	if status == http.StatusTooManyRequests { // a test asks more often than a shopper may
		return "", "rate-limited"
	}
	if status != http.StatusOK && status != http.StatusCreated {
		t.Fatalf("rush-path: %d %v", status, path)
	}
	status, doc := b.in.call(t, http.MethodPost, "/api/v1/rush/"+path["path"].(string), "", nil)
	no, _ = path["order_no"].(string)
	if status == http.StatusAccepted {
		return no, ""
	}
	code, _ = doc["code"].(string)
	return no, code
}

// awaitStatus polls until the order has a status.
func (b buyer) awaitStatus(t *testing.T, no, want string, within time.Duration) {
	t.Helper()
	var last any
	pgtest.Eventually(t, within, func() bool {
		_, doc := b.in.call(t, http.MethodGet, "/api/v1/orders/"+no, b.token, nil)
		last = doc["status"]
		return last == want
	}, "order "+no+" to be "+want)
}

// TestReleasedUnitIsBoughtThroughAnotherInstance cancels on one instance and
// buys on the other, repeatedly. The second instance has just refused that
// item, so its sold-out flag is set.
func TestReleasedUnitIsBoughtThroughAnotherInstance(t *testing.T) {
	t.Parallel()
	databaseURL, redisURL, natsURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t), startNATS(t)
	first := serveInstance(t, databaseURL, redisURL, "--nats-url="+natsURL)
	second := serveInstance(t, databaseURL, redisURL, "--nats-url="+natsURL)
	sale := first.plan(t, 1, time.Second)
	second.awaitLoaded(t, sale.ItemID)
	here, there := first, second

	rounds, user := modeltest.Times(15, 100), int64(5000)
	holder := newBuyer(t, here, user)
	var no string
	pgtest.Eventually(t, 30*time.Second, func() bool {
		n, code := holder.rush(t, sale.ItemID)
		no = n
		return code == ""
	}, "the first grant")
	for round := range rounds {
		holder.awaitStatus(t, no, "pending_payment", 10*time.Second)
		user++
		next := newBuyer(t, there, user)
		if _, code := next.rush(t, sale.ItemID); code != "all-held" && code != "too-hot" {
			t.Fatalf("round %d: the other instance answered %q while the unit is held", round, code)
		}
		if status, doc := holder.in.call(t, http.MethodPost, "/api/v1/orders/"+no+"/cancel", holder.token, nil); status != http.StatusOK {
			t.Fatalf("round %d: cancel answered %d %v", round, status, doc)
		}
		pgtest.Eventually(t, 3*time.Second, func() bool { // 1 s is promised
			n, code := next.rush(t, sale.ItemID)
			no = n
			return code == ""
		}, "the released unit to be bought through the other instance")
		holder = next
		here, there = there, here
	}
}

func TestSecondInstanceWithoutNATSIsRefused(t *testing.T) {
	t.Parallel()
	databaseURL, redisURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t)
	serveInstance(t, databaseURL, redisURL)
	out, errs := newConsole(), newConsole()
	code := run(t.Context(), []string{
		"serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--database-url=" + databaseURL, "--redis-url=" + redisURL,
		"--signing-key=" + testKey, "--nats-dir=" + t.TempDir(),
	}, out, errs)
	if want := "another stampede with an embedded NATS serves this database"; code != 1 || !strings.Contains(errs.String(), want) {
		t.Errorf("exit %d, want 1 with %q:\n%s", code, want, errs)
	}
}
