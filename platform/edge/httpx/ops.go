package httpx

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readinessTimeout bounds one check of all components, below the second that probes
// usually wait.
const readinessTimeout = 900 * time.Millisecond

// readyDocument is the answer of /readyz.
type readyDocument struct {
	Ready      bool                 `json:"ready"`
	Components map[string]component `json:"components"`
}

type component struct {
	OK  bool   `json:"ok"`
	Why string `json:"why,omitempty"`
}

// Ops is the handler of the operations listener: liveness, readiness of each
// component, metrics and profiles. It never shares an address with shoppers.
// readiness returns each component's error, nil for a healthy one.
func Ops(registry *prometheus.Registry, readiness func(context.Context) map[string]error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readinessTimeout)
		defer cancel()
		doc := readyDocument{Ready: true, Components: map[string]component{}}
		for name, err := range readiness(ctx) {
			c := component{OK: err == nil}
			if err != nil {
				c.Why, doc.Ready = err.Error(), false
			}
			doc.Components[name] = c
		}
		w.Header().Set("Content-Type", "application/json")
		if !doc.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(doc) // the prober may have left
	})
	// One metric that cannot be read, such as the alarms while Postgres is down,
	// must not suppress the others, which are needed most then.
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
