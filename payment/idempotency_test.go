package payment

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"stampede/payment/sandbox"
	"stampede/platform/workshop/require"
)

// keyed starts a payment under an Idempotency-Key.
func (s *bundle) keyed(user int64, path, key, body string) answer {
	s.t.Helper()
	a, err := s.tryPost(user, s.url+path, body, "Idempotency-Key", key)
	require.NoError(s.t, err)
	return a
}

// A shopper whose answer got lost repeats the request under its key.
func startUnderAKey(t *testing.T, s *bundle) {
	no, user := s.one(100)
	path := "/api/v1/orders/" + no.String() + "/payments"
	first := s.keyed(user, path, "k", "")
	first.want(t, "the first", http.StatusOK, "")
	if again := s.keyed(user, path, "k", `{"provider":"sandbox"}`); again.status != http.StatusOK || !reflect.DeepEqual(again.body, first.body) {
		t.Errorf("a repetition that names the same provider: %d %v", again.status, again.body)
	}
	other, _ := s.one(100)
	elsewhere := "/api/v1/orders/" + other.String() + "/payments"
	s.keyed(user, elsewhere, "k", "").want(t, "another order under the key", http.StatusUnprocessableEntity, "idempotency-mismatch")
	if a := s.keyed(user, path, "another", ""); a.status != http.StatusOK || a.text("payment_no") != first.text("payment_no") {
		t.Errorf("another key finds the open payment: %d %v", a.status, a.body)
	}
	s.keyed(user, path, strings.Repeat("k", 256), "").want(t, "a key of 256 bytes", http.StatusUnprocessableEntity, "")
	// Without a key, a payment that has ended is reported as ended; under its key the answer stays the
	// same.
	s.payAt(first.text("pay_url"), sandbox.Normal)
	s.until("the order is paid", func() bool { return s.status(no) == "paid" })
	s.post(user, path, "").want(t, "paid, without the key", http.StatusConflict, "")
	if a := s.keyed(user, path, "k", ""); a.status != http.StatusOK || !reflect.DeepEqual(a.body, first.body) {
		t.Errorf("paid, under the key: %d %v", a.status, a.body)
	}
}

// A request that failed under a key is carried out when it is repeated.
func startUnderAKeyWithoutTheBank(t *testing.T, s *bundle) {
	no, user := s.one(100)
	path := "/api/v1/orders/" + no.String() + "/payments"
	s.bank.shut.Store(true)
	s.keyed(user, path, "k", "").want(t, "", http.StatusServiceUnavailable, "")
	s.bank.shut.Store(false)
	if a := s.keyed(user, path, "k", ""); a.status != http.StatusOK || a.text("pay_url") == "" {
		t.Errorf("once the bank is back: %d %v", a.status, a.body)
	}
}

// While the first request with a key waits for the bank, a second one is
// refused as in flight.
func startUnderAKeyTwiceAtOnce(t *testing.T, s *bundle) {
	no, user := s.one(100)
	path := "/api/v1/orders/" + no.String() + "/payments"
	// The order's row is locked, so that the first request waits with its claim.
	tx, err := s.db.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM orders.orders WHERE order_no = $1 FOR UPDATE`, no); err != nil {
		t.Fatal(err)
	}
	var first answer
	var waiting sync.WaitGroup
	waiting.Go(func() { first = s.keyed(user, path, "k", "") })
	s.until("the first has its claim", func() bool {
		return read[int](s, `SELECT count(*) FROM platform.idempotency WHERE key = 'k' AND actor = $1`, user) == 1
	})
	s.keyed(user, path, "k", "").want(t, "beside the first", http.StatusConflict, "idempotency-in-flight")
	require.NoError(t, tx.Rollback(t.Context()))
	waiting.Wait()
	first.want(t, "the first", http.StatusOK, "")
	if a := s.keyed(user, path, "k", ""); a.status != http.StatusOK || !reflect.DeepEqual(a.body, first.body) {
		t.Errorf("after the first: %d %v", a.status, a.body)
	}
}
