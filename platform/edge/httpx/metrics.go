package httpx

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// traffic measures the answers of a router. The route is the registered pattern,
// never the path of the request: paths contain order numbers and anything that a
// client makes up, and each would become a separate series.
type traffic struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newTraffic(reg prometheus.Registerer) *traffic {
	auto := promauto.With(reg)
	return &traffic{
		requests: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_http_requests_total",
			Help: "Requests answered, by route, method and status. The rush is counted by code, in stampede_seckill_rush_answers_total.",
		}, []string{"route", "method", "status"}),
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stampede_http_request_seconds",
			Help: "Time from the routed request to the end of its handler, by route. A WebSocket counts until it is accepted.",
			// A poll answered from memory takes 0.1 ms, one that queries Postgres a
			// few ms, and after readTimeout, 15 s, the client is gone.
			Buckets: prometheus.ExponentialBuckets(0.000_25, 4, 9),
		}, []string{"route"}),
	}
}

// measure counts a request when its handler has returned. A request whose handler
// aborted the connection (http.ErrAbortHandler) has no status and is not counted.
func (t *traffic) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		answer := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		next.ServeHTTP(answer, r)
		route := chi.RouteContext(r.Context()).RoutePattern()
		t.requests.WithLabelValues(route, r.Method, strconv.Itoa(statusSoFar(answer))).Inc()
		t.seconds.WithLabelValues(route).Observe(time.Since(began).Seconds())
	})
}
