package sale

import (
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// traceCollector receives spans over OTLP like a real collector, and keeps them.
type traceCollector struct {
	url   string
	mu    sync.Mutex
	spans map[string]*tracepb.Span // by span id
}

func newTraceCollector(t *testing.T) *traceCollector {
	t.Helper()
	c := &traceCollector{spans: map[string]*tracepb.Span{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = unpacked
		}
		raw, err := io.ReadAll(body)
		var request collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &request) != nil {
			t.Errorf("%s %s is not OTLP (%v)", r.Method, r.URL, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range request.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					c.spans[string(s.GetSpanId())] = s
				}
			}
		}
		answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{}) // an empty message cannot fail
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

func attributeOf(s *tracepb.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// find returns the span with a name and an attribute, nil while there is none.
func (c *traceCollector) find(name, key, value string) *tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name && attributeOf(s, key) == value {
			return s
		}
	}
	return nil
}

// below lists the chains of names from a span downwards, "a > b > c" with the
// subject of a message in brackets, through children and, if requested, through
// the links that merge many traces.
func (c *traceCollector) below(from *tracepb.Span, links bool) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[string][]*tracepb.Span{}
	for _, s := range c.spans {
		next[string(s.GetParentSpanId())] = append(next[string(s.GetParentSpanId())], s)
		for _, l := range s.GetLinks() {
			if !links {
				continue
			}
			if s.GetName() == "rush" { // the attempt names its batch, the writer names its messages
				next[string(s.GetSpanId())] = append(next[string(s.GetSpanId())], c.spans[string(l.GetSpanId())])
			} else {
				next[string(l.GetSpanId())] = append(next[string(l.GetSpanId())], s)
			}
		}
	}
	chains := map[string]bool{}
	var walk func(s *tracepb.Span, chain string)
	walk = func(s *tracepb.Span, chain string) {
		if s == nil {
			return
		}
		chain += s.GetName()
		if subject := attributeOf(s, "subject"); subject != "" {
			chain += "[" + strings.Join(strings.Split(subject, ".")[:2], ".") + "]"
		}
		chains[chain] = true
		for _, child := range next[string(s.GetSpanId())] {
			walk(child, chain+" > ")
		}
	}
	walk(from, "")
	return chains
}

// lacks reports whether no chain has the given prefix and suffix.
func lacks(chains map[string]bool, prefix, end string) bool {
	for c := range chains {
		if strings.HasPrefix(c, prefix) && strings.HasSuffix(c, end) {
			return false
		}
	}
	return true
}

// TestOrderIsOneTraceFromRushToPush reads a collector's spans.
func TestOrderIsOneTraceFromRushToPush(t *testing.T) {
	t.Parallel()
	traces := newTraceCollector(t)
	databaseURL, redisURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t)
	in := shop.Serve(t, databaseURL, redisURL, "--trace-endpoint="+traces.url, "--trace-sample=1")
	sale := in.Plan(t, 50, 0)
	in.AwaitLoaded(t, sale.ItemID)

	no := shop.NewBuyer(t, in, 42).Paid(t, sale.ItemID)

	const written = "rush > lane batch > publish[grants."
	var chains map[string]bool
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("steps seen:\n%s", strings.Join(slices.Sorted(maps.Keys(chains)), "\n"))
		}
	})
	pgtest.Eventually(t, 30*time.Second, func() bool {
		chains = traces.below(traces.find("rush", "order_no", no), false)
		return chains["rush > lane batch > reserve"] &&
			!lacks(chains, written, " > write orders > publish[events.order] > handle notify-push[events.order]")
	}, "one trace from the rush to the push")

	const callback = "POST /api/v1/payments/{provider}/notify"
	pgtest.Eventually(t, 30*time.Second, func() bool {
		settled := traces.find("settle payment", "order_no", no)
		if settled == nil {
			return false
		}
		traces.mu.Lock()
		parent := traces.spans[string(settled.GetParentSpanId())]
		traces.mu.Unlock()
		if parent.GetName() != callback {
			return false
		}
		chains = traces.below(parent, false)
		return !lacks(chains, callback+" > settle payment > publish[events.order] > ", "handle notify-push[events.order]")
	}, "one trace from the callback to the push")

	// In a crowd many attempts share a batch and a transaction; each must still
	// be traceable.
	item, err := strconv.ParseInt(sale.ItemID, 10, 64)
	require.NoError(t, err)
	cfg := loadgen.DefaultConfig()
	cfg.BaseURL, cfg.ItemID, cfg.Shoppers, cfg.Connections, cfg.Sockets, cfg.PayShare = in.URL, item, 120, 24, 0, 0
	cfg.Token = func(user int64) (string, error) { return shop.NewBuyer(t, in, user).Token, nil }
	report, err := loadgen.Run(t.Context(), cfg)
	require.NoError(t, err)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		for _, e := range report.Entries {
			if e.Answer != "queued" {
				continue
			}
			chains = traces.below(traces.find("rush", "order_no", e.OrderNo.String()), true)
			if lacks(chains, "rush > lane batch > ", "handle notify-push[events.order]") {
				return false
			}
		}
		return true
	}, "every winner's trace to be complete")
}
