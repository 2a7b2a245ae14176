package httpx

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readinessTimeout bounds one check of all components, below the second that probes
// usually wait.
const readinessTimeout = 900 * time.Millisecond

// readyDocument is the answer of /readyz, 503 unless Ready.
type readyDocument struct {
	Ready bool `json:"ready"`
	// Degraded says that a component is not well.
	Degraded   bool                 `json:"degraded"`
	Components map[string]component `json:"components"`
}

type component struct {
	OK  bool   `json:"ok"`
	Why string `json:"why,omitempty"`
}

// Ops is the handler of the operations listener: liveness, readiness of each
// component, metrics and profiles. It never shares an address with shoppers,
// answers only GET and HEAD, and refuses requests of web pages, see OwnHost. host
// is the host of --ops-listen. readiness reports whether clients should be sent
// here, and each component's error, nil for a healthy one.
//
// The profile cmdline is left out: a command line may contain the signing key.
func Ops(host string, registry *prometheus.Registry, readiness func(context.Context) (ready bool, components map[string]error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readinessTimeout)
		defer cancel()
		ready, components := readiness(ctx)
		doc := readyDocument{Ready: ready, Components: map[string]component{}}
		for name, err := range components {
			c := component{OK: err == nil}
			if err != nil {
				c.Why, doc.Degraded = err.Error(), true
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
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin": // not a browser, the address bar, a link of the profiles' index
		default:
			http.Error(w, "this address answers no other site's pages", http.StatusForbidden)
			return
		}
		if !OwnHost(r.Host, host) {
			http.Error(w, "ask by IP address, or name this host in --ops-listen", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// privateZones are the top-level domains that the public DNS never delegates.
var privateZones = []string{"internal", "local", "localhost"}

// OwnHost reports whether a Host header can be of a client that meant this
// machine. A web page whose name is pointed at a private address after it was
// loaded (DNS rebinding) has a name of the public DNS there. Addresses, names
// without a dot as in a container network, names in a private zone, and the
// configured host are our own; a probe may send none.
func OwnHost(header, configured string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return !strings.Contains(host, ".") || strings.EqualFold(host, configured) ||
		slices.Contains(privateZones, host[strings.LastIndexByte(host, '.')+1:])
}
