package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stampede/platform/workshop/require"
)

// TestAttackWebhooksAtAShop: what was not just signed with the webhook's secret is refused, what comes again counts once,
// and neither changes the books.
func TestAttackWebhooksAtAShop(t *testing.T) {
	t.Parallel()
	signer := func(secret string) *standardwebhooks.Webhook {
		w, err := standardwebhooks.NewWebhookRaw([]byte(secret))
		require.NoError(t, err)
		return w
	}
	ours, other := signer("the secret of the webhook's shop"), signer("the secret of another webhook's")
	journal := filepath.Join(t.TempDir(), "journal")
	b, err := open(journal)
	require.NoError(t, err)
	shop := (&corner{hooks: ours, books: b}).routes()
	event := func(id, kind, data string) string {
		return `{"id":"` + id + `","type":"` + kind + `","data":` + data + `}`
	}
	paid := event("e-1", "payment.captured", `{"order_no":"1","amount":{"amount":990}}`)
	// post sends sent, under the signature of signed at a time.
	post := func(by *standardwebhooks.Webhook, id, signed, sent string, at time.Time) int {
		signature, err := by.Sign(id, at, []byte(signed))
		require.NoError(t, err)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/events", strings.NewReader(sent))
		r.Header.Set(standardwebhooks.HeaderWebhookID, id)
		r.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
		r.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
		w := httptest.NewRecorder()
		shop.ServeHTTP(w, r)
		return w.Code
	}
	now := time.Now()
	require.Equal(t, "a payment", post(ours, "e-1", paid, paid, now), http.StatusOK)
	shipped := event("e-2", "order.shipped", `{"order_no":"1","status":"completed","version":3}`)
	require.Equal(t, "a shipment", post(ours, "e-2", shipped, shipped, now), http.StatusOK)

	again := event("e-3", "payment.captured", `{"order_no":"1","amount":{"amount":990}}`)
	late := event("e-4", "order.paid", `{"order_no":"1","status":"paid","version":2}`)
	for what, c := range map[string]struct {
		by           *standardwebhooks.Webhook
		id           string
		signed, sent string
		at           time.Time
		want         int
	}{
		"replayed after five minutes":       {ours, "e-3", again, again, now.Add(-6 * time.Minute), http.StatusBadRequest},
		"signed for later":                  {ours, "e-3", again, again, now.Add(6 * time.Minute), http.StatusBadRequest},
		"replayed within five minutes":      {ours, "e-1", paid, paid, now.Add(-time.Minute), http.StatusOK},
		"replayed under another id":         {ours, "e-9", paid, paid, now, http.StatusOK},
		"with a higher amount":              {ours, "e-3", again, event("e-3", "payment.captured", `{"order_no":"1","amount":{"amount":99000}}`), now, http.StatusBadRequest},
		"cut off":                           {ours, "e-3", again, again[:len(again)/2], now, http.StatusBadRequest},
		"empty":                             {ours, "e-3", again, "", now, http.StatusBadRequest},
		"signed with another secret":        {other, "e-3", again, again, now, http.StatusBadRequest},
		"an older version of an order":      {ours, "e-4", late, late, now, http.StatusOK},
		"no event, though signed correctly": {ours, "e-3", "[]", "[]", now, http.StatusBadRequest},
	} {
		require.Equal(t, what, post(c.by, c.id, c.signed, c.sent, c.at), c.want)
	}
	forged := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/events", strings.NewReader(again))
	r.Header.Set(standardwebhooks.HeaderWebhookSignature, "v1,bm9uZQ==")
	shop.ServeHTTP(forged, r)
	require.Equal(t, "without an id and a time", forged.Code, http.StatusBadRequest)

	restarted, err := open(journal)
	require.NoError(t, err)
	for what, b := range map[string]*books{"the books": b, "the books after a restart": restarted} {
		require.Equal(t, what, [...]any{b.Captured, b.Refunded, len(b.Status), b.Status["1"]}, [...]any{int64(990), int64(0), 1, "completed"})
	}
}
