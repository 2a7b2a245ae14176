package payment

import (
	"net/http"
	"reflect"
	"strings"
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
