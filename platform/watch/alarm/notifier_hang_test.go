package alarm_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
)

// A hanging receiver does not get one incident after the other: after five posts the
// notifier pauses, and when the receiver answers again every incident is posted.
func TestHangingReceiverPausesPosts(t *testing.T) {
	t.Parallel()
	const incidents, timeout, pause = 12, 50 * time.Millisecond, 100 * time.Millisecond
	pool := pgtest.DB(t)
	var asked, told atomic.Int64
	var answers atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only once the body is read
		if !answers.Load() {
			<-r.Context().Done() // never answers
			return
		}
		told.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)
	for i := range incidents {
		raise(t, pool, letter, "consumer-"+strconv.Itoa(i), "hangs")
	}
	n, err := alarm.NewNotifier(pool, alarm.Webhook{URL: receiver.URL, Secret: secret}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	alarm.Hurry(n, pause, 5*time.Millisecond)
	alarm.Impatient(n, timeout)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	pgtest.Eventually(t, 30*time.Second, func() bool { return asked.Load() >= 7 }, "two more posts after the first five")
	// There is a pause between the fifth and the sixth post, and another one after
	// that.
	if took, least := time.Since(began), 5*timeout+2*6*pause; took < least {
		t.Errorf("a hanging receiver got seven posts within %s, want at least %s", took, least)
	}
	answers.Store(true)
	pgtest.Eventually(t, 30*time.Second, func() bool { return told.Load() >= incidents }, "every incident is posted")
}
