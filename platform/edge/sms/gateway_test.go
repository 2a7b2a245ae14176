package sms_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/goleak"

	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/edge/sms/sandbox"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = []byte("a gateway secret of 32 bytes....")

func sender(t *testing.T, url string) *sms.Gateway {
	t.Helper()
	cfg := sms.DefaultGatewayConfig()
	cfg.URL, cfg.Secret, cfg.Backoff = url, key, time.Millisecond
	g := sms.NewGateway(cfg, time.Now, slog.New(slog.DiscardHandler))
	t.Cleanup(g.CloseIdleConnections)
	return g
}

var message = sms.Message{
	ID: "0198f2c8b5d07c3e9a4f1b2c3d4e5f60", Phone: "+8613800138000", Text: sms.CodeMessage("Stampede", "login", "731902", httpx.Chinese).Text,
}

// A message is kept once, however often it is sent, and is on the page for people and programs.
func TestSandboxKeepsAndShows(t *testing.T) {
	t.Parallel()
	g := sandbox.New(time.Now, func(context.Context) ([]string, error) { return nil, nil })
	mux := chi.NewRouter()
	g.Routes(mux)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	for range 2 {
		require.NoError(t, g.Send(t.Context(), message))
	}
	if got := g.Messages("+8613800138000"); len(got) != 1 || got[0].Text != message.Text || got[0].ID != message.ID {
		t.Errorf("taken %+v", got)
	}
	hostile := sms.Message{ID: "2", Phone: "+4915112345678", Text: "<script>alert(1)</script>"}
	require.NoError(t, g.Send(t.Context(), hostile))
	get := func(query string) string {
		return string(httpxtest.Send(t, http.DefaultClient, http.MethodGet, srv.URL+sandbox.Prefix+query, "", "").Raw)
	}
	if page := get(""); !strings.Contains(page, "731902") || strings.Contains(page, "<script>") {
		t.Errorf("page %s", page)
	}
	var list struct{ Data []sandbox.Got }
	if err := json.Unmarshal([]byte(get("?format=json&phone=%2B4915112345678")), &list); err != nil || len(list.Data) != 1 || list.Data[0].Text != hostile.Text {
		t.Errorf("list %+v, %v", list, err)
	}
	for n := range 150 {
		require.NoError(t, g.Send(t.Context(), sms.Message{ID: "many" + string(rune('0'+n)), Phone: "+8613800138000", Text: "many"}))
	}
	if got := g.Messages(""); len(got) != 100 || got[0].Text != "many" {
		t.Errorf("%d messages are kept", len(got))
	}
}

// The result of each of a gateway's answers, and how often it is called. The conformance
// suite checks what is sent, and what is in errors and in the log.
func TestAnswersOfAGateway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		answers []int // the last one repeats
		want    error
		calls   int64
	}{
		{"taken", []int{200}, nil, 1},
		{"accepted", []int{202}, nil, 1},
		{"accepted by the retry", []int{503, 200}, nil, 2},
		{"busy, then accepted", []int{429, 200}, nil, 2},
		{"fails", []int{500}, sms.ErrUnavailable, 2},
		{"redirects", []int{302}, sms.ErrUnavailable, 2},
		{"refuses", []int{400}, sms.ErrRefused, 1},
		{"refuses the signature", []int{401}, sms.ErrRefused, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				n := min(int(calls.Add(1)), len(c.answers))
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(c.answers[n-1])
			}))
			t.Cleanup(srv.Close)
			err := sender(t, srv.URL).Send(t.Context(), message)
			if !errors.Is(err, c.want) || calls.Load() != c.calls {
				t.Errorf("%v after %d calls, want %v after %d", err, calls.Load(), c.want, c.calls)
			}
		})
	}
}
