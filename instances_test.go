package main

import (
	"net/http"
	"testing"
	"time"

	nats "github.com/nats-io/nats-server/v2/server"

	"stampede/platform/edge/auth"
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
