package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// merchant is a shop that answers every callback with one status.
func merchant(t *testing.T, status int, word string) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(ack{Code: word})
	}))
	t.Cleanup(srv.Close)
	return srv.URL, calls
}

func (w *bundle) charge(notifyURL string) provider.Charge {
	return provider.Charge{
		PaymentNo: ids.NewFor(7), Title: "mug", Amount: 100, Currency: "CNY", ExpiresAt: time.Now().Add(time.Minute), NotifyURL: notifyURL,
	}
}

func (w *bundle) create(t *testing.T, c provider.Charge) string {
	t.Helper()
	h, err := w.client.Create(t.Context(), c)
	require.NoError(t, err)
	return h.URL
}

type callbackRow struct {
	Status   string
	Attempts int
}

func (w *bundle) callbacks(t *testing.T) []callbackRow {
	t.Helper()
	rows, err := w.db.Query(t.Context(), `SELECT status, attempts FROM sandbox.callbacks ORDER BY id`)
	require.NoError(t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[callbackRow])
	require.NoError(t, err)
	return out
}

// A silent bank has the money, sends no callback and answers no question until its time
// has passed; a refund that bounces succeeds first.
func TestSilenceAndBounce(t *testing.T) {
	t.Parallel()
	w := setup(t, testConfig())
	notifyURL, calls := merchant(t, http.StatusOK, ackWord)
	c := w.charge(notifyURL)
	_, paid, err := payAs(w.create(t, c), payRequest{Behaviour: Silent, DelaySeconds: new(int32(3600))})
	require.NoError(t, err)
	require.Equal(t, "status", paid.Status, StatusCaptured)
	of := provider.Payment{No: c.PaymentNo}
	_, asked := w.client.Query(t.Context(), of)
	_, closed := w.client.Close(t.Context(), of)
	if asked == nil || closed == nil || errors.Is(closed, provider.ErrRefused) || calls.Load() != 0 {
		t.Errorf("a silent bank answers %v, %v, and has sent %d callbacks", asked, closed, calls.Load())
	}
	for _, sql := range []string{`UPDATE sandbox.payments SET silent_until = now(), behaviour = 'refund_bounces', delay_seconds = 0`, `UPDATE sandbox.callbacks SET next_try = now()`} {
		pgtest.Exec(t, w.db, sql)
	}
	st, err := w.client.Query(t.Context(), of)
	require.NoError(t, err)
	require.Equal(t, "after its time", st.State, provider.Captured)
	r := provider.Return{RefundNo: ids.NewFor(7), Payment: of, Transaction: paid.Transaction, Amount: 100, Captured: 100, Currency: "CNY", NotifyURL: notifyURL}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		got, err := w.client.Refund(t.Context(), r)
		return err == nil && got.State == provider.Failed && calls.Load() == 3 // the capture, the refund, its return
	}, "the refund is made and comes back")
}

func TestGivesUpAfterEightAttempts(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		status int
		word   string
	}{
		"server error":         {http.StatusInternalServerError, ackWord},
		"a page, not a word":   {http.StatusOK, "Welcome"},
		"another 2xx":          {http.StatusAccepted, ackWord},
		"a redirect elsewhere": {http.StatusFound, ackWord},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig()
			cfg.CallbackBackoff = time.Millisecond
			w := setup(t, cfg)
			notifyURL, calls := merchant(t, answer.status, answer.word)
			require.NoError(t, pay(w.create(t, w.charge(notifyURL))))
			pgtest.Eventually(t, 30*time.Second, func() bool { return w.callbacks(t)[0].Status == "given_up" }, "the bank gives up")
			require.Equal(t, "attempts noted and made", []int{w.callbacks(t)[0].Attempts, int(calls.Load())}, []int{8, 8})
		})
	}
}

func TestRestartLosesNoCallback(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	w := setupOn(t, db, testConfig())
	w.stop()
	notifyURL, calls := merchant(t, http.StatusOK, ackWord)
	require.NoError(t, pay(w.create(t, w.charge(notifyURL))))
	require.Equal(t, "callbacks of a stopped worker", calls.Load(), 0)
	w = setupOn(t, db, testConfig())
	pgtest.Eventually(t, 30*time.Second, func() bool { return w.callbacks(t)[0].Status == "acknowledged" }, "the next process delivers")
}

// hangingMerchant is a shop that never answers a callback.
func hangingMerchant(t *testing.T) (url string, arrived, left chan struct{}) {
	t.Helper()
	arrived, left = make(chan struct{}, 10), make(chan struct{}, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body) // net/http detects a lost client only after the body
		<-r.Context().Done()
		left <- struct{}{}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, arrived, left
}

func TestAMerchantWhoHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t, testConfig())
	hanging, arrived, left := hangingMerchant(t)
	notifyURL, calls := merchant(t, http.StatusOK, ackWord)
	require.NoError(t, pay(w.create(t, w.charge(hanging))))
	<-arrived
	require.NoError(t, pay(w.create(t, w.charge(notifyURL))))
	pgtest.Eventually(t, 30*time.Second, func() bool { return calls.Load() == 1 }, "the other merchant is told")
	require.Equal(t, "deliveries that were given up before", len(left), 0)
}

// A process that stops in the middle of a delivery, or with claimed callbacks,
// leaves them due immediately.
func TestAStopPutsCallbacksBack(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.Parallel = 1
	w := setup(t, cfg)
	hanging, arrived, _ := hangingMerchant(t)
	for range 3 {
		require.NoError(t, pay(w.create(t, w.charge(hanging))))
	}
	<-arrived
	w.stop()
	var waiting int
	err := w.db.QueryRow(context.Background(),
		`SELECT count(*) FROM sandbox.callbacks WHERE status = 'pending' AND next_try < clock_timestamp() + interval '1 second'`).Scan(&waiting)
	require.NoError(t, err)
	require.Equal(t, "callbacks that are due again", waiting, 3)
}
