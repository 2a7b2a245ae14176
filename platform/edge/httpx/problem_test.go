package httpx_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

func echo(context.Context, *echoInput) (*echoOutput, error) { return &echoOutput{}, nil }

func TestARefusalQuotesLittleOfTheRequest(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t)
	httpx.Register(rt.API, httpx.Op{Method: http.MethodPost, Path: "/open/{id}", ID: "open", NoKey: "a test", Summary: "Open", MaxBodyBytes: 4 << 20}, echo)
	large := strings.Repeat("个", 300_000) // three bytes each
	many := &strings.Builder{}
	for i := range 1000 {
		fmt.Fprintf(many, `"unknown%d":%d,`, i, i)
	}
	for name, c := range map[string]struct {
		body    string
		details int
		value   any // of the first detail
	}{
		"a small number":       {`{"quantity":0}`, 1, 0.0},
		"a short word":         {`{"quantity":"two"}`, 1, "two"},
		"a boolean":            {`{"quantity":true}`, 1, true},
		"a large text":         {`{"quantity":"` + large + `"}`, 1, strings.Repeat("个", 100) + "…"},
		"a list":               {`{"quantity":["` + large + `"]}`, 1, nil},
		"an unknown member":    {`{"quantity":1,"price":"` + large + `"}`, 1, nil},
		"a large name":         {`{"quantity":1,"` + large + `":1}`, 1, nil},
		"many unknown":         {`{` + many.String() + `"quantity":1}`, 20, nil},
		"another type of body": {`["` + large + `"]`, 1, nil},
	} {
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/open/1", strings.NewReader(c.body)))
		var p struct {
			Detail string
			Errors []struct {
				Message, Location string
				Value             any
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusUnprocessableEntity || len(p.Errors) != c.details {
			t.Errorf("%s: %d with %d errors, want 422 with %d (%v): %.300s", name, w.Code, len(p.Errors), c.details, err, w.Body)
			continue
		}
		first := p.Errors[0]
		if first.Value != c.value || first.Message == "" || first.Location == "" {
			t.Errorf("%s: %+v, want the value %v", name, first, c.value)
		}
		if w.Body.Len() > 8<<10 || !utf8.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d bytes for %d", name, w.Body.Len(), len(c.body))
		}
		if name == "many unknown" && !strings.Contains(p.Detail, "first 20 of 1000") {
			t.Errorf("%s: the total is missing: %s", name, p.Detail)
		}
	}
}

// TestCanceledRequestIsNotAFailure: the client left, or the server stops.
func TestCanceledRequestIsNotAFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		level string
	}{
		"cut":    {fmt.Errorf("order: read: %w", context.Canceled), "level=DEBUG"},
		"slow":   {fmt.Errorf("order: read: %w", context.DeadlineExceeded), "level=WARN"},
		"failed": {errors.New("order: read: the disk is gone"), "level=ERROR"},
	} {
		var lines bytes.Buffer
		log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
		rt := httpx.NewRouter(auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now), log, "test", prometheus.NewRegistry())
		httpx.Register(rt.API, httpx.Op{Method: http.MethodPost, Path: "/read/{id}", ID: "read", NoKey: "a test", Summary: "Read"},
			func(context.Context, *echoInput) (*echoOutput, error) { return nil, c.err })
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/read/1", strings.NewReader(`{"quantity":1}`)))
		if told := lines.String(); strings.Count(told, "operation=read") != 1 || !strings.Contains(told, c.level+" msg=\"request ") || strings.Contains(told, "level=ERROR") != (c.level == "level=ERROR") {
			t.Errorf("%s, answered %d: logged %s", name, w.Code, told)
		}
	}
}
